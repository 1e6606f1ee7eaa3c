import os
from pathlib import Path

import pytest

from cachekeeper.config.locations import vllm_cache_root
from cachekeeper.probe.live_users import LiveUser, LiveUsers, Search, find_live_users

UNKNOWN = "is a vLLM whose cache root cannot be told"
SERVE = ("vllm", "serve", "model")
# Write a title over the command line and so many bytes of the environment, as setproctitle does.
RETITLE = """
import ctypes
fields = open("/proc/self/stat").read().rpartition(")")[2].split()
start, end, environment_start, environment_end = map(int, fields[45:49])
zeros = (environment_end if {keep} is None else environment_start + {keep}) - start
ctypes.memset(start, 0, zeros)
ctypes.memmove(start, b"{title}", {length})
"""
# Map a file as the loader does, without a descriptor that stays.
MAP = """
import ctypes, os
mmap = ctypes.CDLL(None).mmap
mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t] + [ctypes.c_int] * 3 + [ctypes.c_long]
mmap.restype = ctypes.c_void_p
descriptor = os.open({path!r}, os.O_RDONLY)
assert mmap(None, 100, 1, 2, descriptor, 0) not in (None, ctypes.c_void_p(-1).value)
os.close(descriptor)
"""
# Start a child with the same environment; say its id.
LAUNCH = """
import os, subprocess, sys
child = subprocess.Popen(
    [sys.executable, "-I", "-S", "-c", {code!r}, *{arguments!r}],
    stdin=sys.stdin, stdout=subprocess.PIPE, env={{**os.environ, **{extra!r}}},
)
assert child.stdout.readline() == b"ready\\n"
print("ready", flush=True)
print(child.pid, flush=True)
{then}
"""
STAY = 'import sys\n{}\nprint("ready", flush=True)\nsys.stdin.read()\n'


def _retitle(title, keep=None):
    return RETITLE.format(title=title, length=len(title), keep=keep)


def _launch(code, *arguments, then="sys.stdin.read()", **extra):
    return LAUNCH.format(code=STAY.format(code), arguments=arguments, then=then, extra=extra)


@pytest.fixture
def root(tmp_path):
    """Give a cache root with one family that holds a file."""
    family = tmp_path / "vllm" / "torch_compile_cache" / "c158"
    family.mkdir(parents=True)
    (family / "model").write_bytes(b"x" * 5000)
    return tmp_path / "vllm"


@pytest.fixture
def find(root):
    """Look for users of the root and its family; processes of other tests do not count."""

    def search(where=root):
        top = os.fsencode(where)
        family = os.path.join(top, b"torch_compile_cache/c158")
        return find_live_users(Search(top, (family,), vllm_cache_root))

    return search


def _why(found, child):
    """Return what was said of a child, or None."""
    pid = child if isinstance(child, int) else child.pid
    return next((user.why for user in found.users if user.pid == pid), None)


def test_nobody_uses_a_new_root(find, start):
    """A process that has nothing to do with the root is no user."""
    child = start("")
    assert (_why(find(), child), child.pid in find().unreadable) == (None, False)


def test_an_open_file_of_a_family_is_use(find, start, root):
    """Who has a file open is named, with the file, as long as he has it open."""
    model = root / "torch_compile_cache" / "c158" / "model"
    child = start(f"held = open({str(model)!r})")
    found = find()
    user = next(user for user in found.users if user.pid == child.pid)
    assert f"has {model} open" == user.why
    assert "-I -S -c" in user.title
    child.end()
    assert _why(find(), child) is None


def test_an_open_directory_of_a_family_is_use(find, start, root):
    """The family's own directory counts too: somebody may be reading through it."""
    family = root / "torch_compile_cache" / "c158"
    child = start(f"import os; held = os.open({str(family)!r}, os.O_RDONLY)")
    assert f"has {family} open" == _why(find(), child)


