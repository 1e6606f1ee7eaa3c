"""The last line of defence: what each kind of error becomes, and the small parts of the output."""

import errno
import io
import os
import sys

import click
import pytest
from cli_runner import Outcome

from cachekeeper.cli import main as entry
from cachekeeper.cli.errors import report_errors
from cachekeeper.cli.out import count, size_text
from cachekeeper.cli.progress import progress_for
from cachekeeper.core.errors import AmbiguousReferenceError, BusyError, FormatError, RefusedError
from cachekeeper.probe.live_users import LiveUsers


@pytest.fixture
def reported(capsys):
    """Give what is printed and returned for an error."""

    def report(error, *arguments):
        def call():
            raise error

        code = report_errors(call, arguments, {})
        return Outcome(code, *capsys.readouterr())

    return report


@pytest.mark.parametrize(
    ("error", "code", "fact", "hint"),
    [
        (RefusedError("no", "do that"), 3, "no", "do that"),
        (BusyError("busy", "wait"), 4, "busy", "wait"),
        (FormatError("odd", "look"), 3, "odd", "look"),
        (click.Abort(), 130, "interrupted", "the next command"),
        (KeyboardInterrupt(), 130, "interrupted", "the next command"),
        (click.UsageError("Wrong."), 2, "Wrong", "cachekeeper --help shows what it takes"),
        (OSError(errno.EIO, "I/O error", "/x"), 5, "/x: I/O error", "nothing half-done"),
        (OSError(errno.ENOSPC, "full", b"/x"), 5, "/x: no space or no inodes", "free some"),
        (OSError(errno.EDQUOT, "quota", "/x"), 5, "/x: no space or no inodes", "free some"),
        (OSError(errno.EACCES, "denied", "/x"), 5, "/x: denied", "run as the owner"),
        (OSError(errno.EPERM, "denied", "/x"), 5, "/x: denied", "run as the owner"),
        (OSError(errno.EROFS, "read-only", "/x"), 5, "/x: read-only", "mount it writable"),
        (OSError(errno.EXDEV, "no", "/x", None, "/y"), 5, "/y: no", "nothing half-done"),
        (OSError("strange"), 5, "the disk: strange", "nothing half-done"),
    ],
)
def test_each_error_has_its_code_and_hint(reported, error, code, fact, hint):
    """One sentence, one hint, on stderr; nothing on stdout."""
    found = reported(error)
    assert (found.code, found.out) == (code, "")
    assert found.error.startswith(fact)
    assert found.hint.startswith(hint)


def test_an_exit_is_an_exit(reported):
    """What click ends on purpose is no error."""
    assert reported(click.exceptions.Exit(7)) == Outcome(7, "", "")


def test_no_hint_is_no_line(reported):
    """An error without a way out has one line."""
    assert reported(RefusedError("the answer was no")).err == "error: the answer was no\n"


def test_an_error_is_one_line(reported):
    """Control characters of a path or a title cannot break it."""
    found = reported(RefusedError("a\nb\x1b[2Jc\udcff", "hint"))
    assert found.err == "error: a\\nb\\x1b[2Jc\\udcff\nhint: hint\n"


def test_candidates_are_in_the_json(reported):
    """The object has them as a list."""
    found = reported(AmbiguousReferenceError("two", "more", ("a", "b")), "show", "--json")
    assert found.data["error"]["candidates"] == ["a", "b"]


def test_the_entry_point_exits_with_the_code(ck, monkeypatch):
    """`main` is what the console script calls, with and without arguments."""
    with pytest.raises(SystemExit) as caught:
        entry.main(["--version"])
    assert caught.value.code == 0
    monkeypatch.setattr(sys, "argv", ["cachekeeper", "frobnicate"])
    with pytest.raises(SystemExit) as caught:
        entry.main()
    assert caught.value.code == 2


def test_closed_streams_get_a_place(ck, newcomer, monkeypatch):
    """Python has None for a stream that the caller closed: it is filled for good."""
    monkeypatch.setattr(sys, "stdin", None)
    assert ck("scan").code == 0
    assert sys.stdin.read() == ""
    sys.stdin.close()


class Terminal(io.StringIO):
    """A stream that is a terminal."""

    def isatty(self):
        return True


def test_progress_is_one_line_that_goes_away():
    """A bar is rewritten in place and wiped with the last step."""
    terminal = Terminal()
    show = progress_for(terminal, quiet=False)
    for number in range(3):
        show("reading", number, 3)
    parts = terminal.getvalue().split("\r\x1b[K")
    assert [part.strip() for part in parts] == [
        "",
        "[########................] reading 1/3",
        "[################........] reading 2/3",
        "[########################] reading 3/3",
        "",
    ]


@pytest.mark.parametrize(("stream", "quiet"), [(io.StringIO(), False), (Terminal(), True)])
def test_progress_is_for_terminals_that_want_it(stream, quiet):
    """A pipe and --quiet see nothing."""
    progress_for(stream, quiet=quiet)("reading", 0, 0)
    assert stream.getvalue() == ""


@pytest.mark.parametrize(
    ("size", "text"),
    [(0, "0 B"), (999, "999 B"), (1000, "1.0 kB"), (1_260_000, "1.3 MB"), (10**15, "1000.0 TB")],
)
def test_sizes_are_for_people(size, text):
    """Powers of 1000, one digit after the point."""
    assert size_text(size) == text


@pytest.mark.parametrize(
    ("number", "what", "text"),
    [(1, "family", "1 family"), (2, "family", "2 families"), (0, "pin", "0 pins")],
)
def test_counts_have_their_plural(number, what, text):
    """One is one, all others are many."""
    assert count(number, what) == text


def test_unpin_is_asked_on_a_terminal(ck, pinned, monkeypatch):
    """The answer decides; a full run under a terminal is in test_cli_processes.py."""
    for answer, code in (("n\n", 3), ("y\n", 0)):
        terminal = Terminal(answer)
        monkeypatch.setattr(sys, "stdin", terminal)
        assert ck("unpin", "fast").code == code


def test_a_pin_s_doubts_are_in_its_text(ck, place):
    """What is odd but no reason to refuse is said where it is pinned."""
    os.mkfifo(place.root + b"/" + place.first.aot_path + b"/pipe")
    text = ck.ok("pin", place.first.aot).out
    assert "warning torch_compile_cache/torch_aot_compile/" in text
    assert "pipe: not kept (special-file)" in text


def test_processes_that_cannot_be_seen_are_said(ck, pinned, monkeypatch):
    """What a restore could not look into is a note, and a number in the JSON."""
    monkeypatch.setattr(
        "cachekeeper.ops.restore.find_live_users", lambda _search: LiveUsers((), (1, 2))
    )
    pinned.overwrite()
    assert ck.json("restore", "--dry-run")["unreadable_processes"] == 2
    assert "note: 2 running programs could not be looked into\n" in ck.ok("restore").err
    pinned.overwrite()
    assert "could not be looked into" not in ck.ok("restore", "--quiet").err


def test_what_changed_under_a_restore_is_a_finding(ck, pinned, monkeypatch):
    """A file that another process changed right after the exchange is named: exit 1."""
    pinned.overwrite()
    monkeypatch.setattr(
        "cachekeeper.keeper.replacement.confirm_tree", lambda _top, _states: b"rank_0_0/model"
    )
    found = ck("restore")
    assert found.code == 1
    assert "finding " in found.out
    assert "rank_0_0/model was changed by another process during the restore" in found.out
