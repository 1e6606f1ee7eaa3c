"""The command as a process of its own: environments, streams, signals, terminals, other users."""

import errno
import json
import os
import pty
import select
import signal
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import builders
import pytest
from cli_runner import COMMAND, TIMEOUT_S, Outcome, in_process

CONSOLE = Path(sys.executable).with_name("cachekeeper")
NOBODY = 54321  # no passwd entry has this number
# Another user may not be able to reach this interpreter, so it gives up its rights after it has
# imported everything and done it once, on a root and store of its own.
AS_USER = """
import contextlib, io, json, os, sys, tempfile
from cachekeeper.cli.main import run

def caught(arguments):
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = run(arguments)
    return code, out.getvalue(), err.getvalue()

place, nobody, environment, commands = json.loads(sys.argv[1])
scratch = tempfile.mkdtemp(dir=place)
rank = scratch + "/vllm/torch_compile_cache/torch_aot_compile/" + "a" * 64 + "/rank_0_0"
os.makedirs(rank)
with open(rank + "/model", "wb") as model:
    model.write(b"\\x80\\x04N.")
common = ["--root", scratch + "/vllm", "--store", scratch + "/store"]
for arguments in (["snapshot"], ["pin", "aaaa"], ["restore"], ["verify"], ["log"], ["show", "x"],
                  ["scan", "--json"], ["check"], ["scan", "--bogus"], ["--help"]):
    caught(arguments + common)
os.setgroups([])
os.setresgid(nobody, nobody, nobody)
os.setresuid(nobody, nobody, nobody)
os.environ.clear()
os.environ.update(environment)
print(json.dumps([caught(arguments) for arguments in commands]))
"""

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="becomes another user")


@pytest.fixture
def as_user(tmp_path):
    """Run commands as a user without a passwd entry, with an environment of their own."""

    def call(*commands, **environment):
        lists = [[os.fsdecode(each) for each in command] for command in commands]
        words = json.dumps([str(tmp_path), NOBODY, environment, lists])
        done = subprocess.run(
            [sys.executable, "-c", AS_USER, words], capture_output=True, check=True, text=True,
            timeout=TIMEOUT_S,
        )  # fmt: skip
        assert done.stderr == ""
        return [Outcome(*found) for found in json.loads(done.stdout)]

    return call


def test_the_console_script_and_the_module_are_one(place):
    """`cachekeeper` and `python -m cachekeeper` give the same answer."""
    script = subprocess.run([CONSOLE, "scan", "--json"], capture_output=True, check=True)
    assert script.stdout.decode() == in_process("scan", "--json").out


def test_an_empty_environment_is_enough_to_look(newcomer):
    """`env -i`: help, scan and verify of a given root need no home."""
    for arguments in (("--help",), ("scan", "--root", newcomer.root)):
        found = in_process(*arguments, environment={})
        assert (found.code, found.err) == (0, "")
    found = in_process("verify", "--root", newcomer.root, environment={})
    assert (found.code, found.err) == (0, "")


@pytest.mark.parametrize(
    "arguments",
    [
        ("snapshot",),
        ("pin", "FIRST"),
        ("pins",),
        ("log",),
        ("check",),
        ("show", "x"),
        ("restore",),
        ("rebuild",),
        ("unpin", "x", "--yes"),
        ("mark", "x", "suspect", "--reason", "r"),
        ("diff", "x", "y"),
    ],
)
def test_without_a_home_the_store_must_be_named(ck, newcomer, arguments, monkeypatch):
    """No default place: the hint names the variable, and nothing is written anywhere."""
    for name in ("HOME", "XDG_DATA_HOME", "CACHEKEEPER_STORE"):
        monkeypatch.delenv(name)
    found = ck(*(newcomer.first.aot if each == "FIRST" else each for each in arguments))
    assert (found.code, "CACHEKEEPER_STORE" in found.hint) == (2, True)


