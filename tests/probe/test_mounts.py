"""Mount points below a path, from the kernel's table."""

from cachekeeper.probe.mounts import mounts_below

LINE = b"36 35 98:0 / %s rw,noatime master:1 - ext4 /dev/root rw,errors=continue\n"


def table(tmp_path, *points):
    """Write a table with these mount points."""
    path = tmp_path / "mountinfo"
    path.write_bytes(b"".join(LINE % point for point in points) + b"a broken line\n")
    return bytes(path)


def test_points_at_and_below_a_path_are_found(tmp_path):
    """The path itself counts, one that only begins like it does not."""
    where = table(tmp_path, b"/", b"/r/a", b"/r/a/rank_0_0", b"/r/ab")
    assert (b"/r/a", b"/r/a/rank_0_0") == mounts_below(b"/r/a", where)


def test_white_space_is_unescaped(tmp_path):
    """The kernel writes a space as \\040."""
    assert (b"/r/a b/c",) == mounts_below(b"/r/a b", table(tmp_path, rb"/r/a\040b/c"))


def test_without_a_table_there_are_none(tmp_path):
    """Where the kernel's table cannot be read, the exchange itself will tell."""
    assert () == mounts_below(b"/r", bytes(tmp_path / "none"))


def test_this_machine_has_a_root():
    """The real table is read."""
    assert b"/" not in mounts_below(b"/nowhere")
    assert mounts_below(b"") != ()
