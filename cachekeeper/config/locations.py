"""Where the store and the cache roots lie. The environment is an argument, nothing is made here.

Rules: the store is `--store`, else CACHEKEEPER_STORE, else `$XDG_DATA_HOME/cachekeeper`, else
`~/.local/share/cachekeeper`; a root is `--root`, else VLLM_CACHE_ROOT, else `$XDG_CACHE_HOME/vllm`,
else `~/.cache/vllm` (vLLM's own rule, `vllm/envs.py`).
"""

import os
from collections.abc import Mapping

from cachekeeper.core.errors import UsageError


def store_location(option: str | None, environment: Mapping[str, str]) -> bytes:
    """Return the absolute path of the store; raises UsageError where no place is known."""
    chosen = option or environment.get("CACHEKEEPER_STORE")
    if chosen:
        return _absolute(chosen, environment)
    base = environment.get("XDG_DATA_HOME")
    home = home_directory(environment)
    if base:
        return _absolute(os.path.join(base, "cachekeeper"), environment)
    if home:
        return _absolute(os.path.join(home, ".local", "share", "cachekeeper"), environment)
    raise UsageError(
        "no place for the store is known: HOME is not set", "set CACHEKEEPER_STORE or give --store"
    )


def root_locations(options: tuple[str, ...], environment: Mapping[str, str]) -> tuple[bytes, ...]:
    """Return the absolute paths of the cache roots, each once; raises UsageError."""
    if options:
        return tuple(dict.fromkeys(_absolute(option, environment) for option in options))
    found = vllm_cache_root(environment)
    if found is None:
        raise UsageError(
            "no cache root is known: HOME is not set", "set VLLM_CACHE_ROOT or give --root"
        )
    return (found,)


def vllm_cache_root(environment: Mapping[str, str]) -> bytes | None:
    """Return the cache root that vLLM would use with this environment, None where it has none."""
    named = environment.get("VLLM_CACHE_ROOT")
    if named:
        return _absolute(named, environment)
    base = environment.get("XDG_CACHE_HOME")
    home = home_directory(environment)
    if base:
        return _absolute(os.path.join(base, "vllm"), environment)
    return _absolute(os.path.join(home, ".cache", "vllm"), environment) if home else None


def home_directory(environment: Mapping[str, str]) -> str | None:
    """Return HOME if it is set and absolute, None otherwise."""
    home = environment.get("HOME", "")
    return home if home.startswith("/") else None


def _absolute(path: str, environment: Mapping[str, str]) -> bytes:
    """Return an absolute path; `~` is the given environment's HOME, links are kept."""
    home = home_directory(environment)
    if home and (path == "~" or path.startswith("~/")):
        path = home + path[1:]
    return os.fsencode(os.path.abspath(path))
