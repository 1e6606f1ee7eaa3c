"""The schema's revision: a plain query when it is current, Alembic when it is not.

Guarantee: a file is made or migrated in one transaction; processes that open it at the same time
wait, look again and find it done.
"""

import os

import sqlalchemy as sa

from cachekeeper.catalogue.database import Database
from cachekeeper.catalogue.faults import StrangeCatalogueError
from cachekeeper.catalogue.tables import METADATA
from cachekeeper.core.errors import IoError

HEAD = "0001"  # the newest file in migrations/versions; a test compares


def prepare_file(database: Database) -> None:
    """Bring a file to the newest revision; raises StrangeCatalogueError."""
    with database.reading() as connection:
        if _revision(connection) == HEAD:
            return
    database.prefer_wal()
    with database.writing() as connection:
        if _revision(connection) != HEAD:
            _migrate(connection)


def prepare_memory(database: Database) -> None:
    """Make the tables where nobody will ever migrate them."""
    with database.writing() as connection:
        METADATA.create_all(connection, checkfirst=False)


def migrations_folder() -> str:
    """Return where the migrations are: inside an installed package, beside it in a checkout."""
    package = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    installed = os.path.join(package, "_migrations")
    checkout = os.path.join(os.path.dirname(package), "migrations")
    found = next((folder for folder in (installed, checkout) if os.path.isdir(folder)), None)
    if found is None:
        raise IoError(f"there are no migrations in {installed}", "install cachekeeper again")
    return found


def _revision(connection: sa.Connection) -> str | None:
    """Return the revision, None in an empty database; raises StrangeCatalogueError."""
    tables = connection.exec_driver_sql("SELECT name FROM sqlite_master").scalars().all()
    if not tables:
        return None
    if "alembic_version" not in tables:
        raise StrangeCatalogueError
    rows = connection.exec_driver_sql("SELECT version_num FROM alembic_version").scalars().all()
    if len(rows) != 1:
        raise StrangeCatalogueError
    return str(rows[0])


def _migrate(connection: sa.Connection) -> None:
    from alembic import command, util  # noqa: PLC0415  0.3 s that only a new file costs
    from alembic.config import Config  # noqa: PLC0415

    config = Config(attributes={"connection": connection})
    config.set_main_option("script_location", migrations_folder().replace("%", "%%"))
    try:
        command.upgrade(config, "head")
    except util.CommandError as error:  # a revision that only a newer cachekeeper knows
        raise StrangeCatalogueError from error