def test_a_removed_file_that_is_still_open_is_use(find, start, root):
    """A file that was replaced under its user still shows who that is."""
    model = root / "torch_compile_cache" / "c158" / "model"
    child = start(f"held = open({str(model)!r})")
    model.unlink()
    assert f"has {model} (deleted) open" == _why(find(), child)


def test_a_mapped_file_is_use(find, start, root):
    """A library that is mapped has no descriptor any more."""
    model = root / "torch_compile_cache" / "c158" / "model"
    child = start(MAP.format(path=str(model)))
    assert f"has {model} mapped" == _why(find(), child)


def test_files_beside_the_families_are_no_use(find, start, root):
    """A name that only begins alike is another family."""
    other = root / "torch_compile_cache" / "c158.bak"
    other.write_bytes(b"x")
    child = start(f"held = open({str(other)!r})")
    assert _why(find(), child) is None


def test_odd_names_are_said_without_steering_the_terminal(find, start, root):
    """A file's name and a process's title are escaped, and a long title is cut."""
    odd = root / "torch_compile_cache" / "c158" / "a\x1b[31m\n"
    odd.write_bytes(b"x")
    child = start(f"held = open({str(odd)!r})", "\x1b[31m" + "long" * 40)
    user = next(user for user in find().users if user.pid == child.pid)
    assert user.why.isprintable()
    assert user.title.isprintable()
    assert len(user.title) == 80


def test_this_process_does_not_count(find, root):
    """Whoever asks may have files of the root open himself."""
    with open(root / "torch_compile_cache" / "c158" / "model", "rb"):
        assert _why(find(), os.getpid()) is None


@pytest.mark.parametrize(
    "arguments",
    [
        SERVE,
        ("/opt/bin/vllm", "bench", "latency"),
        ("-m", "vllm.entrypoints.openai.api_server"),
        ("/site-packages/vllm/entrypoints/openai/api_server.py",),
    ],
)
def test_a_vllm_that_serves_from_the_root_is_a_user(find, start, root, arguments):
    """It may have nothing open now, and will write and read there later."""
    child = start("", *arguments, environment={"VLLM_CACHE_ROOT": str(root)})
    assert f"is a vLLM that serves from {root}" == _why(find(), child)


@pytest.mark.parametrize(
    "place",
    [
        {"VLLM_CACHE_ROOT": "{link}"},
        {"VLLM_CACHE_ROOT": "~/vllm", "HOME": "{parent}"},
        {"XDG_CACHE_HOME": "{parent}"},
        {"VLLM_CACHE_ROOT": "", "XDG_CACHE_HOME": "{parent}", "HOME": "/"},
        {"VLLM_CACHE_ROOT": "vllm"},
        {"VLLM_CACHE_ROOT": "./vllm/../vllm", "HOME": "/"},
        {"XDG_CACHE_HOME": "."},
    ],
)
def test_a_root_is_found_however_it_is_named(find, start, root, place):
    """By a link, from HOME, as XDG's default, or relative to where vLLM was started."""
    link = root.parent / "link"
    link.symlink_to(root)
    environment = {
        name: value.format(link=link, parent=root.parent) for name, value in place.items()
    }
    child = start("", *SERVE, environment=environment, cwd=root.parent)
    assert "is a vLLM that serves from" in _why(find(), child)


def test_the_default_root_is_derived_from_home(find, start, tmp_path):
    """Without any variable vLLM uses ~/.cache/vllm of its own HOME."""
    default = tmp_path / "home" / ".cache" / "vllm"
    default.mkdir(parents=True)
    child = start("", *SERVE, environment={"HOME": str(tmp_path / "home")})
    assert f"is a vLLM that serves from {default}" == _why(find(default), child)


def test_a_root_that_does_not_exist_yet_is_compared_by_name(find, start, tmp_path):
    """A vLLM that was just started has not made its root."""
    missing = tmp_path / "not-yet"
    child = start("", *SERVE, environment={"VLLM_CACHE_ROOT": str(missing)})
    assert f"is a vLLM that serves from {missing}" == _why(find(missing), child)
    assert _why(find(), child) is None


