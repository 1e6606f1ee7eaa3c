"""Which processes are vLLM, and which cache root each serves from. Reads only.

Measured with vLLM 0.32: the API server keeps its command line and environment; EngineCore and the
workers write a title (`VLLM::Worker_TP0`) over theirs. What the launcher set before it started them
shows in the environment of its `multiprocessing.resource_tracker`, which is never written over.
"""

import os
import re
from collections.abc import Iterable, Mapping
from itertools import pairwise

from cachekeeper.probe.processes import Processes

# The names that vLLM gives its processes, whatever VLLM_PROCESS_NAME_PREFIX is.
_TITLE = re.compile(rb"VLLM::|\S+::(?:EngineCore|Worker|APIServer|DPCoordinator)")
_INTERPRETER = re.compile(rb"(?:.*/)?(?:python|pypy)[0-9.]*")
_PROGRAM = re.compile(rb"(?:.*/)?vllm|.*/vllm/entrypoints/.*")
_MODULE = re.compile(rb"vllm(?:\.\w+)*")
_EXTENSION = re.compile(rb"/vllm/[^/]+\.abi3\.so(?: \(deleted\))?$")
_TRACKER = b"multiprocessing.resource_tracker"
_PLACES = ("VLLM_CACHE_ROOT", "XDG_CACHE_HOME")
_GENERATIONS = 8


def is_vllm(arguments: list[bytes], mapped: Iterable[bytes]) -> bool:
    """Tell whether a process is vLLM by its title, its program, or vLLM's own mapped libraries.

    A pager of vllm.log is none, and a script that uses vLLM as a library is one.
    """
    first, *rest = arguments
    if _TITLE.match(first) or os.path.basename(first.split(b" ")[0]) == b"vllm":
        return True
    if _INTERPRETER.fullmatch(first) and _runs_vllm(rest):
        return True
    return any(map(_EXTENSION.search, mapped))


def _runs_vllm(arguments: list[bytes]) -> bool:
    modules = (word for flag, word in pairwise(arguments) if flag == b"-m")
    return any(map(_PROGRAM.fullmatch, arguments)) or any(map(_MODULE.fullmatch, modules))


def served_environment(processes: Processes, pid: int) -> Mapping[str, str] | None:
    """Return the environment that tells a vLLM's cache root, None where nothing can tell it.

    Its own, or that of the processes that started it; relative roots start where it stands.
    """
    place = pid
    for _generation in range(_GENERATIONS):
        try:
            environment = _environment(processes, place)
            parent = processes.parent(place)
        except (FileNotFoundError, ProcessLookupError):
            if place == pid:
                raise
            return None  # the parent ended meanwhile
        if environment is not None:
            return _anchored(environment, processes, pid)
        if not _may_have_started_it(processes.arguments(parent)):
            return None  # an orphan: whoever adopted it knows nothing of its root
        place = parent
    return None


def _environment(processes: Processes, pid: int) -> Mapping[str, str] | None:
    """Return what the process's tracker says of its environment now, else what it began with."""
    for child in processes.children(pid):
        if _TRACKER in b" ".join(processes.arguments(child)):
            try:
                found = processes.environment(child)
            except (FileNotFoundError, ProcessLookupError):
                continue
            if found is not None:
                return found
    return processes.environment(pid)


def _may_have_started_it(arguments: list[bytes]) -> bool:
    return bool(_INTERPRETER.fullmatch(arguments[0])) or is_vllm(arguments, ())


def _anchored(environment: Mapping[str, str], processes: Processes, pid: int) -> Mapping[str, str]:
    relative = [name for name in _PLACES if environment.get(name, "/")[:1] not in ("", "/", "~")]
    if not relative:
        return environment
    directory = os.fsdecode(processes.working_directory(pid))
    return {**environment, **{n: os.path.join(directory, environment[n]) for n in relative}}
