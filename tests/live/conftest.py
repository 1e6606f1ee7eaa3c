"""Fixtures of the live tests: the virtual environment that holds real vLLM."""

import os
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))


@pytest.fixture(scope="session")
def vllm_venv():
    """Return the virtual environment with vLLM; `make vllm` makes it."""
    named = os.environ.get("CACHEKEEPER_VLLM_VENV")
    venv = Path(named) if named else HERE.parent.parent / ".venv-vllm"
    if not (venv / "bin" / "vllm").exists():
        pytest.fail(f"there is no vLLM in {venv}: run `make vllm`")
    return venv.resolve()
