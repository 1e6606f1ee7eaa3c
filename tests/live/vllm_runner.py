"""Run real vLLM once on the tiny model, in an environment that holds nothing of the caller's.

Every run gets a home and a temporary directory of its own, deleted afterwards, so that the cache
root is the only thing that two runs share. Command and environment can be had apart from the run,
for tests that put another program in front. What vLLM did is read from its own log.

A run is one process group, and that group is ended by its id when the run is over, time is up or
the caller is interrupted.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

TINY_LLAMA = Path(__file__).resolve().parent / "models" / "tiny-llama"
TIMEOUT_S = 600.0
GRACE_S = 5.0

# One word per kernel thread: two ranks have a core each, four share two.
THREADS_BY_RANKS = {2: "0|1", 4: "0|1|0|1"}

# Inductor names its directory under TMPDIR after the user; a fixed user is a fixed name.
USER = "live"
HEADERS = Path(f"torchinductor_{USER}") / "precompiled_headers"
# Where a virtual environment keeps the one thing that runs share: see `_lend_headers`.
SHARED_HEADERS = "cachekeeper-headers"

# The benchmark draws token ids up to 10,000, one short request is enough to compile everything,
# and --max-num-batched-tokens is given because its default would be part of the hash.
BENCHMARK = (
    *("bench", "latency", "--load-format", "dummy", "--skip-tokenizer-init"),
    *("--dtype", "bfloat16", "--max-model-len", "128", "--max-num-batched-tokens", "128"),
    *("--input-len", "32", "--output-len", "2", "--batch-size", "1"),
    *("--num-iters-warmup", "0", "--num-iters", "1"),
)

SAVED = re.compile(r"saved AOT compiled function to (.+)$", re.MULTILINE)
LOADED = re.compile(r"Directly load AOT compilation from path (.+)$", re.MULTILINE)
REJECTED = re.compile(
    r"Compiling model again due to a load failure from (.+?), reason: (.*)$", re.MULTILINE
)
CACHE_DIRECTORY = re.compile(r"Using cache directory: (.+?) for vLLM's torch\.compile")
COMPILED = re.compile(r"Compiling a graph for compile range|saved AOT compiled function to")


class VllmTimeoutError(Exception):
    """vLLM did not finish in time; its process group was ended."""

    def __init__(self, timeout_s: float, log_text: str) -> None:
        super().__init__(f"no end after {timeout_s:.0f} s; the log ends with:\n{log_text[-4000:]}")
        self.log_text = log_text


@dataclass(frozen=True, slots=True)
class VllmSetup:
    """What decides the hashes and the files of a run; equal setups share a cache root."""

    venv: Path
    root: Path
    mega: bool = True
    tensor_parallel: int = 1
    # First on PYTHONPATH: a directory whose `vllm` stands in for the installed one.
    site_packages_overlay: Path | None = None
    # The engine in a process of its own, as a server has it. Costs two more Python starts (30 s),
    # moves both hashes, and changes nothing in how artifacts are saved and loaded.
    separate_engine: bool = False
    extra_environment: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class VllmRun:
    """One finished run and what its log says; each path is as vLLM printed it, once per rank."""

    exit_code: int
    log_text: str
    seconds: float
    saved: tuple[str, ...]
    loaded: tuple[str, ...]
    rejected: tuple[tuple[str, str], ...]
    compiled: bool
    cache_directories: tuple[str, ...]


def run_vllm(
    venv: Path,
    root: Path,
    *,
    mega: bool,
    tensor_parallel: int = 1,
    site_packages_overlay: Path | None = None,
    timeout_s: float = TIMEOUT_S,
) -> VllmRun:
    """Run the benchmark of the tiny model once over the cache root."""
    setup = VllmSetup(venv, root, mega, tensor_parallel, site_packages_overlay)
    return run_command(setup, vllm_command(setup), timeout_s=timeout_s)


def run_command(
    setup: VllmSetup, command: Sequence[str], *, timeout_s: float = TIMEOUT_S
) -> VllmRun:
    """Run `command`, which is or starts vLLM, in the environment of `setup`."""
    with scratch_directory(setup.venv) as scratch:
        log = scratch / "log"
        started = time.monotonic()
        exit_code = _run_in_group(command, vllm_environment(setup, scratch), log, timeout_s)
        seconds = time.monotonic() - started
        log_text = _read(log)
    if exit_code is None:
        raise VllmTimeoutError(timeout_s, log_text)
    return parse_run(exit_code, log_text, seconds)


def vllm_command(setup: VllmSetup) -> list[str]:
    """Give the command line of one benchmark run."""
    command = [str(setup.venv / "bin" / "vllm"), *BENCHMARK, "--model", str(TINY_LLAMA)]
    if setup.tensor_parallel > 1:
        command += ["--tensor-parallel-size", str(setup.tensor_parallel)]
    return command


def vllm_environment(setup: VllmSetup, scratch: Path) -> dict[str, str]:
    """Give the whole environment of a run: of the caller's only PATH goes in, for the compiler."""
    environment = {
        "PATH": os.pathsep.join((str(setup.venv / "bin"), os.environ.get("PATH", os.defpath))),
        "HOME": str(scratch / "home"),
        "TMPDIR": str(scratch / "tmp"),
        "LOGNAME": USER,
        "LANG": "C.UTF-8",
        "VLLM_CACHE_ROOT": str(setup.root),
        "VLLM_USE_MEGA_AOT_ARTIFACT": str(int(setup.mega)),
        "VLLM_ENABLE_V1_MULTIPROCESSING": str(int(setup.separate_engine)),
        "VLLM_CPU_KVCACHE_SPACE": "1",
        # Nothing leaves the machine, and nothing listens outside it.
        "HF_HUB_OFFLINE": "1",
        "VLLM_NO_USAGE_STATS": "1",
        "VLLM_HOST_IP": "127.0.0.1",
        "GLOO_SOCKET_IFNAME": "lo",
    }
    if setup.tensor_parallel > 1:
        environment["VLLM_CPU_OMP_THREADS_BIND"] = THREADS_BY_RANKS[setup.tensor_parallel]
    if setup.site_packages_overlay is not None:
        environment["PYTHONPATH"] = str(setup.site_packages_overlay)
    return environment | dict(setup.extra_environment)