def test_without_a_home_the_root_must_be_named(ck, newcomer, monkeypatch):
    """No default root either."""
    for name in ("HOME", "XDG_CACHE_HOME", "VLLM_CACHE_ROOT"):
        monkeypatch.delenv(name)
    found = ck("scan")
    assert (found.code, "VLLM_CACHE_ROOT" in found.hint) == (2, True)


@pytest.fixture
def theirs(newcomer) -> str:
    """Give a directory of the other user for a store."""
    store = newcomer.top + b"/theirs"
    os.mkdir(store)
    os.chown(store, NOBODY, NOBODY)
    return os.fsdecode(store)


@needs_root
def test_a_user_without_a_passwd_entry(as_user, newcomer, theirs):
    """A container's arbitrary uid can look without a store, and store in a place it names."""
    for model in (newcomer.model(), newcomer.model(1), newcomer.model(0, newcomer.second)):
        os.chmod(model, 0o644)
    root = ("--root", newcomer.root)
    scan, verify, usage, refused, done = as_user(
        ("scan", *root),
        ("verify", *root),
        ("--help",),
        ("snapshot", *root),
        ("snapshot", *root, "--store", theirs),
    )
    assert [found.code for found in (scan, verify, usage)] == [0, 0, 0]
    assert (refused.code, "CACHEKEEPER_STORE" in refused.hint) == (2, True)
    assert (done.code, done.err) == (0, "")
    assert os.stat(os.path.join(theirs, "format.json")).st_uid == NOBODY


@needs_root
def test_a_home_that_cannot_be_entered(as_user, newcomer):
    """HOME of another user is no reason to fail for a command that only looks at a root."""
    os.mkdir(newcomer.top + b"/home", 0o700)
    home = os.fsdecode(newcomer.top + b"/home")
    root = ("--root", newcomer.root)
    scan, show, default, stored = as_user(
        ("scan", *root), ("show", f"live:{newcomer.first.aot}", *root), ("scan",),
        ("snapshot", *root), HOME=home,
    )  # fmt: skip
    assert (scan.code, show.code) == (0, 0)
    assert (default.code, stored.code) == (2, 5)
    named = {"CACHEKEEPER_STORE": home + "/store", "HOME": home}
    assert [found.code for found in as_user(("scan", *root), **named)] == [5]


@needs_root
def test_an_unreadable_root(as_user, newcomer, theirs):
    """A root of somebody else is an error of the disk, said in words."""
    os.chmod(newcomer.root, 0o700)
    commands = [(name, "--root", newcomer.root) for name in ("scan", "verify", "snapshot")]
    for found in as_user(*commands, CACHEKEEPER_STORE=theirs):
        where = os.fsdecode(newcomer.root)
        assert (found.code, found.error) == (5, f"{where}: Permission denied")
        assert found.hint == "run as the owner of these files, or as root"


@needs_root
def test_unreadable_parts_of_a_root(as_user, newcomer, theirs):
    """What cannot be read is a problem of its family, stored marked, and never pinned."""
    os.chmod(newcomer.root + b"/" + newcomer.second.aot_path, 0o700)
    root = ("--root", newcomer.root)
    stored, refused, verify = as_user(  # models are mode 0600
        ("snapshot", *root), ("pin", newcomer.first.aot, *root), ("verify", *root),
        CACHEKEEPER_STORE=theirs,
    )  # fmt: skip
    assert stored.code == 1
    assert "rank_0_0/model: Permission denied (unreadable)" in stored.out
    assert (refused.code, "is damaged" in refused.error) == (3, True)
    assert (verify.code, "(unreadable)" in verify.out) == (1, True)


@needs_root
def test_an_unreadable_cache_inside_a_root(as_user, newcomer):
    """A scan says what it could not look into, and goes on."""
    os.chmod(newcomer.root + b"/torch_compile_cache", 0o700)
    (found,) = as_user(("scan", "--root", newcomer.root))
    assert (found.code, "Permission denied (unreadable)" in found.out) == (0, True)


