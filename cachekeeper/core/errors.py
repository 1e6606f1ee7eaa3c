"""The one tree of errors: each has the fact as its text, a hint and an exit code.

The library raises, `cli/errors.py` alone prints. Exit codes are documented in
docs/reference/exit-codes.md.
"""


class KeeperError(Exception):
    """Base of everything a user can cause."""

    exit_code = 5

    def __init__(self, fact: str, hint: str = "") -> None:
        super().__init__(fact)
        self.fact = fact
        self.hint = hint


class UsageError(KeeperError):
    """What was asked makes no sense: wrong words, a missing place."""

    exit_code = 2


class UnknownReferenceError(UsageError):
    """Nothing carries that name."""


class AmbiguousReferenceError(UsageError):
    """Several things carry that name; the candidates are attached."""

    def __init__(self, fact: str, hint: str, candidates: tuple[str, ...]) -> None:
        super().__init__(fact, hint)
        self.candidates = candidates


class RefusedError(KeeperError):
    """Possible, but against the rules: incomplete or damaged content, other path, other owner."""

    exit_code = 3


class NewerFormatError(RefusedError):
    """The store was written by a newer cachekeeper."""


class DamagedStoreError(RefusedError):
    """A stored object or record is missing or is not what its name says."""


class BusyError(KeeperError):
    """A lock is held, or a live process uses the files."""

    exit_code = 4


class IoError(KeeperError):
    """Reading or writing failed part-way; nothing half-done is left."""

    exit_code = 5


class FormatError(KeeperError):
    """Text of a record, manifest or attribute list does not follow its format."""

    exit_code = 3
