"""The file: made, deleted, broken, unknown, read-only. The answer is the same in every case."""

import os
import shutil
import sqlite3
import stat
import tempfile

import pytest
import sqlalchemy as sa
from builders_records import ROOT, STORE, MemorySource, family, root
from strangers import as_nobody

from cachekeeper.catalogue import database, index, place, schema
from cachekeeper.catalogue.catalogue import Catalogue
from cachekeeper.catalogue.faults import Fault, fault_of
from cachekeeper.core.errors import BusyError, IoError
from cachekeeper.fs import primitives


@pytest.fixture(autouse=True)
def _records(source):
    snapshot = source.snapshot(root([family(1), family(2)]))
    source.pin("fast", snapshot, family(1))


@pytest.fixture
def made(path, empty_file):
    """A catalogue that was made before and knows no record yet."""
    path.write_bytes(empty_file)


def _ask(path, source):
    with Catalogue(str(path), STORE, source) as catalogue:
        return [event.sequence for event in catalogue.events()]


def _names(path):
    return sorted(os.listdir(path.parent))


def test_a_missing_file_is_made_and_private(path, source):
    assert _ask(path, source) == [2, 1]
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert _names(path) == ["catalogue.sqlite"]


def test_any_path_will_do(tmp_path, source, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = os.fsencode(tmp_path) + b"/50% caf\xe9?mode=ro#"
    assert _ask(os.fsdecode(path), source) == [2, 1]
    with Catalogue(b"relative", STORE, source) as catalogue:
        assert len(catalogue.events()) == 2
    assert sorted(os.listdir(os.fsencode(tmp_path))) == [os.path.basename(path), b"relative"]


@pytest.mark.usefixtures("made")
def test_a_deleted_file_is_made_anew(path, source):
    _ask(path, source)
    path.unlink()
    assert _ask(path, source) == [2, 1]


@pytest.mark.usefixtures("made")
def test_a_file_deleted_while_it_is_open(path, source):
    with Catalogue(str(path), STORE, source) as catalogue:
        catalogue.events()
        path.unlink()
        source.snapshot(root())
        assert len(catalogue.events()) == 3
    assert _ask(path, source) == [3, 2, 1]


@pytest.mark.parametrize(
    "content", [b"x" * 512, b"not a database at all\n" * 400, b"SQLite format 3\0" + b"\xff" * 5000]
)
def test_a_file_that_is_no_database_is_moved_aside(path, source, content):
    path.write_bytes(content)
    assert _ask(path, source) == [2, 1]
    assert (path.parent / "catalogue.sqlite.broken-1").read_bytes() == content
    assert _ask(path, source) == [2, 1]
    assert _names(path) == ["catalogue.sqlite", "catalogue.sqlite.broken-1"]


def test_a_second_broken_file_gets_the_next_number(path, source):
    for content in (b"first" * 200, b"second" * 200):
        path.write_bytes(content)
        assert _ask(path, source) == [2, 1]
    assert (path.parent / "catalogue.sqlite.broken-2").read_bytes() == b"second" * 200


def test_an_empty_file_is_filled(path, source):
    path.touch()
    assert _ask(path, source) == [2, 1]
    assert _names(path) == ["catalogue.sqlite"]


@pytest.mark.usefixtures("made")
def test_pages_that_are_overwritten_are_noticed(path, source):
    for number in range(40):
        source.snapshot(root([family(number)]))
    expected = _ask(path, source)
    whole = bytearray(path.read_bytes())
    whole[4096:] = bytes(byte ^ 0xFF for byte in whole[4096:])
    path.write_bytes(whole)
    assert _ask(path, source) == expected
    assert (path.parent / "catalogue.sqlite.broken-1").read_bytes() == whole


@pytest.mark.usefixtures("made")
def test_a_file_that_breaks_while_it_is_open(path, source):
    with Catalogue(str(path), STORE, source) as catalogue:
        catalogue.remember(ROOT, {"one": b"1"})
        connection = sqlite3.connect(path)
        connection.execute("DROP TABLE snapshot")
        connection.commit()
        connection.close()
        assert len(catalogue.snapshots()) == 1
        assert catalogue.remembered(ROOT, "one") is None
    assert "catalogue.sqlite.broken-1" in _names(path)


def _sql(path, *statements):
    connection = sqlite3.connect(path)
    for statement in statements:
        connection.execute(statement)
    connection.commit()
    connection.close()


@pytest.mark.usefixtures("made")
@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE alembic_version SET version_num = 'f00dfeedcafe'",
        "DELETE FROM alembic_version",
        "INSERT INTO alembic_version VALUES ('0000')",
        "DROP TABLE alembic_version",
        "DROP TABLE record",
        "ALTER TABLE record RENAME COLUMN digest TO hash",
    ],
)
def test_a_schema_this_code_does_not_know_is_moved_aside(path, source, statement):
    _ask(path, source)
    _sql(path, statement)
    assert _ask(path, source) == [2, 1]
    assert _names(path) == ["catalogue.sqlite", "catalogue.sqlite.broken-1"]


