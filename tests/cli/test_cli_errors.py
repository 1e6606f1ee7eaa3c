"""What a user can do wrong: one sentence, one hint, the right exit code, no traceback."""

import json
import os
from pathlib import Path

import builders
import pytest

ROOT_COMMANDS = ["scan", "snapshot", "verify"]


@pytest.mark.parametrize("command", ROOT_COMMANDS)
def test_a_missing_root_is_said(ck, place, command):
    """Where no directory is, nothing is made up."""
    found = ck(command, "--root", place.top + b"/nowhere")
    assert (found.code, found.out) == (2, "")
    assert found.error == f"there is no cache root at {place.top.decode()}/nowhere"
    assert "VLLM_CACHE_ROOT" in found.hint


@pytest.mark.parametrize("command", ROOT_COMMANDS)
def test_a_file_is_no_root(ck, place, command):
    """A regular file where a root should be is like no root."""
    builders.write(place.top + b"/file", b"", 1)
    assert "there is no cache root" in ck(command, "--root", place.top + b"/file").error


def test_an_empty_root_has_no_families(ck, place):
    """A root in which vLLM compiled nothing is fine for every command that looks."""
    os.mkdir(place.top + b"/empty")
    empty = ("--root", place.top + b"/empty")
    assert "no families" in ck.ok("scan", *empty).out
    assert "0 pins and 0 families checked: all of it holds" in ck.ok("verify", *empty).out
    data = ck.json("snapshot", *empty)
    assert (data["builds"], data["total_bytes"], data["problems"]) == ([], 0, [])
    assert "0 families" in ck.ok("snapshot", *empty).out
    assert "nothing to restore" in ck.ok("restore", *empty).out
    assert ck("pin", "abcd", *empty).code == 2


@pytest.mark.parametrize("option", ["--root", "--store"])
def test_an_empty_path_is_wrong_usage(ck, place, option):
    """`--root "$UNSET"` never means the current directory."""
    found = ck("snapshot", option, "")
    assert (found.code, found.error) == (2, "--store or --root is empty")


@pytest.mark.parametrize("seconds", ["-1", "soon", "nan"])
def test_a_timeout_is_a_number_of_seconds(ck, place, seconds):
    """--lock-timeout takes 0 and more."""
    assert ck("scan", "--lock-timeout", seconds).code == 2


def test_wrong_words_are_wrong_usage(ck, place):
    """Unknown commands, options and arguments are told with the command's help as hint."""
    for arguments, hint in (
        (("frobnicate",), "cachekeeper --help"),
        (("scan", "--bogus"), "cachekeeper scan --help"),
        (("scan", "extra"), "cachekeeper scan --help"),
        (("pin",), "cachekeeper pin --help"),
        (("snapshot", "--require-ranks", "0"), "cachekeeper snapshot --help"),
        (("mark", "fast", "suspect"), "cachekeeper mark --help"),
    ):
        found = ck(*arguments)
        assert (found.code, found.hint) == (2, f"{hint} shows what it takes")


def test_a_bad_status_lists_the_good_ones(ck, pinned):
    """pin and mark know the same statuses, and say them."""
    for arguments in (
        ("pin", pinned.first.aot, "--status", "good"),
        ("mark", "fast", "good", "--reason", "r"),
    ):
        found = ck(*arguments)
        assert (found.code, found.error) == (2, "'good' is no status")
        assert "rejected:performance" in found.hint


def test_a_status_needs_a_reason(ck, pinned):
    """An empty reason is none."""
    assert ck("mark", "fast", "suspect", "--reason", "  ").error == "a status needs a reason"


@pytest.mark.parametrize("name", ["", "-x", "a b", "a/b", "b:1234", "x" * 129])
def test_a_pin_name_is_a_word(ck, place, name):
    """Names that could be mistaken for something else are refused."""
    found = ck("pin", place.first.aot, f"--name={name}")
    assert found.code == (0 if name == "" else 2)


@pytest.mark.parametrize(
    "arguments",
    [
        ("show", "x"),
        ("check",),
        ("rebuild",),
        ("unpin", "x", "--yes"),
        ("mark", "x", "suspect", "--reason", "r"),
        ("restore",),
        ("restore", "x"),
        ("diff", "x", "y"),
        ("log", "x"),
        ("verify", "x"),
        ("pin", "x", "--from", "s:1234"),
    ],
)
def test_what_needs_a_store_says_that_there_is_none(ck, newcomer, arguments):
    """Before the first snapshot there is nothing to show, and no store is made for asking."""
    found = ck(*arguments)
    assert (found.code, found.error) == (2, f"there is no store at {newcomer.store.decode()}")
    assert "CACHEKEEPER_STORE" in found.hint
    assert not os.path.exists(newcomer.store)


