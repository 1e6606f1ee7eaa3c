"""Give vLLM's CPU platform the compile mode of a GPU, so that tests meet real artifacts.

The platform lowers `VLLM_COMPILE` to `DYNAMO_TRACE_ONCE` while it settles a configuration, and
what that mode saves can never be loaded again. vLLM calls `register` once in each of its
processes, before the first configuration is settled there.
"""

from __future__ import annotations

import functools
from typing import Any

_INSTALLED = "_cachekeeper_keeps_full_compile"


def register() -> None:
    """Wrap the platform's settling step; a second call in one process changes nothing."""
    from vllm.platforms.cpu import CpuPlatform  # noqa: PLC0415 - vLLM imports this module first

    if _INSTALLED in vars(CpuPlatform):
        return
    settle = CpuPlatform.check_and_update_config

    @functools.wraps(settle)
    def settle_and_keep_mode(vllm_config: Any) -> None:
        asked_for = vllm_config.compilation_config.mode
        settle(vllm_config)
        _put_back(vllm_config.compilation_config, asked_for)

    CpuPlatform.check_and_update_config = staticmethod(settle_and_keep_mode)
    setattr(CpuPlatform, _INSTALLED, True)


def _put_back(compilation: Any, asked_for: Any) -> None:
    """Undo what the platform did to a full compile; any other mode is left as it settled."""
    from vllm.config import CompilationMode  # noqa: PLC0415 - as above

    if asked_for != CompilationMode.VLLM_COMPILE:
        return
    compilation.mode = asked_for
    compilation.splitting_ops = None  # emptied with the lower mode; None asks for the default
    compilation.compile_sizes = compilation.compile_sizes or []