def test_a_vllm_of_another_root_is_no_user(find, start, root):
    """Another server on the same machine does not hinder anybody."""
    other = root.parent / "other"
    other.mkdir()
    for environment in ({"VLLM_CACHE_ROOT": str(other)}, {"HOME": str(other)}):
        child = start("", *SERVE, environment=environment)
        assert _why(find(), child) is None
        assert child.pid not in find().unreadable


@pytest.mark.parametrize("arguments", [(), ("vllm.log.1",), ("train.py", "--name=vllm")])
def test_other_programs_with_the_same_environment_are_no_users(find, start, root, arguments):
    """A shell or a script in which VLLM_CACHE_ROOT is exported is no vLLM."""
    child = start("", *arguments, environment={"VLLM_CACHE_ROOT": str(root)})
    assert _why(find(), child) is None


@pytest.mark.parametrize("name", ["vllm.log", "vllm"])
def test_who_reads_a_log_of_vllm_is_no_user(find, start, root, tmp_path, name):
    """`tail -f vllm.log` in the same environment does not block a restore."""
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / name).write_text("ready\n")
    command = ["tail", "-f", str(tmp_path / "logs" / name)]
    child = start("", command=command, environment={"VLLM_CACHE_ROOT": str(root)})
    assert _why(find(), child) is None


def test_a_script_that_uses_vllm_as_a_library_is_a_vllm(find, start, root, tmp_path):
    """`python bench.py` has vLLM's extension mapped, whatever its command line says."""
    library = tmp_path / "site-packages" / "vllm" / "_C.abi3.so"
    library.parent.mkdir(parents=True)
    library.write_bytes(b"x" * 5000)
    environment = {"VLLM_CACHE_ROOT": str(root)}
    child = start(MAP.format(path=str(library)), "bench.py", environment=environment)
    assert f"is a vLLM that serves from {root}" == _why(find(), child)


@pytest.mark.parametrize("title", ["VLLM::EngineCore", "VLLM::Worker_TP0", "OURS::Worker_TP1"])
@pytest.mark.parametrize("keep", [None, 25], ids=["all zeros", "a rest is left"])
def test_a_worker_without_its_environment_is_asked_of_who_started_it(
    find, start, root, title, keep
):
    """A title is written over the environment; what is left of it may name another root."""
    environment = {"VLLM_CACHE_ROOT": str(root), "PATH": "/bin", "HOME": str(root.parent)}
    child = start(_launch(_retitle(title, keep)), environment=environment)
    worker = int(child.say())
    found = find()
    assert f"is a vLLM that serves from {root}" == _why(found, worker)
    assert title == next(user.title for user in found.users if user.pid == worker)


def test_what_a_launcher_set_later_shows_in_its_tracker(find, start, root):
    """Python's resource tracker is started with the environment that vLLM had by then."""
    code = _launch(
        "", "from multiprocessing.resource_tracker import main", VLLM_CACHE_ROOT=str(root)
    )
    child = start(code, *SERVE, environment={"HOME": "/nowhere"})
    assert f"is a vLLM that serves from {root}" == _why(find(), child)


def test_a_tracker_that_tells_nothing_is_passed_over(find, start, root):
    """Where the tracker's own environment is written over, the launcher's counts."""
    title = "multiprocessing.resource_tracker"
    code = _launch(_retitle(title))
    child = start(code, *SERVE, environment={"VLLM_CACHE_ROOT": str(root), "LONG": "x" * 99})
    assert f"is a vLLM that serves from {root}" == _why(find(), child)


@pytest.mark.skipif(
    b"python" in Path("/proc/1/cmdline").read_bytes(), reason="orphans would come to a Python"
)
def test_an_orphan_whose_root_cannot_be_told_is_a_user(find, start, root):
    """A worker that outlived its server may serve from any root: that is said, not passed over."""
    code = _launch(_retitle("VLLM::EngineCore"), then="sys.stdout.flush(); os._exit(0)")
    child = start(code, environment={"VLLM_CACHE_ROOT": str(root), "LONG": "x" * 99})
    worker = int(child.say())
    child.process.wait()
    assert _why(find(), worker) == UNKNOWN


