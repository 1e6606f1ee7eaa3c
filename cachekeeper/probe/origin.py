"""Where a record was made: host, user, and the caller's environment without its secrets.

Outside a guarded run the environment is the caller's, not the one vLLM ran with; `of` says so.
"""

import re
from collections.abc import Mapping
from typing import Any

# What moves a hash, a choice or a speed, whether vLLM hashes it or not.
_TELLING = re.compile(
    r"(VLLM|TORCH|TORCHINDUCTOR|PYTORCH|ATEN|TRITON|TILELANG|CUDA|HIP|ROCM|ROCR|NCCL|RCCL|CCL|SYCL|ZE|"
    r"ONEAPI|OMP|KMP|MKL|XPU|IPEX|LD|HF|FI|FLASHINFER|DG|INDUCTOR|AOT|UR|NEO|IGC|LEVEL|XDG)_.*|"
    r"HOME|PATH|USER|CC|CXX"
)
_SECRET_NAME = re.compile(
    r"KEY|TOKEN|SECRET|PASSW|PASSPHRASE|CREDENTIAL|AUTH|COOKIE|SESSION|PRIVATE|BEARER",
    re.IGNORECASE,
)
# Limits such as VLLM_…_MAX_TOKENS shape the graph.
_COUNT_NAME = re.compile(r".*_TOKENS")
_SECRET_VALUE = re.compile(
    # Credentials in a URL: always with a password; a user alone is a token where a browser goes.
    r"[a-z][a-z0-9+.-]*://[^/\s:@]*:[^/\s@]+@|https?://[^/\s@]+@|"
    # Tokens by the marks their makers gave them, not within a word (disk-…, task_…).
    r"(?<![a-z0-9])(?:hf_[a-z0-9]{16}|sk[-_](?:[a-z0-9]+[-_])*[a-z0-9]{16}|gh[pousr]_[a-z0-9]{16}|"
    r"github_pat_|xox[a-z]-|glpat-|nvapi-|npm_[a-z0-9]{16}|pypi-[a-z0-9_-]{16}|dckr_pat_|"
    r"AIza[a-z0-9_-]{16}|ya29\.|(?:AKIA|ASIA)[a-z0-9]{12}|eyJ[a-z0-9_-]{16})|"
    r"(?:token|key|passw(?:or)?d|pwd|secret|signature|credential)=[^&\s]+|"
    r"(?:bearer|basic)\s+[a-z0-9._~+/=-]{8}|-----BEGIN [A-Z ]*PRIVATE KEY",
    re.IGNORECASE,
)
PRESENT = "(present, not recorded)"


def caller_origin(
    environment: Mapping[str, str], host: str, uid: int, version: str
) -> dict[str, Any]:
    """Return what a record says of where it was made; secrets are recorded as present only."""
    told = {
        name: redacted(name, value)
        for name, value in sorted(environment.items())
        if _TELLING.fullmatch(name)
    }
    return {"of": "caller", "environment": told, "host": host, "uid": uid, "cachekeeper": version}


def redacted(name: str, value: str) -> str:
    """Return a value fit for a record: one that is or looks like a secret only as present."""
    if _COUNT_NAME.fullmatch(name) and value.isdecimal():
        return value
    if _SECRET_NAME.search(name) or _SECRET_VALUE.search(value):
        return PRESENT
    return value
