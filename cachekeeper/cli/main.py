"""The entry point and the table of commands; a command's module is imported when it is run."""

import importlib
import os
import signal
import sys
from typing import Any

import click

from cachekeeper import __version__
from cachekeeper.cli.errors import report_errors
from cachekeeper.cli.options import common_options, given
from cachekeeper.core.errors import UsageError

# Every command with its line in the help: the help needs no import of a command's module.
COMMANDS = {
    "scan": ("scan_cmd", "Show the units and families in the cache roots, with their drift."),
    "show": ("show_cmd", "Show all that is known of a pin, hash, build or snapshot."),
    "snapshot": ("snapshot_cmd", "Put the bytes of all cache roots into the store."),
    "pin": ("pin_cmd", "Protect the whole unit of a graph hash under a name."),
    "unpin": ("unpin_cmd", "Remove a pin; its bytes stay until garbage collection."),
    "pins": ("pins_cmd", "List the pins with their drift."),
    "mark": ("mark_cmd", "Append a status to a pin, build or snapshot."),
    "verify": ("verify_cmd", "Compare live units with their pins, and check every family."),
    "check": ("check_cmd", "Re-hash the store and name the pins and snapshots hit."),
    "restore": ("restore_cmd", "Put pinned or stored content back in its place."),
    "diff": ("diff_cmd", "Show how two contents differ."),
    "log": ("log_cmd", "Show what happened, newest first."),
    "rebuild": ("rebuild_cmd", "Make the catalogue anew from the records."),
}
ALIASES = {"ls": "scan"}


class CommandTable(click.Group):
    """A group that imports a command's module only when that command is asked for."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002  click's signature
        """Return the names in the order of the table."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        """Return a command by name or alias, None where there is none."""
        name = ALIASES.get(cmd_name, cmd_name)
        if name not in COMMANDS:
            return None
        module = importlib.import_module(f"cachekeeper.cli.{COMMANDS[name][0]}")
        command: click.Command = module.command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        """Write the table of commands without importing any."""
        rows = [(name, text) for name, (_module, text) in COMMANDS.items()]
        with formatter.section("Commands"):
            formatter.write_dl(rows)
            formatter.write_paragraph()
            formatter.write_text("ls is another name for scan.")


@click.group(
    cls=CommandTable,
    invoke_without_command=True,
    subcommand_metavar="COMMAND [ARGS]...",
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.version_option(__version__, prog_name="cachekeeper")
@common_options
@click.pass_context
def cli(ctx: click.Context) -> None:
    """Keep compiled vLLM artifacts: pin known-fast builds, verify them, put them back.

    A graph hash is a slot, not an identity: vLLM overwrites a good binary under the same name.
    cachekeeper gives every slot's content an identity, keeps it, and says what changed.
    """
    if ctx.invoked_subcommand is None:
        if not given(ctx, "json"):
            click.echo(ctx.get_help(), err=True)
        raise UsageError("no command was given", "cachekeeper --help lists the commands")


def main(arguments: list[str] | None = None) -> None:
    """Run the command line and exit with its code."""
    sys.exit(run(sys.argv[1:] if arguments is None else arguments))


def run(arguments: list[str]) -> int:
    """Run one command and return its exit code; nothing a user causes ends in a traceback."""
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    _fill_closed_streams()
    obj: dict[str, Any] = {}

    def call() -> int:
        result = cli.main(args=arguments, prog_name="cachekeeper", standalone_mode=False, obj=obj)
        return result if isinstance(result, int) else 0

    return report_errors(call, arguments, os.environ)


def _fill_closed_streams() -> None:
    """Give a stream that the caller closed somewhere to go: Python has None in its place.

    It also keeps descriptors 0 to 2 from becoming a file of the store.
    """
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            descriptor = os.open(os.devnull, os.O_RDWR)
            setattr(sys, name, os.fdopen(descriptor, mode, encoding="utf-8"))