def test_someone_else_s_database_is_kept_aside(path, source):
    _sql(path, "CREATE TABLE thing (name)", "INSERT INTO thing VALUES ('precious')")
    assert _ask(path, source) == [2, 1]
    aside = sqlite3.connect(path.parent / "catalogue.sqlite.broken-1")
    assert aside.execute("SELECT name FROM thing").fetchall() == [("precious",)]
    aside.close()


@pytest.mark.usefixtures("made")
def test_journals_go_aside_with_their_database(path, source):
    """Left behind, a write-ahead log would be played into the next catalogue."""
    _ask(path, source)
    user = sqlite3.connect(path, isolation_level=None)
    user.execute("UPDATE alembic_version SET version_num = 'f00dfeedcafe'")
    assert _names(path) == ["catalogue.sqlite", "catalogue.sqlite-shm", "catalogue.sqlite-wal"]
    assert _ask(path, source) == [2, 1]
    aside = "catalogue.sqlite.broken-1"
    assert _names(path) == ["catalogue.sqlite", aside, aside + "-shm", aside + "-wal"]
    kept = sqlite3.connect(path.parent / aside)
    assert kept.execute("SELECT version_num FROM alembic_version").fetchall() == [("f00dfeedcafe",)]
    kept.close()
    user.close()


def test_a_file_that_was_replaced_already_is_left_alone(path):
    path.write_bytes(b"the new one")
    place.move_aside(os.fsencode(path), (0, 0))
    assert path.read_bytes() == b"the new one"


def test_a_file_that_is_gone_already_needs_no_move(path):
    place.move_aside(os.fsencode(path), (0, 0))
    assert _names(path) == []


def test_a_broken_file_that_cannot_be_moved_is_left(path, source):
    path.write_bytes(b"broken" * 1000)

    def refuse(name, _path):
        if name.startswith("rename"):
            raise PermissionError

    with primitives.before_each(refuse):
        assert _ask(path, source) == [2, 1]
    assert path.read_bytes() == b"broken" * 1000


def test_a_file_that_breaks_again_and_again_is_given_up(path, source, monkeypatch):
    def strange(_database):
        raise schema.StrangeCatalogueError

    monkeypatch.setattr(schema, "prepare_file", strange)
    assert _ask(path, source) == [2, 1]


def test_a_directory_that_is_not_there(tmp_path, source):
    assert _ask(tmp_path / "nowhere" / "catalogue.sqlite", source) == [2, 1]
    assert os.listdir(tmp_path) == []


def test_a_path_inside_a_file(tmp_path, source):
    (tmp_path / "file").write_text("")
    assert _ask(tmp_path / "file" / "catalogue.sqlite", source) == [2, 1]


def test_a_directory_in_the_way(path, source):
    path.mkdir()
    assert _ask(path, source) == [2, 1]


def test_an_index_in_memory_takes_all_questions(tmp_path, source):
    with Catalogue(str(tmp_path / "nowhere" / "x"), STORE, source) as catalogue:
        assert catalogue.pin_named("fast").families[0].key == family(1)["key"]
        catalogue.remember(ROOT, {"one": b"1"})
        assert catalogue.remembered(ROOT, "one") == b"1"
        source.snapshot(root())
        assert catalogue.rebuild().records == 3


@pytest.fixture
def public():
    """A directory that nobody can reach: pytest's own are private."""
    folder = tempfile.mkdtemp(prefix="catalogue-")
    os.chmod(folder, 0o755)
    yield folder
    os.chmod(folder, 0o755)
    shutil.rmtree(folder)


@pytest.mark.parametrize(
    ("mode", "folder_mode"), [(0o444, 0o755), (0o444, 0o555), (0o666, 0o555), (0o000, 0o555)]
)
def test_a_read_only_store_is_answered_from_memory(public, source, mode, folder_mode):
    path = os.path.join(public, "catalogue.sqlite")
    _ask(path, source)
    source.snapshot(root([family(3)]))
    os.chmod(path, mode)
    os.chmod(public, folder_mode)
    assert as_nobody(_ask, path, source) == [3, 2, 1]
    assert os.listdir(public) == ["catalogue.sqlite"]


def test_a_broken_file_in_a_read_only_store(public, source):
    path = os.path.join(public, "catalogue.sqlite")
    with open(path, "wb") as file:
        file.write(b"broken" * 1000)
    os.chmod(path, 0o666)
    os.chmod(public, 0o555)
    assert as_nobody(_ask, path, source) == [2, 1]
    assert os.listdir(public) == ["catalogue.sqlite"]