@needs_root
def test_a_store_of_another_user(as_user, pinned):
    """A private store is not taken for an empty one: pins that cannot be read are no pins."""
    root = ("--root", pinned.root)
    commands = [("pins",), ("log",), ("scan", *root), ("verify", *root), ("snapshot", *root)]
    *looking, writing = as_user(*commands, CACHEKEEPER_STORE=os.fsdecode(pinned.store))
    for found in looking:
        assert (found.code, "cannot look into" in found.error) == (5, True)
        assert "store's owner" in found.hint
    assert writing.code == 5


@needs_root
def test_only_the_owner_restores(as_user, pinned):
    """Content of another owner is refused before anything is written."""
    builders.remove_tree(pinned.root + b"/" + pinned.first.aot_path)
    for path, _directories, names in os.walk(pinned.store):
        os.chmod(path, 0o755)
        for name in names:
            os.chmod(os.path.join(path, name), 0o644)
    os.chown(pinned.root, NOBODY, NOBODY)
    before = pinned.tree()
    command = ("restore", "--root", pinned.root)
    (found,) = as_user(command, CACHEKEEPER_STORE=os.fsdecode(pinned.store))
    assert (found.code, "only root can give it back" in found.error) == (3, True)
    assert pinned.tree() == before


def test_a_closed_pipe_ends_quietly(pinned):
    """`cachekeeper log | head -0`: no traceback, no message."""
    reader, writer = os.pipe()
    os.close(reader)
    with open(writer, "wb") as pipe:
        done = subprocess.run(
            [*COMMAND, "scan"], stdout=pipe, stderr=subprocess.PIPE, check=False, timeout=TIMEOUT_S
        )
    assert (done.returncode, done.stderr) == (-signal.SIGPIPE, b"")


@pytest.mark.parametrize("closed", [(0,), (1,), (2,), (0, 1, 2)])
def test_closed_streams_are_no_bug(pinned, closed):
    """A daemon's closed stdin, stdout or stderr harms nothing, also where a file is written."""

    def close() -> None:
        for number in closed:
            os.close(number)

    before = pinned.tree()
    done = subprocess.run(
        [*COMMAND, "snapshot", "--json"], preexec_fn=close, capture_output=True, check=False,
        timeout=TIMEOUT_S,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, b"")
    assert pinned.tree() == before
    assert in_process("check").code == 0


def test_a_question_without_stdin_needs_yes(pinned):
    """unpin with a closed stdin asks nobody."""
    done = subprocess.run(
        [*COMMAND, "unpin", "fast"], preexec_fn=lambda: os.close(0), capture_output=True,
        check=False, timeout=TIMEOUT_S,
    )  # fmt: skip
    assert (done.returncode, b"give --yes" in done.stderr) == (2, True)


def test_a_full_stdout_is_an_error(place):
    """An answer that could not be written is not taken for one that was."""
    with open("/dev/full", "wb") as full:
        done = subprocess.run(
            [*COMMAND, "scan"], stdout=full, stderr=subprocess.PIPE, check=False, timeout=TIMEOUT_S
        )
    assert done.returncode == 5
    assert b"no space" in done.stderr


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "utf-8"])
def test_any_encoding_of_stdout_will_do(place, encoding):
    """A name that the terminal cannot show is escaped, and nothing fails."""
    builders.write(place.root + "/caché…".encode(), b"", 1)
    found = subprocess.run(
        [*COMMAND, "scan"], env=os.environ | {"PYTHONIOENCODING": encoding}, capture_output=True,
        check=False, timeout=TIMEOUT_S,
    )  # fmt: skip
    assert (found.returncode, found.stderr) == (0, b"")
    expected = "caché…".encode(encoding, "backslashreplace")
    assert expected in found.stdout


