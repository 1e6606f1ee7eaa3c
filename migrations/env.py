"""Alembic's entrance. The catalogue hands its own connection over, inside its own transaction.

Nothing else is configured, logging least of all: this runs inside other people's programs.
tests/catalogue/draft_revision.py drafts a new revision from cachekeeper/catalogue/tables.py.
"""

from alembic import context

from cachekeeper.catalogue.tables import METADATA

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=METADATA,
    render_as_batch=True,  # SQLite changes a column by copying the table
)
context.run_migrations()
