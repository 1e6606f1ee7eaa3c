"""Progress of long work: one line on a terminal, rewritten; nothing anywhere else."""

from typing import TextIO

from cachekeeper.keeper.survey import Progress, no_progress

_WIDTH = 24


def progress_for(stream: TextIO, *, quiet: bool) -> Progress:
    """Return what shows progress on a stream: a bar on a terminal, else nothing."""
    if quiet or not stream.isatty():
        return no_progress

    def show(what: str, done: int, total: int) -> None:
        filled = _WIDTH * (done + 1) // max(total, 1)
        bar = "#" * filled + "." * (_WIDTH - filled)
        stream.write(f"\r\033[K[{bar}] {what} {done + 1}/{total}")
        if done + 1 >= total:
            stream.write("\r\033[K")
        stream.flush()

    return show
