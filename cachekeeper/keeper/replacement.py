"""Replacing families in one root: stage, store what stands there, intent, exchange, record.

The protocol is docs/design/restore-protocol.md. The caller holds the root exclusively and the store
shared. Until the intent is written nothing live has changed and a failure leaves nothing; from then
on the replacement will be finished, by this process or by the next command.
"""

import os
import uuid
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from cachekeeper.core.errors import IoError, KeeperError
from cachekeeper.core.manifest import parents
from cachekeeper.core.paths import path_below, path_text, shown
from cachekeeper.fs import primitives
from cachekeeper.fs.exchange import displaced_paths, is_exchanged, roll_back, roll_forward
from cachekeeper.fs.intent import (
    Intent,
    IntentItem,
    discard,
    working_directory,
    write_intent,
)
from cachekeeper.fs.staging import StagedState, confirm_tree, stage_tree
from cachekeeper.keeper.capture import Captured
from cachekeeper.keeper.displaced import capture_displaced, displaced_json, is_unchanged
from cachekeeper.keeper.facts import RootFacts, keep_family, snapshot_body
from cachekeeper.keeper.keeper import Keeper
from cachekeeper.keeper.kept import KeptFamily, place_of
from cachekeeper.keeper.recovery import finish, is_whole, name_sides
from cachekeeper.keeper.roots import Root
from cachekeeper.keeper.source import stage_parts
from cachekeeper.keeper.survey import Seen, ranks_of
from cachekeeper.layouts.units import Link


@dataclass(frozen=True)
class FamilyStep:
    """One family to put in place, and what stands there now."""

    family: KeptFamily
    seen: Seen | None


@dataclass(frozen=True)
class Purpose:
    """Why families are replaced: the references as typed, and the links of their units."""

    references: tuple[str, ...]
    links: tuple[Link, ...]


@dataclass(frozen=True)
class Displaced:
    """One family that was replaced: its path, the build that is stored now, in which snapshot."""

    path: bytes
    build: str
    snapshot: str


