"""`make demo`: the incident replayed on real vLLM, told step by step.

Each step shows the command as a user types it, what it printed, and vLLM's own log line.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
import textwrap
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

from incident import Scene, Step, make_scene, replay, telling_lines

WIDTH = 100
INTRODUCTION = """
vLLM files a compiled model under a hash of its inputs - without the traced source. Edit a comment
in the model's file and vLLM throws the compiled binary away and writes another under the same name.
It may be as fast, or 10 % slower; nobody has a copy. This is that incident, on real vLLM (CPU
build, a tiny Llama with random weights), and how cachekeeper keeps the binary.
"""


def main() -> int:
    """Play the incident and print it; 0 when it ended as it should."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--venv", type=Path, required=True, help="a virtual environment with vLLM")
    parser.add_argument("--non-mega", action="store_true", help="the layout of torch before 2.12")
    parser.add_argument("--tensor-parallel", type=int, default=1, choices=(1, 2, 4))
    options = parser.parse_args()
    print(INTRODUCTION)
    place = Path(tempfile.mkdtemp(prefix="cachekeeper-demo-"))
    try:
        scene = make_scene(
            place,
            options.venv.resolve(),
            mega=not options.non_mega,
            tensor_parallel=options.tensor_parallel,
        )
        return tell(scene, place)
    finally:
        shutil.rmtree(place, ignore_errors=True)


def tell(scene: Scene, place: Path) -> int:
    """Print each step as it happens and judge the end."""
    steps: dict[str, Step] = {}
    started = time.monotonic()
    for number, step in enumerate(replay(scene), 1):
        steps[step.name] = step
        title = f"{number:2}. {step.title}"
        print(f"\033[1m{title}\033[0m" if sys.stdout.isatty() else title)
        for line in _lines(step):
            print(textwrap.indent(_short(line, place), "    "))
        print(flush=True)
    warm, intact = steps["warm"].run, steps["intact"].answer
    good = (
        warm is not None
        and intact is not None
        and bool(warm.loaded)
        and not warm.compiled
        and intact.exit_code == 0
    )
    print(f"{'The pinned build serves again' if good else 'NOT as it should be'} ", end="")
    print(f"({time.monotonic() - started:.0f} s).")
    return 0 if good else 1


def _lines(step: Step) -> list[str]:
    if step.run is not None:
        head = f"$ vllm bench latency ...   ({step.run.seconds:.0f} s)"
        return [head, *(f"vLLM: {line}" for line in telling_lines(step.run))]
    if step.answer is not None:
        head = "$ " + " ".join(_quoted(word) for word in step.answer.command)
        code = f"(exit {step.answer.exit_code})"
        return [head, *step.answer.text.rstrip().splitlines(), code]
    return []


def _quoted(word: str) -> str:
    return f"'{word}'" if " " in word else word


def _short(line: str, place: Path) -> str:
    """Return a line without the demo's own temporary directory, wrapped where it is long."""
    line = line.replace(f"{place}/", "")
    if len(line) <= WIDTH or "  " in line:
        return line
    return textwrap.fill(line, WIDTH, subsequent_indent="      ", break_long_words=False)


if __name__ == "__main__":
    sys.exit(main())
