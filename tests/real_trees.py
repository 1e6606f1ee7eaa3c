"""Real caches of vLLM 0.20.1 from H200 GPUs, see data/h200/README.md."""

import os
import tarfile
from pathlib import Path

LABELS = ("A", "A3", "A4", "Ap", "LT", "MT3")

_ARCHIVES = Path(__file__).parent / "data" / "h200"


def unpack(label: str, into: Path) -> bytes:
    """Unpack one archive with its times; return the path of its VLLM_CACHE_ROOT."""
    with tarfile.open(_ARCHIVES / f"{label}.tar.xz") as archive:
        archive.extractall(into, filter="data")
    return os.fsencode(into / label / "vllm")


def unpack_once(label: str, shared: Path) -> bytes:
    """Unpack into a directory of this test session that several fixtures share; read it only."""
    into = shared / "h200" / label
    if not into.exists():
        unpack(label, into)
    return os.fsencode(into / label / "vllm")