def test_a_vllm_without_home_is_a_user(find, start):
    """Its root comes from the user database, which may be another one in a container."""
    child = start("", *SERVE, environment={})
    assert _why(find(), child) == UNKNOWN


@pytest.mark.skipif(os.geteuid() != 0, reason="another user's process is made by root")
def test_processes_of_other_users_are_counted(find, start, as_nobody, root):
    """What may not be looked into is never taken for absence."""
    child = start("", *SERVE, environment={"VLLM_CACHE_ROOT": str(root)})
    with as_nobody():
        found = find()
    assert child.pid in found.unreadable
    assert _why(found, child) is None


def test_a_dead_process_is_no_user(find, start, root):
    """One that has ended and was not yet waited for has nothing open and no environment."""
    child = start("", *SERVE, environment={"VLLM_CACHE_ROOT": str(root)})
    child.process.stdin.close()
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    found = find()
    assert (_why(found, child), child.pid in found.unreadable) == (None, False)


class FakeProcesses:
    """A tree like /proc with processes that cannot be had at will."""

    def __init__(self, place):
        self.place = place
        place.mkdir()
        (place / "self").symlink_to("1")
        (place / "meminfo").write_text("")

    def add(self, pid, arguments=(), environment=None, parent=0, inside="/"):
        home = self.place / str(pid)
        (home / "fd").mkdir(parents=True)
        (home / "cmdline").write_bytes(b"".join(word.encode() + b"\0" for word in arguments))
        items = [f"{name}={value}\0" for name, value in (environment or {}).items()]
        (home / "environ").write_text("".join(items) if environment is not None else "\0" * 50)
        (home / "status").write_text(f"Name:\tx\nPPid:\t{parent}\n" if parent else "Name:\tx\n")
        (home / "maps").write_bytes(b"")
        (home / "root").symlink_to(inside)
        return home

    def find(self, root, *families):
        place, tops = os.fsencode(self.place), tuple(map(os.fsencode, families))
        return find_live_users(Search(os.fsencode(root), tops, vllm_cache_root, place))


@pytest.fixture
def fake(tmp_path):
    """Give an empty tree like /proc."""
    return FakeProcesses(tmp_path / "proc")


def test_an_empty_tree_has_no_users(fake, root):
    """Entries that are no process ids are passed over."""
    assert LiveUsers((), ()) == fake.find(root)


def test_a_process_in_a_container_is_compared_by_inode(fake, root, tmp_path):
    """Its path is its own: what counts is whether it leads to the same directory."""
    inside = tmp_path / "container" / "root" / ".cache"
    inside.mkdir(parents=True)
    (inside / "vllm").symlink_to(root)
    fake.add(5, ("vllm", "serve"), {"HOME": "/root"}, inside=tmp_path / "container")
    expected = LiveUser(5, "vllm serve", "is a vLLM that serves from /root/.cache/vllm")
    assert fake.find(root) == LiveUsers((expected,), ())


def test_the_same_path_in_a_container_is_another_root(fake, root, tmp_path):
    """A container with a directory of the same name does not use ours."""
    inside = tmp_path / "container" / str(root).lstrip("/")
    inside.mkdir(parents=True)
    environment = {"VLLM_CACHE_ROOT": str(root)}
    fake.add(5, ("vllm",), environment, inside=tmp_path / "container")
    assert LiveUsers((), ()) == fake.find(root)


def test_a_server_with_id_1_is_asked_too(fake, root):
    """In a container the server itself is the first process."""
    fake.add(1, ("python3", "-m", "vllm.entrypoints.api_server"), {"VLLM_CACHE_ROOT": str(root)})
    fake.add(7, ("VLLM::Worker_TP0",), None, parent=1)
    assert [user.pid for user in fake.find(root).users] == [1, 7]


