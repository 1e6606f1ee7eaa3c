import os
import signal
import subprocess
import sys
from contextlib import contextmanager

import pytest

_NOBODY = 65534
# A child that says it is ready, and stays until its standard input ends.
_STAY = """
import sys
{}
print("ready", flush=True)
sys.stdin.read()
"""


class Child:
    """A real process of this test."""

    def __init__(self, process):
        self.process = process
        self.pid = process.pid

    def say(self):
        """Return the next line that the child says."""
        return self.process.stdout.readline().decode().strip()

    def end(self):
        """End it by its id, and everything that it started through its standard input."""
        self.process.stdin.close()
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()
        self.process.stdout.close()


@pytest.fixture
def start():
    """Start a real process: Python code, what follows it on the command line, its environment."""
    children = []

    def run(code, *arguments, environment=None, command=None, cwd=None):
        command = command or [sys.executable, "-I", "-S", "-c", _STAY.format(code), *arguments]
        process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={"PATH": "/usr/bin:/bin"} if environment is None else environment,
            cwd=cwd,
        )
        child = Child(process)
        children.append(child)
        assert child.say() == "ready"
        return child

    yield run
    for child in children:
        child.end()


@pytest.fixture
def as_nobody():
    """Give a block in which this process has no rights of root: its effective user is nobody."""

    @contextmanager
    def block():
        user = os.geteuid()
        if user == 0:
            os.seteuid(_NOBODY)
        try:
            yield
        finally:
            if user == 0:
                os.seteuid(user)

    return block
