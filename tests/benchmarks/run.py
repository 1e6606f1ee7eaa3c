"""Measure cachekeeper against the usual tools: one run, one machine, one table.

usage: python tests/benchmarks/run.py --work DIR [--rounds N] [--json FILE] [--only A,B] …

See docs/design/benchmarks.md for what is measured. Everything happens below `--work`, which must be
empty or absent, is removed afterwards, and should lie on the file system that is of interest.
"""

import argparse
import json
import os
import platform
import sys

import report
from contest import Contestant
from keeper import Asked, Keeper, why_not
from peers import PEERS, make_peers, missing
from rounds import Results, Rounds, make_tree, talk
from tree import Shape
from workplace import BenchmarkError, Workplace, prepared

# `ls`, `log` and `pins` are about the store: what they must look at in the root is kept small.
_SMALL = Shape(files=200, megabytes=4, ranks=2)


def _parse(arguments: list[str]) -> argparse.Namespace:
    default = Shape()
    parser = argparse.ArgumentParser(description="Measure cachekeeper against the usual tools.")
    parser.add_argument(
        "--work", required=True, help="directory for everything, removed afterwards"
    )
    parser.add_argument("--rounds", type=int, default=5, help="medians are taken of so many")
    parser.add_argument("--json", metavar="FILE", help="write the raw figures")
    parser.add_argument("--only", metavar="A,B", help="take only these tools")
    parser.add_argument("--snapshots", type=int, default=1000, help="in the store that is asked")
    parser.add_argument("--files", type=int, default=default.files)
    parser.add_argument("--megabytes", type=float, default=default.megabytes)
    parser.add_argument("--ranks", type=int, default=default.ranks)
    parser.add_argument("--seed", type=int, default=default.seed)
    options = parser.parse_args(arguments)
    known = {Keeper.name, *(peer.name for peer in PEERS)}
    options.only = set(options.only.split(",")) if options.only else known
    if unknown := options.only - known:
        parser.error(f"unknown: {', '.join(sorted(unknown))}; known: {', '.join(sorted(known))}")
    return options


def _measure(workplace: Workplace, options: argparse.Namespace, results: Results) -> str:
    """Do everything; give what is known of the tree."""
    root = workplace.at("root")
    contestants: list[Contestant] = make_peers(workplace, root, options.only)
    if Keeper.name in options.only:
        if reason := why_not(workplace):
            raise BenchmarkError(f"cachekeeper cannot be run ({reason}); leave it out with --only")
        contestants.insert(0, Keeper(workplace, root))
    shape = Shape(options.files, options.megabytes, options.ranks, options.seed)
    about = make_tree(workplace, root, shape)
    talk(about)
    rounds = Rounds(workplace, root, results)
    rounds.all(contestants, options.rounds)
    if Keeper.name in options.only:
        asked = Asked(workplace, workplace.at("small"))
        rounds.questions(asked, _SMALL, options.snapshots, options.rounds)
    return about


def _print(results: Results, peers: list[str], left_out: list[str]) -> None:
    print(report.table(results, peers))
    for reason in left_out:
        print(f"left out: {reason}")
    for note in results.notes:
        print(note)


def main(arguments: list[str]) -> int:
    """Run the benchmark: 0 done, 1 something failed (the table shows what there is)."""
    options = _parse(arguments)
    results = Results()
    present = [peer for peer in PEERS if peer.name in options.only]
    left_out = [f"{peer.name}: {reason}" for peer in present if (reason := missing(peer))]
    peers = [peer.name for peer in present if missing(peer) is None]
    about = ""
    try:
        with prepared(options.work) as workplace:
            about = _measure(workplace, options, results)
    except BenchmarkError as error:
        results.fail(str(error))
    _print(results, peers, left_out)
    if options.json:
        facts = {
            "machine": {"cpus": os.cpu_count(), "system": platform.platform()},
            "python": platform.python_version(),
            "rounds": options.rounds,
            "tree": json.loads(about or "null"),
            "left_out": left_out,
        }
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump(report.as_json(results, facts), file, indent=1)
    return 1 if results.failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