def test_a_long_chain_of_titled_processes_ends(fake, root):
    """A worker of an engine of a server: each is asked in turn, and a circle is left."""
    fake.add(1, ("vllm", "serve"), {"VLLM_CACHE_ROOT": str(root)})
    for pid in (2, 3, 4):
        fake.add(pid, ("VLLM::Worker",), None, parent=pid - 1)
    fake.add(20, ("VLLM::Worker",), None, parent=21)
    fake.add(21, ("VLLM::Worker",), None, parent=20)
    whys = {user.pid: user.why for user in fake.find(root).users}
    serves = f"is a vLLM that serves from {root}"
    assert whys == {1: serves, 2: serves, 3: serves, 4: serves, 20: UNKNOWN, 21: UNKNOWN}


def test_who_adopted_an_orphan_is_not_asked(fake, root):
    """The environment of a session manager says nothing of the orphans that it got."""
    fake.add(5, ("/usr/lib/systemd/systemd", "--user"), {"HOME": "/home/me"})
    fake.add(6, ("VLLM::EngineCore",), None, parent=5)
    expected = LiveUser(6, "VLLM::EngineCore", UNKNOWN)
    assert fake.find(root) == LiveUsers((expected,), ())


@pytest.mark.parametrize("missing", ["environ", "status"])
def test_a_parent_that_ends_meanwhile_leaves_the_root_unknown(fake, root, missing):
    """That the parent is gone does not mean that the worker is."""
    parent = fake.add(5, ("python", "launch.py"), {"VLLM_CACHE_ROOT": str(root)})
    fake.add(6, ("VLLM::Worker",), None, parent=5)
    (parent / missing).unlink()
    assert [LiveUser(6, "VLLM::Worker", UNKNOWN)] == [
        user for user in fake.find(root).users if user.pid == 6
    ]


@pytest.mark.parametrize("missing", ["environ", "status", "maps", "fd", "cwd"])
def test_a_process_that_ends_meanwhile_is_no_user(fake, root, missing):
    """Whatever cannot be read because it is gone means that the process is gone."""
    home = fake.add(5, ("vllm",), {"VLLM_CACHE_ROOT": "relative"})
    (home / "cwd").symlink_to("/")
    (home / "fd" if missing == "fd" else home / missing).rename(home / "gone")
    assert LiveUsers((), ()) == fake.find(root)


def test_a_tracker_that_ends_meanwhile_is_passed_over(fake, root):
    """The server's own environment counts then."""
    fake.add(5, ("vllm",), {"VLLM_CACHE_ROOT": str(root)})
    tracker = fake.add(6, ("python", "-c", "multiprocessing.resource_tracker"), {}, parent=5)
    (tracker / "environ").unlink()
    assert [user.pid for user in fake.find(root).users] == [5]


def test_a_process_without_a_command_line_is_no_vllm(fake, root):
    """Kernel threads have no command line and no environment; one may vanish at any time."""
    fake.add(2, (), {})
    home = fake.add(3, ("vllm",), {"VLLM_CACHE_ROOT": str(root)})
    (home / "cmdline").unlink()
    assert LiveUsers((), ()) == fake.find(root)


def test_descriptors_that_close_meanwhile_are_passed_over(fake, root, monkeypatch):
    """A descriptor that is gone when it is looked at is no sign of anything."""
    home = fake.add(5, ("sleep",), {})
    family = root / "torch_compile_cache"
    for number, target in enumerate((family / "gone", family / "held")):
        (home / "fd" / str(number)).symlink_to(target)
    real = os.readlink

    def readlink(path):
        target = real(path)
        if target.endswith(b"gone"):
            raise FileNotFoundError(path)
        return target

    monkeypatch.setattr("cachekeeper.probe.processes.os.readlink", readlink)
    assert [f"has {family}/held open"] == [user.why for user in fake.find(root, family).users]