@contextlib.contextmanager
def scratch_directory(venv: Path) -> Iterator[Path]:
    """Make the directory with the `home` and `tmp` of one run, and remove it afterwards.

    It lies directly in the system's temporary directory: vLLM's sockets lie in it, and the path
    of a socket may have 107 characters, fewer than a test's own directory often has.
    """
    scratch = Path(tempfile.mkdtemp(prefix="ckv-"))
    try:
        (scratch / "home").mkdir()
        (scratch / "tmp").mkdir()
        _lend_headers(venv, scratch)
        yield scratch
        _keep_headers(venv, scratch)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def parse_run(exit_code: int, log_text: str, seconds: float) -> VllmRun:
    """Read what vLLM says it did."""
    return VllmRun(
        exit_code=exit_code,
        log_text=log_text,
        seconds=seconds,
        saved=tuple(SAVED.findall(log_text)),
        loaded=tuple(LOADED.findall(log_text)),
        rejected=tuple((path, reason) for path, reason in REJECTED.findall(log_text)),
        compiled=COMPILED.search(log_text) is not None,
        cache_directories=tuple(CACHE_DIRECTORY.findall(log_text)),
    )


def _run_in_group(
    command: Sequence[str], environment: Mapping[str, str], log: Path, timeout_s: float
) -> int | None:
    """Run to the end and return the exit code, or None when time was up; nothing lives on.

    The output goes to a file: a child that outlives its parent would hold a pipe open.
    """
    with log.open("wb") as sink:
        process = subprocess.Popen(
            command,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=sink,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        ended = _wait_unreaped(process.pid, timeout_s)
        if not ended:
            os.killpg(process.pid, signal.SIGTERM)
            _wait_unreaped(process.pid, GRACE_S)
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        exit_code = process.wait()
    return exit_code if ended else None


def _wait_unreaped(pid: int, timeout_s: float) -> bool:
    """Wait for the end of a process, but leave it unreaped, and say whether it ended.

    Until it is reaped its id, which is that of its group, can be no one else's: what is left of
    the group is ended without a race.
    """
    deadline = time.monotonic() + timeout_s
    while os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
        if time.monotonic() > deadline:
            return False
        time.sleep(0.1)
    return True


def _read(log: Path) -> str:
    """Return the log as lines; a progress bar's carriage returns would hide line starts."""
    return log.read_text("utf-8", errors="replace").replace("\r", "\n")


def _lend_headers(venv: Path, scratch: Path) -> None:
    """Let the run use the C++ headers that an earlier one precompiled: 12 s a run.

    They lie outside every cache root, and enter neither a hash nor a file name in it. The compiler
    takes a lock beside them, so a read-only environment cannot lend them.
    """
    shared = venv / SHARED_HEADERS
    if os.access(shared, os.W_OK):
        lent = scratch / "tmp" / HEADERS
        lent.parent.mkdir()
        lent.symlink_to(shared)


def _keep_headers(venv: Path, scratch: Path) -> None:
    """Keep the headers of a run that ended by itself, unless another run was first."""
    made, shared = scratch / "tmp" / HEADERS, venv / SHARED_HEADERS
    if made.is_symlink() or not any(made.glob("*.gch")):
        return
    with contextlib.suppress(OSError):  # a read-only environment, or kept meanwhile: just slower
        staged = Path(tempfile.mkdtemp(prefix=f"{SHARED_HEADERS}-", dir=venv))
        shutil.copytree(made, staged, dirs_exist_ok=True)
        try:
            staged.rename(shared)
        finally:
            shutil.rmtree(staged, ignore_errors=True)
