"""The only place that prints errors: one sentence with the fact, one hint, the exit code.

A bug prints a short message and writes its traceback to a log file beside nothing of the user's.
"""

import errno
import json
import os
import sys
import tempfile
import traceback
from collections.abc import Callable, Mapping, Sequence

import click

from cachekeeper import __version__
from cachekeeper.core.errors import AmbiguousReferenceError, IoError, KeeperError
from cachekeeper.core.paths import shown

INTERRUPTED = 130
BUG = 70  # sysexits.h: internal software error
_SPACE = frozenset({errno.ENOSPC, errno.EDQUOT})


def report_errors(
    call: Callable[[], int], arguments: Sequence[str], environment: Mapping[str, str]
) -> int:
    """Return the exit code of a call, printing what went wrong."""
    try:
        return call()
    except KeeperError as error:
        return _print(error.fact, error.hint, error.exit_code, arguments, _candidates(error))
    except click.exceptions.Exit as error:
        return error.exit_code
    except (click.Abort, KeyboardInterrupt):
        hint = "the next command finishes or removes what was begun"
        return _print("interrupted", hint, INTERRUPTED, arguments)
    except click.ClickException as error:
        return _print(error.format_message().rstrip("."), _usage_hint(error), 2, arguments)
    except OSError as error:
        known = from_os_error(error)
        return _print(known.fact, known.hint, known.exit_code, arguments)
    except Exception as error:  # noqa: BLE001  the last resort: a bug must not show a traceback
        return _bug(error, arguments, environment)


def from_os_error(error: OSError) -> IoError:
    """Return what an operating system's error means to the user."""
    name = error.filename2 or error.filename
    where = shown(os.fsencode(name)) if isinstance(name, (str, bytes)) else "the disk"
    fact = f"{where}: {error.strerror or error}"
    if error.errno in _SPACE:
        fact = f"{where}: no space or no inodes left on the device"
        return IoError(fact, "free some (df, df -i) and run it again; nothing half-done is left")
    if error.errno in (errno.EACCES, errno.EPERM):
        return IoError(fact, "run as the owner of these files, or as root")
    if error.errno == errno.EROFS:
        return IoError(fact, "mount it writable, or name another --store")
    return IoError(fact, "nothing half-done is left; run it again when the cause is gone")


def _candidates(error: KeeperError) -> tuple[str, ...]:
    return error.candidates if isinstance(error, AmbiguousReferenceError) else ()


def _print(
    fact: str, hint: str, code: int, arguments: Sequence[str], candidates: tuple[str, ...] = ()
) -> int:
    # A path, an argument or another process's title may hold a newline: an error is one line.
    fact = shown(fact.encode("utf-8", "backslashreplace"))
    click.echo(f"error: {fact}", err=True)
    if hint:
        click.echo(f"hint: {hint}", err=True)
    if "--json" in arguments:
        error = {"fact": fact, "hint": hint, "exit_code": code, "candidates": list(candidates)}
        sys.stdout.write(json.dumps({"schema": "cachekeeper/error/1", "error": error}) + "\n")
    return code


def _usage_hint(error: click.ClickException) -> str:
    context = getattr(error, "ctx", None)
    command = context.command_path if context is not None else "cachekeeper"
    return f"{command} --help shows what it takes"


def _bug(error: Exception, arguments: Sequence[str], environment: Mapping[str, str]) -> int:
    """Write a traceback to a private file and name it."""
    text = "".join(traceback.format_exception(error))
    try:
        handle, path = tempfile.mkstemp(prefix="cachekeeper-bug-", suffix=".log")
        with os.fdopen(handle, "w", encoding="utf-8", errors="backslashreplace") as log:
            log.write(f"cachekeeper {__version__}, Python {sys.version}\n{text}")
        where = path
    except OSError:
        click.echo(text, err=True)
        where = "the lines above"
    if environment.get("CACHEKEEPER_DEBUG"):
        click.echo(text, err=True)
    fact = f"this is a bug in cachekeeper ({type(error).__name__})"
    return _print(fact, f"please report it with {where}", BUG, arguments)
