"""Many processes at once: each answer is whole, nobody is refused, each record is indexed once."""

import multiprocessing
import sqlite3

import pytest
from builders_records import STORE, MemorySource, family, root

from cachekeeper.catalogue.catalogue import Catalogue

PROCESSES = 8


def _ask(path, source, together, answers):
    try:
        together.wait()
        with Catalogue(path, STORE, source) as catalogue:
            pins = [pin.name for pin in catalogue.pins()]
            together.wait()
            # each adds a record of its own, so that all have to write again
            source.snapshot(root([family(multiprocessing.current_process().name)]))
            news = len(catalogue.snapshots())
            answers.put((pins, news, len(catalogue.referenced_builds())))
    except BaseException as error:  # noqa: BLE001  the parent shows it
        together.abort()
        answers.put(repr(error))


def _together(path, source):
    context = multiprocessing.get_context("fork")
    together, answers = context.Barrier(PROCESSES, timeout=60), context.Queue()
    arguments = (str(path), source, together, answers)
    children = [context.Process(target=_ask, args=arguments) for _ in range(PROCESSES)]
    for child in children:
        child.start()
    found = [answers.get(timeout=60) for _ in children]
    for child in children:
        child.join()
    answers.close()
    return found


@pytest.fixture
def source():
    made = MemorySource()
    for number in range(60):
        snapshot = made.snapshot(root([family(n, number) for n in range(5)]))
    made.pin("fast", snapshot, family(1))
    return made


@pytest.mark.parametrize("content", [None, b"", b"broken" * 1000])
def test_processes_that_ask_at_once_make_one_catalogue(path, source, content):
    if content is not None:
        path.write_bytes(content)
    found = _together(path, source)
    # a process sees its own record at least; records of others vanish from its own source's list
    assert all(answer == (["fast"], 61, 301) for answer in found), found
    with Catalogue(str(path), STORE, source) as catalogue:
        assert len(catalogue.snapshots()) == 60
    connection = sqlite3.connect(path)
    assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    assert connection.execute("SELECT count(*) FROM record").fetchone() == (61,)
    assert connection.execute("SELECT count(*) FROM holding").fetchone() == (301,)
    connection.close()