def test_ctrl_c_leaves_nothing(newcomer):
    """An interrupted command says so, exits with 130, and leaves no half-done thing."""
    program = (
        "import os, sys\n"
        "from cachekeeper.cli.main import run\n"
        "from cachekeeper.fs import primitives\n"
        "seen = []\n"
        "def stop(name, path):\n"
        "    seen.append(name)\n"
        "    if seen.count('rename') == 20 and name == 'rename':\n"
        "        os.kill(os.getpid(), 2)\n"
        "with primitives.before_each(stop):\n"
        "    sys.exit(run(['snapshot']))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, check=False, timeout=TIMEOUT_S
    )
    assert done.returncode == 130
    found = Outcome(done.returncode, done.stdout.decode(), done.stderr.decode())
    assert found.error == "interrupted"
    assert in_process("verify").code == 0
    assert in_process("snapshot").code == 0
    assert in_process("check").code == 0


def read_all(master: int) -> bytes:
    """Return everything that a terminal's other side wrote until it was closed."""
    parts = []
    while True:
        select.select([master], [], [], TIMEOUT_S)
        try:
            part = os.read(master, 65536)
        except OSError as error:
            if error.errno != errno.EIO:
                raise
            break
        if not part:
            break
        parts.append(part)
    return b"".join(parts)


def on_terminal(*arguments: str, typed: bytes = b"") -> tuple[int, bytes, bytes]:
    """Run a command with stdin and stderr on a terminal; returns code, stdout, terminal."""
    master, slave = pty.openpty()
    with closing(os.fdopen(master, "rb", buffering=0)):
        process = subprocess.Popen(
            [*COMMAND, *arguments], stdin=slave, stdout=subprocess.PIPE, stderr=slave
        )
        os.close(slave)
        os.write(master, typed)
        shown = read_all(master)
        out, _ = process.communicate(timeout=TIMEOUT_S)
    return process.returncode, out, shown


def test_a_terminal_shows_progress(pinned):
    """Long work is shown on a terminal, and wiped when it is done; a pipe shows none."""
    code, out, shown = on_terminal("verify")
    assert code == 0
    assert b"#] verifying" in shown
    assert shown.endswith(b"\r\x1b[K")
    assert b"\x1b" not in out
    assert in_process("verify").err == ""
    assert in_process("verify").out.encode() == out


@pytest.mark.parametrize("option", ["--quiet", "--json"])
def test_progress_can_be_silenced(pinned, option):
    """--quiet and --json show no progress on a terminal either."""
    assert on_terminal("verify", option)[2] == b""


def test_unpin_asks_on_a_terminal(pinned):
    """y removes the pin, n does not and is no success."""
    code, out, shown = on_terminal("unpin", "fast", typed=b"n\n")
    assert (code, out) == (3, b"")
    assert b"Unpin fast (floor, " in shown
    assert b"error: the answer was no: nothing was changed" in shown
    code, out, shown = on_terminal("unpin", "fast", typed=b"y\n")
    assert (code, out.startswith(b"unpinned fast")) == (0, True)


def test_ctrl_d_is_no_answer(pinned):
    """The end of the input while it asks changes nothing."""
    code, _out, shown = on_terminal("unpin", "fast", typed=b"\x04")
    assert (code, b"error: interrupted" in shown) == (130, True)
    assert in_process("show", "fast").code == 0


def test_a_bug_is_no_traceback(ck, place, monkeypatch, tmp_path):
    """What nobody expected is one sentence with a private log file to report."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr("cachekeeper.cli.scan_cmd.scan", lambda _keeper: 1 // 0)
    found = ck("scan")
    (log,) = tmp_path.glob("cachekeeper-bug-*.log")
    assert (found.code, found.error) == (70, "this is a bug in cachekeeper (ZeroDivisionError)")
    assert str(log) in found.hint
    assert "Traceback" in log.read_text()
    assert log.stat().st_mode & 0o777 == 0o600
    monkeypatch.setenv("CACHEKEEPER_DEBUG", "1")
    assert "Traceback" in ck("scan").err


def test_a_bug_without_a_place_for_its_log(ck, place, monkeypatch, tmp_path):
    """Where no log can be written the traceback itself is shown."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "gone"))
    monkeypatch.setattr("cachekeeper.cli.scan_cmd.scan", lambda _keeper: 1 // 0)
    found = ck("scan")
    assert (found.code, "Traceback" in found.err) == (70, True)
    assert "with the lines above" in found.err
