"""Makes docs/reference/cli.md from the commands themselves (`make docs`).

With --check nothing is written; exit 1 where the page is not current.
"""

import inspect
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import click

from cachekeeper.cli.main import ALIASES, COMMANDS, cli
from cachekeeper.cli.options import common_options

PAGE = Path(__file__).resolve().parent / "reference" / "cli.md"

_HEAD = """\
# Commands

<!-- Made by docs/generate_reference.py: change the commands' help, then run `make docs`. -->

`cachekeeper [OPTIONS] COMMAND [OPTIONS] …`

stdout is the answer, stderr is talk. With `--json` the answer is one JSON object
([keys](json.md)). The exit code of every command is one of [these](exit-codes.md). What changes
something takes `--dry-run`, which prints the plan.

The store is `--store`, else `CACHEKEEPER_STORE`, else `$XDG_DATA_HOME/cachekeeper`, else
`~/.local/share/cachekeeper`; the first command that keeps something makes it. A cache root is
`--root`, else `VLLM_CACHE_ROOT`, else `$XDG_CACHE_HOME/vllm`, else `~/.cache/vllm`
([environment](environment.md)).

## References

| form | names |
|---|---|
| `NAME` | a pin; an exact name wins over everything else |
| `c15860dd`, `c158` | a graph hash or any unique beginning, 4 digits or more |
| `0c79dd93f4` | a 10-hex key leads to its unit |
| `b:1a2b…` | a build, by the beginning of its id |
| `s:…` | a snapshot, by the beginning of its id |
| `live:HASH` | what stands in the root now |

A bare hash means what stands in the root for `pin`; elsewhere its pin, else its newest stored
content. An ambiguous one is exit 2 with the candidates, an unknown one exit 2 with the nearest.
"""

_COMMON = """
## Options of every command

They may stand before or after the command.

"""


def page() -> str:
    """Return the whole page."""
    common = _common()
    parts = [_HEAD, _COMMON, _options(common), "\n## Overview\n\n| command | does |\n|---|---|\n"]
    parts += [f"| [`{name}`](#{name}) | {text} |\n" for name, (_module, text) in COMMANDS.items()]
    parts += [_section(name, {option.name for option in common}) for name in COMMANDS]
    return "".join(parts)


def _common() -> list[click.Option]:
    """Return the options that every command takes."""
    options = common_options(click.Command("any")).params
    return [option for option in reversed(options) if isinstance(option, click.Option)]


def _section(name: str, common: set[str | None]) -> str:
    command = cli.get_command(click.Context(cli), name)
    assert command is not None
    usage = " ".join(["cachekeeper", name, "[OPTIONS]", *_arguments(command)])
    also = [alias for alias, target in ALIASES.items() if target == name]
    text = f"\n## {name}\n\n`{usage}`\n\n"
    if also:
        text += f"Also: `{'`, `'.join(also)}`.\n\n"
    text += inspect.cleandoc(command.help or "") + "\n"
    own = [p for p in command.params if isinstance(p, click.Option) and p.name not in common]
    return text + ("\n" + _options(own) if own else "")


def _arguments(command: click.Command) -> Iterator[str]:
    for parameter in command.params:
        if isinstance(parameter, click.Argument):
            yield parameter.make_metavar(click.Context(command))


def _options(options: list[click.Option]) -> str:
    rows = [f"| `{_names(option)}` | {_meaning(option)} |" for option in options]
    return "\n".join(["| option | meaning |", "|---|---|", *rows]) + "\n"


def _names(option: click.Option) -> str:
    names = ", ".join(option.opts)
    return names if option.is_flag else f"{names} {option.metavar}".replace("|", "\\|")


def _meaning(option: click.Option) -> str:
    text = re.sub(r"\s+", " ", option.help or "")
    return f"{text} Default: `{option.default}`." if option.show_default else text


def main(arguments: list[str]) -> int:
    """Write or check the page; return the exit code."""
    text = page()
    if "--check" not in arguments:
        PAGE.write_text(text, encoding="utf-8")
        return 0
    if PAGE.is_file() and PAGE.read_text(encoding="utf-8") == text:
        return 0
    print(f"{PAGE} is not current: run `make docs`", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