def test_a_read_only_store_without_a_catalogue(public, source):
    os.chmod(public, 0o555)
    assert as_nobody(_ask, os.path.join(public, "catalogue.sqlite"), source) == [2, 1]
    assert os.listdir(public) == []


def _connect_with(monkeypatch, *pragmas, uri="{path}"):
    def connect(path):
        where = "file:" + uri.format(path=os.fsdecode(path)) if path != b":memory:" else ":memory:"
        connection = sqlite3.connect(where, timeout=0.01, isolation_level=None, uri=True)
        for pragma in pragmas if path != b":memory:" else ():
            connection.execute(pragma)
        return connection

    monkeypatch.setattr(database, "_connect", connect)


@pytest.mark.usefixtures("made")
def test_a_full_disk_is_answered_from_memory(path, source, monkeypatch):
    _ask(path, source)
    pages = path.stat().st_size // 4096
    for number in range(100):
        source.snapshot(root([family(number)]))
    _connect_with(monkeypatch, f"PRAGMA max_page_count={pages}")
    assert _ask(path, source) == list(range(102, 0, -1))


@pytest.mark.usefixtures("made")
def test_a_file_system_that_turns_read_only(path, source, monkeypatch):
    _ask(path, source)
    source.snapshot(root())
    _connect_with(monkeypatch, "PRAGMA query_only=ON")
    assert _ask(path, source) == [3, 2, 1]


def test_a_file_system_without_shared_memory_keeps_the_old_journal(path, source, monkeypatch):
    _connect_with(monkeypatch, uri="{path}?vfs=unix-dotfile")
    assert _ask(path, source) == [2, 1]
    assert path.read_bytes()[18:20] == b"\x01\x01"  # of the file header: the rollback journal


def test_elsewhere_readers_and_the_writer_get_on(path, source):
    _ask(path, source)
    assert path.read_bytes()[18:20] == b"\x02\x02"  # the write-ahead log


@pytest.mark.usefixtures("made")
def test_a_catalogue_that_another_process_holds_for_long(path, source, monkeypatch):
    _ask(path, source)
    _connect_with(monkeypatch)
    holder = sqlite3.connect(path, isolation_level=None)
    holder.execute("BEGIN IMMEDIATE")
    with Catalogue(str(path), STORE, source) as catalogue:
        assert len(catalogue.events()) == 2
        source.snapshot(root())
        with pytest.raises(BusyError, match="held by another process") as caught:
            catalogue.events()
        assert caught.value.hint
        holder.execute("ROLLBACK")
        assert len(catalogue.events()) == 3
    holder.close()


def test_the_journal_is_asked_for_while_another_process_writes(path, monkeypatch):
    _connect_with(monkeypatch)
    holder = sqlite3.connect(path, isolation_level=None)
    holder.execute("BEGIN IMMEDIATE")
    opened = database.open_file(os.fsencode(path))
    opened.prefer_wal()
    holder.execute("COMMIT")
    holder.close()
    opened.close()


def test_missing_migrations_are_said(path, source, monkeypatch):
    monkeypatch.setattr(schema.os.path, "isdir", lambda _path: False)
    with (
        pytest.raises(IoError, match="no migrations"),
        Catalogue(str(path), STORE, source) as catalogue,
    ):
        catalogue.events()


@pytest.mark.usefixtures("made")
def test_a_bug_of_ours_is_not_hidden(path, source):
    with Catalogue(str(path), STORE, source) as catalogue:
        opened = catalogue._index()
        for sql in ("INSERT INTO alembic_version VALUES (NULL)", "SELECT ?"):
            with pytest.raises(sa.exc.DBAPIError):
                opened.change(lambda view, sql=sql: view.connection.exec_driver_sql(sql))
    assert _names(path) == ["catalogue.sqlite"]


def test_an_error_in_memory_is_not_answered_from_memory_again(tmp_path, source):
    opened = index.Index(os.fsencode(tmp_path) + b"/nowhere/x", STORE, source)
    with pytest.raises(sa.exc.OperationalError):
        opened.change(lambda view: view.connection.exec_driver_sql("SELECT * FROM nothing"))
    opened.close()


def test_text_that_is_not_utf8_means_a_broken_file():
    cause = sqlite3.OperationalError("Could not decode to UTF-8 column 'at' with text '\udcff'")
    assert fault_of(sa.exc.OperationalError("", {}, cause)) is Fault.BROKEN


def test_a_source_is_asked_again_after_a_broken_file(path):
    source = MemorySource()
    path.write_bytes(b"broken" * 1000)
    with Catalogue(str(path), STORE, source) as catalogue:
        assert catalogue.events() == ()
        source.snapshot(root())
        assert len(catalogue.events()) == 1
