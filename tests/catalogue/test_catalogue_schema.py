"""Tables and migrations are one thing told twice; the wheel carries the migrations."""

import logging
import os
import subprocess
import sys
import zipfile

import pytest
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from builders_records import STORE, MemorySource

from cachekeeper.catalogue import database, schema
from cachekeeper.catalogue.catalogue import Catalogue
from cachekeeper.catalogue.tables import METADATA

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def _migrated():
    opened = database.open_memory()
    schema.prepare_file(opened)
    return opened


def _shape(opened):
    """Return every column and index that SQLite itself knows."""
    with opened.reading() as connection:
        rows = connection.exec_driver_sql(
            'SELECT m.type, m.name, m.tbl_name, c.name, c.type, c."notnull", c.pk'
            " FROM sqlite_master m LEFT JOIN pragma_table_info(m.name) c"
            " WHERE m.name NOT LIKE '%alembic_version%' AND m.tbl_name != 'alembic_version'"
        )
        return {tuple(row) for row in rows}


def test_the_migrations_make_the_tables():
    migrated = _migrated()
    with migrated.reading() as connection:
        context = MigrationContext.configure(
            connection, opts={"compare_type": True, "compare_server_default": True}
        )
        assert compare_metadata(context, METADATA) == []
    made = database.open_memory()
    schema.prepare_memory(made)
    assert _shape(migrated) == _shape(made)
    migrated.close()
    made.close()


def test_head_is_the_newest_migration():
    config = Config()
    config.set_main_option("script_location", schema.migrations_folder())
    assert ScriptDirectory.from_config(config).get_heads() == [schema.HEAD]


def test_a_checkout_uses_its_own_migrations():
    assert schema.migrations_folder() == os.path.join(TOP, "migrations")


def test_a_current_file_is_not_migrated(path, monkeypatch):
    source = MemorySource()
    with Catalogue(str(path), STORE, source) as catalogue:
        catalogue.events()
    monkeypatch.setattr(schema, "_migrate", None)
    with Catalogue(str(path), STORE, source) as catalogue:
        assert catalogue.events() == ()


def test_two_that_open_a_new_file_migrate_it_once(path):
    """The second one waited for the first one's transaction and looks again."""
    first, second = (database.open_file(os.fsencode(path)) for _ in range(2))
    prefer_wal = second.prefer_wal

    def meanwhile():
        schema.prepare_file(first)
        prefer_wal()

    second.prefer_wal = meanwhile
    schema.prepare_file(second)
    first.close()
    second.close()


def test_a_migration_that_fails_leaves_no_table(path, monkeypatch):
    migrate = schema._migrate

    def fail(connection):
        migrate(connection)
        raise RuntimeError

    monkeypatch.setattr(schema, "_migrate", fail)
    with Catalogue(str(path), STORE, MemorySource()) as catalogue:
        with pytest.raises(RuntimeError):
            catalogue.events()
        monkeypatch.setattr(schema, "_migrate", migrate)
        assert catalogue.events() == ()


def test_a_migration_leaves_logging_alone(path):
    before = (
        list(logging.root.handlers),
        logging.root.level,
        dict(logging.root.manager.loggerDict),
    )
    logger = logging.getLogger("someone.else")
    with Catalogue(str(path), STORE, MemorySource()) as catalogue:
        catalogue.events()
    assert (list(logging.root.handlers), logging.root.level) == before[:2]
    assert not logger.disabled
    assert not any(logging.getLogger(name).disabled for name in before[2])


_IN_THE_WHEEL = """
import os, sys
import cachekeeper
from builders_records import STORE, MemorySource, root
from cachekeeper.catalogue import schema
from cachekeeper.catalogue.catalogue import Catalogue
package = os.path.dirname(cachekeeper.__file__)
assert package == os.path.join(sys.argv[1], "cachekeeper"), package
assert schema.migrations_folder() == os.path.join(package, "_migrations")
source = MemorySource()
source.snapshot(root())
with Catalogue(sys.argv[2], STORE, source) as catalogue:
    assert len(catalogue.snapshots()) == 1
assert os.listdir(os.path.dirname(sys.argv[2])) == ["catalogue.sqlite"]
"""


def test_the_wheel_upgrades_with_its_own_migrations(tmp_path):
    pytest.importorskip("hatchling", reason="builds the wheel without a download")
    built, unpacked, store = (tmp_path / name for name in ("built", "unpacked", "store"))
    store.mkdir()
    build = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(built)]
    done = subprocess.run([*build, TOP], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    (wheel,) = built.iterdir()
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(unpacked)
    paths = os.pathsep.join((str(unpacked), os.path.dirname(os.path.abspath(__file__))))
    environment = {**os.environ, "PYTHONPATH": paths}
    command = [sys.executable, "-W", "error", "-c", _IN_THE_WHEEL]
    done = subprocess.run(
        [*command, str(unpacked), str(store / "catalogue.sqlite")],
        capture_output=True, text=True, check=False, env=environment, cwd=tmp_path,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
