import os
from collections.abc import Callable
from pathlib import Path

import pytest
from real_trees import unpack_once


@pytest.fixture(scope="session")
def real_tree(tmp_path_factory) -> Callable[[str], bytes]:
    """Give the root of a real tree by its label; it is shared, so read it only."""
    return lambda label: unpack_once(label, tmp_path_factory.getbasetemp())


@pytest.fixture
def make_root(tmp_path) -> Callable[..., bytes]:
    """Write a root of {path: content}; a path that ends with / is a directory."""

    def make(files: dict[str, bytes | str], name: str = "vllm") -> bytes:
        root = tmp_path / name
        root.mkdir(exist_ok=True)
        for path, content in files.items():
            target = root / path
            if path.endswith("/"):
                target.mkdir(parents=True, exist_ok=True)
                continue
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(content.encode() if isinstance(content, str) else content)
        return os.fsencode(root)

    return make


@pytest.fixture
def files_of() -> Callable[[bytes], list[tuple[bytes, int]]]:
    """Give all files below a directory as (relative path, size)."""

    def files(directory: bytes) -> list[tuple[bytes, int]]:
        if not os.path.isdir(directory):
            return [(b"", os.path.getsize(directory))]
        found = []
        for base, _, names in os.walk(directory):
            paths = [os.path.join(base, name) for name in names]
            found += [(os.path.relpath(path, directory), os.path.getsize(path)) for path in paths]
        return found

    return files


@pytest.fixture
def index_text() -> Callable[[list[tuple[str, str]]], str]:
    """Write an index as vLLM 0.17 to 0.32 do, of (artifact path, cache key)."""

    def text(handles: list[tuple[str, str]]) -> str:
        items = {
            ((1, 8192), number, "inductor_standalone"): {
                "graph_handle": (Path(path).name, path),
                "cache_key": key,
            }
            for number, (path, key) in enumerate(handles)
        }
        return repr(items)

    return text
