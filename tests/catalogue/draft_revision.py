"""Draft the next migration: `python tests/catalogue/draft_revision.py "what changes"`.

It compares the tables with a database at the newest revision. Read the draft, then set HEAD in
cachekeeper/catalogue/schema.py; the tests compare both again.
"""

import os
import sys

from alembic import command
from alembic.config import Config

from cachekeeper.catalogue.database import open_memory
from cachekeeper.catalogue.schema import migrations_folder


def draft(message: str) -> None:
    folder = migrations_folder()
    revisions = [
        name for name in os.listdir(os.path.join(folder, "versions")) if name[:4].isdigit()
    ]
    database = open_memory()
    with database.writing() as connection:
        config = Config(attributes={"connection": connection})
        config.set_main_option("script_location", folder.replace("%", "%%"))
        if revisions:
            command.upgrade(config, "head")
        command.revision(config, message, autogenerate=True, rev_id=f"{len(revisions) + 1:04d}")
    database.close()


if __name__ == "__main__":
    draft(sys.argv[1])
