"""Many processes at once: each answer is whole, nobody is refused, each record is indexed once."""

import multiprocessing
import sqlite3

import pytest
import sqlalchemy as _sqlalchemy  # noqa: F401  once, for all children
from builders_records import STORE, FolderSource, family, root

from cachekeeper.catalogue.catalogue import Catalogue

PROCESSES = 8
RECORDS = 40


def _ask(number, path, source, together, answers):
    try:
        with Catalogue(path, STORE, source) as catalogue:
            together.wait()
            first = len(catalogue.snapshots())
            together.wait()
            source.snapshot(root([family(number)]), sequence=RECORDS + 1 + number)
            own = {row.key for row in catalogue.builds_of_key(family(number)["key"], None)}
            together.wait()
            answers.put((first, own == {family(number)["key"]}, len(catalogue.referenced_builds())))
            together.wait()
            catalogue.rebuild()
    except BaseException as error:  # noqa: BLE001  the parent shows it
        together.abort()
        answers.put(repr(error))


def _together(path, source):
    context = multiprocessing.get_context("fork")
    together, answers = context.Barrier(PROCESSES, timeout=300), context.Queue()
    children = [
        context.Process(target=_ask, args=(number, str(path), source, together, answers))
        for number in range(PROCESSES)
    ]
    for child in children:
        child.start()
    found = [answers.get(timeout=300) for _ in children]
    for child in children:
        child.join()
    answers.close()
    return found


@pytest.fixture
def folder_source(tmp_path):
    (tmp_path / "records").mkdir()
    source = FolderSource(str(tmp_path / "records"))
    for number in range(RECORDS):
        source.snapshot(root([family(n, number) for n in range(5)]), sequence=number + 1)
    return source


@pytest.mark.parametrize("content", [None, b"broken" * 1000], ids=["none", "broken"])
def test_processes_that_ask_at_once_make_one_catalogue(tmp_path, folder_source, content):
    (tmp_path / "store").mkdir()
    path = tmp_path / "store" / "catalogue.sqlite"
    if content is not None:
        path.write_bytes(content)
    families = 5 * RECORDS + PROCESSES
    assert _together(path, folder_source) == [(RECORDS, True, families)] * PROCESSES
    connection = sqlite3.connect(path)
    assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    for table, rows in (("record", RECORDS + PROCESSES), ("holding", families)):
        assert connection.execute(f"SELECT count(*) FROM {table}").fetchone() == (rows,)
    connection.close()
    aside = ["catalogue.sqlite.broken-1"] if content else []
    assert sorted(entry.name for entry in path.parent.iterdir()) == ["catalogue.sqlite", *aside]
