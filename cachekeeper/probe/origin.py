"""Where a record was made: host, user, and the caller's environment without its secrets.

Outside a guarded run the environment is the caller's, not the one vLLM ran with; `of` says so.
"""

import re
from collections.abc import Mapping
from typing import Any

# What moves a hash, a choice or a speed: DESIGN's list of hashed and unhashed environments.
_TELLING = re.compile(
    r"(VLLM|TORCH|TORCHINDUCTOR|TRITON|CUDA|HIP|ROCM|ROCR|NCCL|RCCL|CCL|SYCL|ZE|ONEAPI|OMP|KMP|MKL|XPU|"
    r"IPEX|LD|HF|FI|FLASHINFER|DG|INDUCTOR|AOT|UR|NEO|IGC|LEVEL)_.*|HOME|PATH|LD_PRELOAD|USER|XDG_.*"
)
_SECRET_NAME = re.compile(
    r"KEY|TOKEN|SECRET|PASSW|PASSPHRASE|CREDENTIAL|AUTH|COOKIE|SESSION|PRIVATE|BEARER",
    re.IGNORECASE,
)
_SECRET_VALUE = re.compile(
    r"[a-z][a-z0-9+.-]*://[^/\s:@]*:[^/\s@]+@|(?:hf|sk|ghp|gho|xox[abp]|glpat)[-_][A-Za-z0-9_-]{8,}|"
    r"eyJ[A-Za-z0-9_-]{16,}|AKIA[0-9A-Z]{12,}|(?:token|key|password|secret)=[^&\s]+",
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
    if _SECRET_NAME.search(name) or _SECRET_VALUE.search(value):
        return PRESENT
    return value