class Replacement:
    """One restore in one root, step by step."""

    def __init__(
        self, keeper: Keeper, root: Root, steps: tuple[FamilyStep, ...], purpose: Purpose
    ) -> None:
        self.keeper = keeper
        self.root = root
        self.steps = steps
        self.purpose = purpose
        self.restore = uuid.uuid4().hex
        self.directory = working_directory(self.root.real, self.restore)
        self.states: list[tuple[StagedState, ...]] = []
        self.captured: list[Captured | None] = []
        self.displaced: tuple[Displaced, ...] = ()

    def run(self) -> tuple[tuple[Displaced, ...], tuple[str, ...]]:
        """Carry it out; returns what was displaced and what was changed meanwhile by others."""
        try:
            self._stage()
            intent = self._store_displaced()
            primitives.sync_file_system(self.root.real)
            write_intent(self.root.real, intent)
        except BaseException:
            with suppress(OSError):  # the first error is the one to tell
                discard(self.root.real, self.restore)
            raise
        missing = self._missing_parents()
        try:
            roll_forward(self.root.real, intent)
            findings = self._verify_again(intent)
            finish(self.keeper.store, self.root, intent, self._is_unchanged(intent))
        except BaseException as error:
            self._settle(intent, missing, error)
            raise
        return self.displaced, findings

    def _settle(self, intent: Intent, missing: list[bytes], error: BaseException) -> None:
        """After a failure leave every family new or every family old, or say which is which."""
        root = self.root.real
        try:
            if all(is_exchanged(root, item) for item in intent.items):
                finish(self.keeper.store, self.root, intent)
                return
            roll_back(root, intent)
            for parent in missing:
                with suppress(OSError):
                    primitives.remove_directory(parent)
            discard(root, self.restore)
        except (OSError, KeeperError) as again:
            if not is_whole(self.root, intent):
                raise IoError(
                    f"the restore stopped half-way ({again}): {name_sides(self.root, intent)}",
                    "run any cachekeeper command with this root and store to finish it",
                ) from error

    def _missing_parents(self) -> list[bytes]:
        """Return the directories above the families that are not there, the deepest first."""
        inside = {parent for step in self.steps for parent in parents(step.family.path) if parent}
        above = (os.path.join(self.root.real, parent) for parent in inside)
        return sorted((path for path in above if not os.path.lexists(path)), reverse=True)

    def _stage(self) -> None:
        primitives.make_directory(self.directory, 0o700)
        new = os.path.join(self.directory, b"new")
        primitives.make_directory(new, 0o700)
        for number, step in enumerate(self.steps):
            self.keeper.settings.progress("staging", number, len(self.steps))
            top = os.path.join(self.root.real, step.family.path)
            content = step.seen.content if step.seen else None
            directories, files = stage_parts(self.keeper.store, step.family, top, content)
            self.states.append(stage_tree(self._staged(number), directories, files))

    def _store_displaced(self) -> Intent:
        """Put what stands there into the store, durably, and return the intent."""
        store = self.keeper.store
        kept: list[KeptFamily] = []
        for number, step in enumerate(self.steps):
            self.keeper.settings.progress("keeping what stands there", number, len(self.steps))
            path = os.path.join(self.root.real, step.family.path)
            if not os.path.lexists(path):
                self.captured.append(None)
                continue
            place = place_of(step.family)
            memory = step.seen.content.memory if step.seen else {}
            content = capture_displaced(store, path, place, memory, self._staged_inodes())
            problems = step.seen.problems if step.seen else content.problems
            kept.append(keep_family(store, content, ranks_of(place, content), problems))
            self.captured.append(content)
        snapshot = self._record_displaced(kept)
        self.displaced = tuple(Displaced(one.path, one.build, snapshot or "") for one in kept)
        return self._intent(snapshot)

    def _record_displaced(self, kept: list[KeptFamily]) -> str | None:
        store = self.keeper.store
        store.objects.sync()
        if not kept:
            return None
        facts = RootFacts(self.root, tuple(kept), self.purpose.links)
        names = ", ".join(self.purpose.references) or "the floors"
        body = snapshot_body(
            "displaced", f"displaced by restore of {names}", [facts], self.keeper.settings.origin
        )
        return store.records.append("snapshot", body).digest

    def _intent(self, snapshot: str | None) -> Intent:
        store = self.keeper.store
        items = []
        families: list[dict[str, Any]] = []
        for number, (step, content) in enumerate(zip(self.steps, self.captured, strict=True)):
            path = step.family.path
            live = os.path.join(self.root.real, path)
            items.append(
                IntentItem(
                    target=path,
                    staged=b"new/%d" % number,
                    staged_inode=os.lstat(self._staged(number)).st_ino,
                    live_inode=os.lstat(live).st_ino if content is not None else None,
                )
            )
            families.append(displaced_json(step.family.to_json(), path, content))
        record = {
            "restore": self.restore,
            "root": self.root.identity,
            "refs": list(self.purpose.references),
            "families": families,
            "snapshot": snapshot,
            "recovered": False,
        }
        where = path_text(os.path.realpath(store.path))
        return Intent(self.restore, store.store_id, where, tuple(items), record)

    def _verify_again(self, intent: Intent) -> tuple[str, ...]:
        """Return what is not the verified file any more, now that it stands in its place."""
        findings = []
        for item, states in zip(intent.items, self.states, strict=True):
            odd = confirm_tree(os.path.join(self.root.real, item.target), states)
            if odd is not None:
                where = shown(path_below(item.target, odd))
                findings.append(f"{where} was changed by another process during the restore")
        return tuple(findings)

    def _is_unchanged(self, intent: Intent) -> set[bytes]:
        """Return the targets whose displaced tree is still what was stored."""
        unchanged = set()
        for item, content in zip(intent.items, self.captured, strict=True):
            olds = displaced_paths(self.root.real, intent, item)
            if content is None or len(olds) != 1:
                continue
            if is_unchanged(olds[0], content, self._staged_inodes()):
                unchanged.add(item.target)
        return unchanged

    def _staged_inodes(self) -> frozenset[int]:
        return frozenset(state.inode for states in self.states for state in states)

    def _staged(self, number: int) -> bytes:
        return os.path.join(self.directory, b"new", b"%d" % number)
