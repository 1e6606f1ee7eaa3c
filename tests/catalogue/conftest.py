import pytest
from builders_records import STORE, MemorySource

from cachekeeper.catalogue.catalogue import Catalogue


@pytest.fixture
def source():
    return MemorySource()


@pytest.fixture
def path(tmp_path):
    return tmp_path / "catalogue.sqlite"


@pytest.fixture(scope="session")
def empty_file(tmp_path_factory):
    """The bytes of a catalogue without rows: making one takes a migration."""
    made = tmp_path_factory.mktemp("made") / "catalogue.sqlite"
    with Catalogue(str(made), STORE, MemorySource()) as catalogue:
        catalogue.events()
    return made.read_bytes()


@pytest.fixture
def catalogue(path, source, empty_file):
    path.write_bytes(empty_file)
    with Catalogue(str(path), STORE, source) as opened:
        yield opened
