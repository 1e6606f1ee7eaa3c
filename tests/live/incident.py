"""The incident on real vLLM, step by step: the story that the demo shows and the tests assert.

cold run, scan, pin, a comment in the traced source, vLLM rejects and overwrites under the same
hash, verify, the source put back, restore, warm run. Nothing is told that was not just seen.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from source_overlay import COMMENT, SourceOverlay, append_comment, make_overlay, restore_source
from vllm_runner import VllmRun, VllmSetup, run_command, vllm_command

TELLING = re.compile(
    r"saved AOT compiled function to|Directly load AOT compilation from path|"
    r"Compiling model again due to a load failure|Using cache directory|"
    r"Compiling a graph for compile range|Directly load the compiled graph|torch\.compile took"
)
_PREFIX = re.compile(r"^(\S+ pid=\d+\) )?(INFO|WARNING|ERROR|DEBUG) [\d-]+ [\d:]+ ")


@dataclass(frozen=True)
class Answer:
    """What one cachekeeper command said: exit code, text and JSON."""

    command: tuple[str, ...]
    exit_code: int
    text: str
    json: dict[str, Any]


@dataclass(frozen=True)
class Step:
    """One step of the story: what was done, and what vLLM or cachekeeper said."""

    name: str
    title: str
    run: VllmRun | None = None
    answer: Answer | None = None


@dataclass
class Scene:
    """Where the story plays: cache root, store, a source overlay and how vLLM is run."""

    setup: VllmSetup
    store: Path
    overlay: SourceOverlay
    pin_name: str = "floor"
    key: str = ""
    after_pin: Callable[[], None] = field(default=lambda: None)

    def vllm(self) -> VllmRun:
        """Run vLLM once; a failed run ends the story with its log."""
        run = run_command(self.setup, vllm_command(self.setup))
        if run.exit_code != 0:
            raise RuntimeError(f"vLLM ended with {run.exit_code}:\n{run.log_text[-4000:]}")
        return run

    def cachekeeper(self, *arguments: str) -> Answer:
        """Run a cachekeeper command twice over: for its text, and before that for its JSON.

        A command that changes something is run once, for its text, and has no JSON.
        """
        changing = arguments[0] in ("pin", "restore", "snapshot") and "--dry-run" not in arguments
        machine = {} if changing else json.loads(self._call(*arguments, "--json").stdout)
        done = self._call(*arguments)
        text = done.stdout + done.stderr
        return Answer(("cachekeeper", *arguments), done.returncode, text, machine)

    def _call(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        environment = {
            "PATH": os.environ.get("PATH", os.defpath),
            "HOME": str(self.store.parent),
            "VLLM_CACHE_ROOT": str(self.setup.root),
            "CACHEKEEPER_STORE": str(self.store),
            "LANG": "C.UTF-8",
        }
        command = [sys.executable, "-m", "cachekeeper", *arguments]
        return subprocess.run(
            command, env=environment, capture_output=True, text=True, check=False, timeout=300
        )


def make_scene(place: Path, venv: Path, *, mega: bool, tensor_parallel: int = 1) -> Scene:
    """Make a scene in an empty directory."""
    overlay = make_overlay(venv, place / "site")
    root = place / "root"
    root.mkdir()
    setup = VllmSetup(venv, root, mega, tensor_parallel, site_packages_overlay=overlay.directory)
    return Scene(setup, place / "store", overlay)


def replay(scene: Scene) -> Iterator[Step]:
    """Play the incident and yield each step when it has happened."""
    cold = scene.vllm()
    scene.key = Path(cold.saved[0]).parent.parent.name
    yield Step("cold", "vLLM starts cold: it compiles and saves its AOT artifact", run=cold)
    yield Step("scan", "what stands in the cache root", answer=scene.cachekeeper("scan"))
    short = scene.key[:8]
    yield Step(
        "pin",
        "this build is the fast one: pin it",
        answer=scene.cachekeeper("pin", short, "--reason", "known fast"),
    )
    scene.after_pin()
    append_comment(scene.overlay)
    yield Step("comment", f"somebody appends a comment to llama.py: {COMMENT.strip()}")
    rejected = scene.vllm()
    yield Step("overwrite", "vLLM rejects the good binary and overwrites it", run=rejected)
    yield Step("verify", "the number fell: what changed?", answer=scene.cachekeeper("verify"))
    restore_source(scene.overlay)
    yield Step("source", "the comment is taken out again (that alone brings nothing back)")
    yield Step("restore", "put the pinned build back", answer=scene.cachekeeper("restore"))
    warm = scene.vllm()
    yield Step("warm", "vLLM starts again: it loads the pinned build, compiles nothing", run=warm)
    yield Step("intact", "and the content is the pinned one", answer=scene.cachekeeper("verify"))
    yield Step("log", "what happened, newest first", answer=scene.cachekeeper("log"))


def telling_lines(run: VllmRun) -> list[str]:
    """Return the lines of a run's log that tell what became of the artifact, each once."""
    lines = [_PREFIX.sub("", line) for line in run.log_text.splitlines() if TELLING.search(line)]
    return list(dict.fromkeys(lines))


def with_setup(scene: Scene, **changes: Any) -> Scene:
    """Return the scene with another way of running vLLM."""
    return replace(scene, setup=replace(scene.setup, **changes))
