"""From samples to one table and one JSON object: medians against the targets of the design.

The targets are ratios between figures of the same run on the same machine, or plain seconds where
the design names seconds. They are judged here and nowhere else; no exit code depends on them.
"""

import dataclasses
import statistics
from collections.abc import Sequence

from contest import Task
from rounds import Results
from tabulate import tabulate
from workplace import Sample

_KEEPER = "cachekeeper"
_NOTHING = "-"


@dataclasses.dataclass(frozen=True, slots=True)
class Limit:
    """At most `factor` times a peer's figure plus some seconds; without a peer, the seconds."""

    peer: str | None
    factor: float = 1.0
    plus_s: float = 0.0

    def bound(self, figures: dict[str, float]) -> float | None:
        """Give the seconds allowed, if the peer was measured."""
        if self.peer is None:
            return self.plus_s
        figure = figures.get(self.peer)
        return None if figure is None else self.factor * figure + self.plus_s


@dataclasses.dataclass(frozen=True, slots=True)
class Row:
    """One line of the table; the first limit's peer is the yardstick of its ratio."""

    label: str
    task: Task
    limits: tuple[Limit, ...]
    target: str
    synced: bool = False


_CHUNKED = (Limit("restic"), Limit("borg"))
ROWS = (
    Row(
        "first snapshot (synced)",
        Task.FIRST,
        (Limit("cp", 1.3), *_CHUNKED),
        "<= 1.3 x cp; below restic, borg",
        synced=True,
    ),
    Row(
        Task.AGAIN.value,
        Task.AGAIN,
        (Limit("rsync", 1.0, 0.5), *_CHUNKED),
        "<= rsync + 0.5 s; below restic, borg",
    ),
    Row(Task.CHANGED.value, Task.CHANGED, _CHUNKED, "below restic, borg"),
    Row(
        Task.RESTORE.value,
        Task.RESTORE,
        (Limit("cp", 1.2), *_CHUNKED, Limit("tar+zstd")),
        "<= 1.2 x cp; below restic, borg, tar+zstd",
    ),
    Row(f"{Task.RESTORE.value} (synced)", Task.RESTORE, (Limit("cp"),), _NOTHING, synced=True),
    Row(Task.OVER.value, Task.OVER, (Limit("rsync"),), "below rsync -ac --delete"),
    Row(Task.VERIFY.value, Task.VERIFY, (Limit("blake3", 1.3),), "<= 1.3 x raw blake3"),
    Row(Task.HELP.value, Task.HELP, (Limit(None, plus_s=0.2),), "<= 0.2 s"),
    Row(Task.LS.value, Task.LS, (Limit(None, plus_s=0.6),), "<= 0.6 s"),
    Row(Task.LOG.value, Task.LOG, (Limit(None, plus_s=0.6),), "<= 0.6 s"),
    Row(Task.PINS.value, Task.PINS, (Limit(None, plus_s=0.6),), "<= 0.6 s"),
)


def table(results: Results, peers: Sequence[str]) -> str:
    """Give the table: seconds as medians, a row for each task."""
    names = (_KEEPER, *peers)
    headers = ("task [s]", *names, "ratio to", "target", "met", "peak RSS [MB]")
    lines = [_line(row, results, names) for row in ROWS]
    return tabulate(lines, headers=headers, disable_numparse=True, stralign="left")


def as_json(results: Results, about: dict[str, object]) -> dict[str, object]:
    """Give every sample as it was taken."""
    return {
        "schema": "cachekeeper-benchmarks/1",
        **about,
        "notes": results.notes,
        "tasks": [
            {
                "task": task.value,
                "samples": {
                    name: [dataclasses.asdict(sample) for sample in samples]
                    for name, samples in by_name.items()
                },
            }
            for task, by_name in results.samples.items()
        ],
    }


def _line(row: Row, results: Results, names: Sequence[str]) -> list[str]:
    samples = results.samples.get(row.task, {})
    figures = {name: _median(those, synced=row.synced) for name, those in samples.items()}
    cells = [f"{figures[name]:.2f}" if name in figures else _NOTHING for name in names]
    return [row.label, *cells, _ratio(row, figures), row.target, _met(row, figures), _peak(samples)]


def _median(samples: Sequence[Sample], *, synced: bool) -> float:
    return statistics.median(
        sample.synced_seconds if synced else sample.seconds for sample in samples
    )


def _ratio(row: Row, figures: dict[str, float]) -> str:
    """Give how often the yardstick goes into cachekeeper's figure."""
    yardstick = row.limits[0]
    base = yardstick.plus_s if yardstick.peer is None else figures.get(yardstick.peer)
    if not base or _KEEPER not in figures:
        return _NOTHING
    name = yardstick.peer or f"{yardstick.plus_s} s"
    return f"{figures[_KEEPER] / base:.2f} x {name}"


def _met(row: Row, figures: dict[str, float]) -> str:
    """Say whether every limit holds; one that could not be measured leaves it open."""
    if row.target == _NOTHING or _KEEPER not in figures:
        return _NOTHING
    bounds = [limit.bound(figures) for limit in row.limits]
    if any(bound is not None and figures[_KEEPER] > bound for bound in bounds):
        return "no"
    return "open" if None in bounds else "yes"


def _peak(samples: dict[str, list[Sample]]) -> str:
    if _KEEPER not in samples:
        return _NOTHING
    return f"{max(sample.peak_rss_bytes for sample in samples[_KEEPER]) / 1e6:.0f}"
