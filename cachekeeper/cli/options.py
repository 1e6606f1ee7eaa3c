"""The options that every command takes, before and after its name, and the keeper they make."""

import math
import os
import socket
import sys
from collections.abc import Callable
from typing import Any, TypeVar

import click

from cachekeeper import __version__
from cachekeeper.cli.progress import progress_for
from cachekeeper.config.locations import root_locations, store_location
from cachekeeper.core.errors import RefusedError, UsageError
from cachekeeper.keeper.keeper import Keeper, Settings
from cachekeeper.probe.origin import caller_origin

Function = TypeVar("Function", bound=Callable[..., Any])
_TIMEOUT_S = 60.0


def _remember(ctx: click.Context, parameter: click.Parameter, value: Any) -> None:  # noqa: ANN401
    """Note an option where both the group and the command find it; the later one wins."""
    given = ctx.get_parameter_source(str(parameter.name))
    if value is not None and given is not click.core.ParameterSource.DEFAULT:
        ctx.ensure_object(dict)[str(parameter.name)] = value


def common_options(function: Function) -> Function:
    """Add --store, --root, --json, --quiet, --lock-timeout and --yes to a command."""
    options = [
        click.option("--store", metavar="DIR", help="The store [CACHEKEEPER_STORE]."),
        click.option(
            "--root", "root", metavar="DIR", multiple=True,
            help="A cache root; may be repeated [VLLM_CACHE_ROOT].",
        ),
        click.option("--json", "json", is_flag=True, help="Print one JSON object."),
        click.option("--quiet", is_flag=True, help="Say nothing on stderr but errors."),
        click.option(
            "--lock-timeout", "lock_timeout", metavar="SECONDS", type=click.FloatRange(min=0),
            help="How long to wait for another cachekeeper [60].",
        ),
        click.option("--yes", is_flag=True, help="Answer every question with yes."),
    ]  # fmt: skip
    for option in reversed(options):
        function = _hidden_value(option)(function)
    return function


def _hidden_value(option: Callable[[Function], Function]) -> Callable[[Function], Function]:
    """Make an option that is noted in the context and not handed to the function."""

    def decorate(function: Function) -> Function:
        result = option(function)
        parameters: list[click.Parameter] = (
            result.params if isinstance(result, click.Command) else result.__click_params__  # type: ignore[attr-defined]
        )
        parameters[-1].expose_value = False
        parameters[-1].callback = _remember
        return result

    return decorate


def given(ctx: click.Context, name: str) -> Any:  # noqa: ANN401  the type is the option's
    """Return a common option's value, None where it was not given."""
    return ctx.ensure_object(dict).get(name)


def open_keeper(ctx: click.Context, *, needs_roots: bool = True) -> Keeper:
    """Return the keeper for this command; a missing place is an error only where it is needed."""
    environment = os.environ
    _refuse_empty(ctx)
    try:
        store = store_location(given(ctx, "store"), environment)
    except UsageError:
        store = None
    try:
        roots = root_locations(given(ctx, "root") or (), environment)
    except UsageError:
        if needs_roots:
            raise
        roots = ()
    timeout = given(ctx, "lock_timeout")
    if timeout is not None and math.isnan(timeout):
        raise UsageError("--lock-timeout is no number of seconds", "give 0 or more")
    quiet = bool(given(ctx, "quiet")) or bool(given(ctx, "json"))
    settings = Settings(
        store=store,
        roots=roots,
        lock_timeout_s=_TIMEOUT_S if timeout is None else timeout,
        progress=progress_for(sys.stderr, quiet=quiet),
        origin=caller_origin(environment, socket.gethostname(), os.geteuid(), __version__),
        is_default_store=not (given(ctx, "store") or environment.get("CACHEKEEPER_STORE")),
    )
    return Keeper(settings)


def _refuse_empty(ctx: click.Context) -> None:
    """Refuse `--root "$UNSET"`: an empty path would be the current directory."""
    if given(ctx, "store") == "" or "" in (given(ctx, "root") or ()):
        raise UsageError("--store or --root is empty", "name a directory, or leave the option out")


def confirmed(ctx: click.Context, question: str) -> None:
    """Ask on a terminal; without one only --yes goes on; raises UsageError, RefusedError, Abort."""
    if given(ctx, "yes"):
        return
    if not sys.stdin.isatty():
        raise UsageError(f"{question} There is no terminal to ask on", "give --yes")
    if not click.confirm(question, err=True):
        raise RefusedError("the answer was no: nothing was changed")