def test_listings_are_empty_before_the_first_write(ck, newcomer):
    """pins and log have an empty answer on a fresh machine, and make no store."""
    assert ck.json("pins")["pins"] == []
    assert ck.json("log")["events"] == []
    assert "no pins" in ck.ok("pins").out
    assert ck.ok("log").out == "nothing yet\n"
    assert not os.path.exists(newcomer.store)


def test_looking_needs_no_store_and_makes_none(ck, newcomer):
    """scan, verify and the plan of a snapshot or pin write nothing at all."""
    ck.ok("scan")
    ck.ok("verify")
    ck.ok("snapshot", "--dry-run")
    ck.ok("pin", newcomer.first.aot, "--dry-run")
    ck.ok("show", f"live:{newcomer.first.aot}")
    assert not os.path.exists(newcomer.store)


def test_the_store_is_made_private_on_the_first_write(ck, newcomer):
    """The first snapshot makes the store, for its owner alone."""
    ck.ok("snapshot")
    assert os.stat(newcomer.store).st_mode & 0o777 == 0o700
    assert json.loads(Path(os.fsdecode(newcomer.store), "format.json").read_text())["format"] == 1


@pytest.mark.parametrize("command", ["scan", "snapshot", "verify", "restore"])
def test_root_and_store_lie_apart(ck, place, command):
    """A root inside the store, and a store inside the root, are refused before anything else."""
    inside = place.store + b"/objects/cache"
    os.makedirs(inside)
    found = ck(command, "--root", inside)
    assert (found.code, "lies inside the store" in found.error) == (3, True)
    os.rename(place.store, place.root + b"/store")
    found = ck(command, "--store", place.root + b"/store")
    assert (found.code, "lies inside the cache root" in found.error) == (3, True)


def test_a_new_store_is_not_made_inside_the_root(ck, newcomer):
    """Not even through a symbolic link."""
    os.symlink(newcomer.root, newcomer.top + b"/link")
    before = newcomer.tree()
    assert ck("pin", newcomer.first.aot, "--store", newcomer.top + b"/link/store").code == 3
    assert ck("snapshot", "--store", newcomer.root).code == 3
    assert newcomer.tree() == before


def test_a_directory_that_is_no_store_is_left_alone(ck, newcomer):
    """A store is not made among somebody's files."""
    builders.write(newcomer.store + b"/thesis.txt", b"mine", 1)
    found = ck("snapshot")
    assert (found.code, "is not a cachekeeper store" in found.error) == (2, True)
    assert os.listdir(newcomer.store) == [b"thesis.txt"]


def test_a_store_that_cannot_be_made(ck, newcomer):
    """A path below a file is an error of the disk."""
    builders.write(newcomer.top + b"/file", b"", 1)
    found = ck("snapshot", "--store", newcomer.top + b"/file/store")
    assert (found.code, "cannot make a store" in found.error) == (5, True)


def test_a_newer_store_is_refused(ck, place):
    """The way out is an upgrade; nothing is read or written."""
    path = Path(os.fsdecode(place.store), "format.json")
    path.write_text(json.dumps(json.loads(path.read_text()) | {"format": 2}))
    for command in ("scan", "snapshot", "pins", "check"):
        found = ck(command)
        assert (found.code, "upgrade cachekeeper" in found.hint) == (3, True)


def test_a_broken_format_file_is_said(ck, place):
    """A store whose format file is garbage is damaged, not new."""
    Path(os.fsdecode(place.store), "format.json").write_text("{")
    found = ck("snapshot")
    assert (found.code, "is not a store's format file" in found.error) == (3, True)


def test_a_taken_name_is_refused(ck, pinned):
    """A pin is never replaced by another of its name."""
    found = ck("pin", pinned.second.aot, "--name", "fast")
    assert (found.code, "the pin name fast is taken" in found.error) == (3, True)
    assert "unpin fast" in found.hint


def test_a_second_floor_is_refused(ck, pinned):
    """One unit and root has one floor; other statuses may be many."""
    before = ck.json("log")
    found = ck("pin", pinned.first.aot, "--name", "faster")
    assert (found.code, "already has a floor" in found.error) == (3, True)
    assert "fast" in found.hint
    assert ck.json("log") == before
    ck.ok("pin", pinned.first.aot, "--name", "faster", "--status", "candidate")


def test_a_second_floor_is_refused_through_mark(ck, pinned):
    """Neither a promotion nor a build's mark makes a second floor."""
    ck.ok("pin", pinned.first.aot, "--name", "draft", "--status", "candidate")
    found = ck("mark", "draft", "floor", "--reason", "faster")
    assert (found.code, "already has a floor" in found.error) == (3, True)
    ck.ok("mark", "fast", "reference", "--reason", "there is a better one")
    ck.ok("mark", "draft", "floor", "--reason", "the better one")
    assert {pin["name"]: pin["status"] for pin in ck.json("pins")["pins"]} == {
        "fast": "reference",
        "draft": "floor",
    }


