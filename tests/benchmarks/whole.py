"""Print one digest of a whole tree: paths, sizes and modes, with `--deep` the content too.

A process of its own, so that the one that takes the timings stays small.
usage: whole.py [--deep] ROOT
"""

import hashlib
import os
import sys

_READ_BYTES = 1 << 20


def _content(path: str) -> str:
    hasher = hashlib.blake2b()
    with open(path, "rb") as file:
        while piece := file.read(_READ_BYTES):
            hasher.update(piece)
    return hasher.hexdigest()


def main(arguments: list[str]) -> None:
    """Walk in sorted order; locks are left out, no tool promises anything about them."""
    deep, root = arguments[0] == "--deep", arguments[-1]
    lines = []
    for directory, _, names in os.walk(root):
        for name in names:
            path = os.path.join(directory, name)
            if name.endswith(".lock"):
                continue
            status = os.lstat(path)
            line = f"{os.path.relpath(path, root)} {status.st_size} {status.st_mode:o}"
            lines.append(f"{line} {_content(path) if deep else ''}")
    print(len(lines), hashlib.blake2b("\n".join(sorted(lines)).encode()).hexdigest())


if __name__ == "__main__":
    main(sys.argv[1:])
