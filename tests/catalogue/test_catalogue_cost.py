"""What is imported when: a command that asks nothing must not pay for SQLAlchemy."""

import subprocess
import sys

_IMPORT = """
import sys
from cachekeeper.catalogue.catalogue import Catalogue
import cachekeeper.catalogue.rows, cachekeeper.catalogue.source
Catalogue("nowhere/catalogue.sqlite", "5" * 32, None).close()
heavy = {"sqlalchemy", "alembic", "sqlite3"} & set(sys.modules)
assert not heavy, heavy
"""

_QUESTION = """
import sys
from builders_records import STORE, MemorySource, root
from cachekeeper.catalogue.catalogue import Catalogue
source = MemorySource()
source.snapshot(root())
with Catalogue(sys.argv[1], STORE, source) as catalogue:
    catalogue.snapshots(), catalogue.pins(), catalogue.events()
heavy = {"alembic", "sqlalchemy.orm"} & set(sys.modules)
assert not heavy, heavy
"""


def _run(code, *arguments):
    here = str(__file__).rpartition("/")[0]
    path = [here, here.rpartition("/tests/")[0]]
    code = f"import sys; sys.path[:0] = {path!r}\n{code}"
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_importing_and_making_a_catalogue_is_cheap():
    _run(_IMPORT)


def test_a_question_to_a_current_file_needs_no_alembic(path, empty_file):
    path.write_bytes(empty_file)
    _run(_QUESTION, str(path))
