"""Small trees, written and read by plain calls, and a stop before any step on the disk."""

import inspect
import os
import sys
from contextlib import contextmanager

from cachekeeper.fs import primitives


class Stop(Exception):  # noqa: N818  no error: the end of a process
    """The process was killed here, as far as a test is concerned."""


def write(path, content=b"content", mode=0o644):
    """Write a file, with the directories above it."""
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as file:
        file.write(content)
    os.chmod(path, mode)
    return path


@contextmanager
def shallow_recursion():
    """Leave Python only some 60 calls in one another, so that a small tree is too deep for them."""
    previous = sys.getrecursionlimit()
    sys.setrecursionlimit(len(inspect.stack(0)) + 60)
    try:
        yield
    finally:
        sys.setrecursionlimit(previous)


def read(path):
    """Return a file's content."""
    with open(path, "rb") as file:
        return file.read()


def tree(path):
    """Return everything below a directory as {relative path: content, link text or None}."""
    found = {}
    for base, directories, names in os.walk(path):
        for name in directories + names:
            whole = os.path.join(base, name)
            relative = os.path.relpath(whole, path)
            if os.path.islink(whole):
                found[relative] = (b"->", os.readlink(whole))
            else:
                found[relative] = read(whole) if name in names else None
    return found


def stop_before(number):
    """Stop before the step with this number, counted from 0."""
    return primitives.before_each(_counter(number))


def _counter(number):
    steps = 0

    def hook(_name, _path):
        nonlocal steps
        if steps == number:
            raise Stop
        steps += 1

    return hook


def steps_of(action):
    """Return what an action did: (primitive, name of its path) of each step."""
    steps = []
    with primitives.before_each(lambda name, path: steps.append((name, os.path.basename(path)))):
        action()
    return steps