def test_only_a_pin_can_be_a_floor(ck, place):
    """A floor is what a pin protects: content that nothing protects cannot be one."""
    snapshot = ck.json("snapshot")["id"]
    for reference in (place.first.aot, snapshot):
        found = ck("mark", reference, "floor", "--reason", "fast")
        assert (found.code, "cannot be a floor" in found.error) == (3, True)


def test_unpin_without_a_terminal_needs_yes(ck, pinned):
    """Nothing is removed unasked."""
    found = ck("unpin", "fast")
    assert (found.code, found.hint) == (2, "give --yes")
    assert len(ck.json("pins")["pins"]) == 1
    assert "unpinned fast" in ck.ok("unpin", "fast", "--yes").out
    assert ck.json("pins")["pins"] == []


def test_restore_elsewhere_is_refused(ck, pinned):
    """Content goes back where it was made, or nowhere."""
    other = pinned.top + b"/other"
    builders.copy_tree(pinned.root, other)
    before = builders.tree_of(other)
    for reference in ("fast", pinned.first.aot, f"b:{ck.json('show', 'fast')['build']}"):
        found = ck("restore", reference, "--root", other)
        assert (found.code, "restored nowhere else" in found.error) == (3, True)
        assert f"--root {pinned.root.decode()}" in found.hint
    assert builders.tree_of(other) == before


def test_verify_elsewhere_is_wrong_usage(ck, pinned):
    """A pin of another root has nothing to be compared with here."""
    other = pinned.top + b"/other"
    builders.copy_tree(pinned.root, other)
    found = ck("verify", "fast", "--root", other)
    assert (found.code, found.hint) == (2, f"add --root {pinned.root.decode()}")


def damage(place, digest: str) -> None:
    """Flip one byte of a stored object."""
    path = os.path.join(place.store, b"objects", digest[:2].encode(), digest[2:].encode())
    os.chmod(path, 0o600)
    with open(path, "r+b") as file:
        first = file.read(1)
        file.seek(0)
        file.write(bytes([first[0] ^ 1]))


def stored_model(place) -> str:
    """Return the digest of the pinned model of rank 0."""
    return builders.digest(place.tree()[place.first.aot_path + b"/rank_0_0/model"].content)


def test_a_damaged_object_is_not_restored(ck, pinned):
    """What is not what its name says never reaches the root, and nothing is left half-done."""
    model = stored_model(pinned)
    pinned.overwrite()
    damage(pinned, model)
    before = pinned.families()
    found = ck("restore")
    assert (found.code, "is damaged" in found.error) == (3, True)
    assert "cachekeeper check" in found.hint
    assert pinned.families() == before
    assert builders.working_litter(pinned.root) == []


def test_a_missing_object_is_refused_before_anything_is_written(ck, pinned):
    """A restore that cannot succeed does not begin."""
    model = stored_model(pinned)
    pinned.overwrite()
    path = os.path.join(pinned.store, b"objects", model[:2].encode(), model[2:].encode())
    os.remove(path)
    before = pinned.tree()
    assert "is missing or has another size" in ck("restore", "--dry-run").error
    assert ck("restore").code == 3
    assert pinned.tree() == before


def test_a_damaged_object_is_not_pinned_from_a_snapshot(ck, place):
    """pin --from re-hashes what it protects, also as a dry run."""
    snapshot = ck.json("snapshot")["id"]
    damage(place, stored_model(place))
    for extra in ((), ("--dry-run",)):
        found = ck("pin", place.first.aot, "--from", snapshot, *extra)
        assert (found.code, "is damaged" in found.error) == (3, True)


def test_a_damaged_pin_record_is_said(ck, pinned):
    """A pin whose record cannot be read protects nothing: check, verify and restore say so."""
    (record,) = Path(os.fsdecode(pinned.store), "records", "pin").iterdir()
    record.chmod(0o600)
    record.write_bytes(record.read_bytes().replace(b"floor", b"flaar"))
    Path(os.fsdecode(pinned.store), "catalogue.sqlite").unlink()
    assert ck.json("check", code=1)["problems"][0]["code"] == "damaged-record"
    assert ck.json("pins")["pins"] == []
    found = ck("restore")
    assert (found.code, "pin record cannot be read" in found.error) == (3, True)
    assert ck("verify").code == 1
    assert "snapshot" in {event["kind"] for event in ck.json("log", pinned.first.aot)["events"]}


def test_a_mistyped_option_value_of_a_path_is_bytes(ck, place):
    """A root whose name is not UTF-8 is shown escaped, not refused."""
    odd = place.top + b"/caf\xe9"
    os.rename(place.root, odd)
    assert "caf\\xe9" in ck.ok("scan", "--root", odd).out
    assert ck.json("scan", "--root", odd)["roots"][0]["path"].endswith("caf\\xe9")
