"""A restore that is killed before each of its steps: families are old or new, nothing is lost."""

from contextlib import nullcontext

import pytest
from builders import families_of, remove_tree, working_litter
from faults import kill_at, kill_everywhere, no_exchange, steps_of
from scenario import GONE, NEW, OLD, held


def check_after_kill(made, *, may_be_gone=False):
    """Look at the root as a kill left it, let the next command begin, and look again."""
    sides = set(made.sides().values())
    assert sides <= ({OLD, NEW, GONE} if may_be_gone else {OLD, NEW})
    assert made.everything_else() == made.others
    if len(sides) > 1 or GONE in sides:
        check_named(made)
    made.recover()
    after = set(made.sides().values())
    assert after in ({OLD}, {NEW})
    assert sides == {OLD} or after == {NEW}
    assert working_litter(made.root) == []
    assert made.everything_else() == made.others
    made.check_nothing_lost()
    made.check_displaced_records()
    made.check()
    return after


def check_named(made):
    """A torn unit is named while nothing can recover it: the root is held, or no store is known."""
    with held(made.root, exclusive=False):
        result = made.verify(lock_timeout_s=0)
    assert not result.ok
    (scanned,) = made.scan(store=None)
    for words in (result.unfinished, scanned.warnings):
        for path, side in made.sides().items():
            said = {OLD: "is old", NEW: "is new", GONE: "is not there"}[side]
            assert any(f"{path.decode()} {said}" in text for text in words), words


def _first(steps, name):
    return next(number for number, (step, _path) in enumerate(steps) if step == name)


def test_a_restore_killed_at_any_step(overwritten):
    """Whatever the step, both families end old or both end new, and a second restore ends new."""
    made = overwritten
    plan = made.plan()
    seen = []
    for step in kill_everywhere(lambda: made.execute(plan), made.reset):
        seen.append(check_after_kill(made))
        if seen[-1] == {OLD} and step % 16 == 0:
            made.execute(plan)
            assert set(made.sides().values()) == {NEW}
            made.check_clean()
    assert seen == sorted(seen, key=[{OLD}, {NEW}].index)
    assert {OLD} in seen
    assert {NEW} in seen
    assert set(made.sides().values()) == {NEW}
    made.check_clean()


@pytest.mark.parametrize(
    ("fixture", "exchange"),
    [
        ("overwritten", no_exchange),
        ("without_partner", nullcontext),
        ("without_partner", no_exchange),
        ("without_anything", nullcontext),
    ],
)
def test_a_restore_killed_from_its_intent_on(request, fixture, exchange):
    """The same where a family or the whole root is gone, and on file systems without exchange."""
    made = request.getfixturevalue(fixture)
    plan = made.plan()

    def work():
        made.execute(plan)

    with exchange():
        seen = [
            check_after_kill(made, may_be_gone=exchange is no_exchange)
            for _step in kill_everywhere(work, made.reset, made.steps_from_intent(work))
        ]
    assert seen[0] == {OLD}
    assert seen[-1] == {NEW}
    assert set(made.sides().values()) == {NEW}
    made.check_clean()


def test_a_restore_of_a_whole_snapshot_killed_from_its_intent_on(snapshotted):
    """Companions, one of them a single file, are exchanged like families."""
    made = snapshotted
    plan = made.plan(made.reference)

    def work():
        made.execute(plan)

    seen = [
        check_after_kill(made)
        for _step in kill_everywhere(work, made.reset, made.steps_from_intent(work))
    ]
    assert seen[-1] == {NEW}
    assert families_of(made.root) == made.pinned_families


@pytest.mark.parametrize("command", ["restore", "snapshot", "verify", "scan", "pin", "recover"])
def test_each_command_recovers_a_torn_unit(overwritten, command):
    """The next command that may finishes the restore, and then does what it was asked."""
    made = overwritten
    made.tear()
    check_named(made)
    if command == "pin":
        made.pin(made.first.aot, "other", status="candidate")
    else:
        getattr(made, command)()
    assert set(made.sides().values()) == {NEW}
    made.check_clean()
    made.check()
    assert made.verify().ok


@pytest.mark.parametrize("where", ["intent", "torn", "exchanged", "removing"])
def test_a_recovery_killed_at_any_step(overwritten, where):
    """A kill during the recovery of a kill changes nothing: the one after it finishes."""
    made = overwritten
    plan = made.plan()
    steps = steps_of(lambda: made.execute(plan))
    first = _first(steps, "exchange")
    last_unlink = max(number for number, (name, _path) in enumerate(steps) if name == "unlink")
    stop = {"intent": first, "torn": first + 1, "exchanged": first + 2, "removing": last_unlink}

    def killed():
        made.reset()
        assert kill_at(stop[where], lambda: made.execute(plan))

    killed()
    names = [name for name, _path in steps_of(made.recover)]
    removal = names.index("unlink")
    numbers = [*range(removal + 4), *range(removal + 4, len(names), 8), len(names) + 9]
    for _step in kill_everywhere(made.recover, killed, numbers):
        assert check_after_kill(made) == {NEW}
        made.check_clean()


def test_a_kill_while_a_failed_restore_cleans_up(overwritten):
    """A restore that fails after it wrote its intent takes back the intent before the staging."""
    made = overwritten
    plan = made.plan()
    first = _first(steps_of(lambda: made.execute(plan)), "exchange")
    for failing in (first - 1, first + 1):
        killed = 0
        for number in (*range(failing + 1, failing + 9), *range(failing + 9, failing + 60, 6)):
            made.reset()
            if made.fail_then_kill(failing, number, plan):
                killed += 1
                check_after_kill(made)
        assert killed > 8


def test_what_was_built_in_the_place_of_a_torn_family_is_kept(overwritten):
    """vLLM compiles anew between the kill and the recovery, after someone removed the family."""
    made = overwritten
    made.tear()
    path = next(path for path, side in made.sides().items() if side == OLD)
    remove_tree(made.root + b"/" + path)
    made.build_anew(path)
    made.recover()
    assert set(made.sides().values()) == {NEW}
    made.check_nothing_lost()
    made.check()
    made.check_clean()


def test_what_was_built_where_nothing_stood_is_kept(without_partner):
    """The same where the family was missing when the restore began."""
    made = without_partner
    plan = made.plan()
    intent = made.step_of_intent(lambda: made.execute(plan))
    made.reset()
    assert kill_at(intent + 2, lambda: made.execute(plan))
    made.build_anew(made.first.partner_path)
    made.recover()
    assert set(made.sides().values()) == {NEW}
    made.check_nothing_lost()
    made.check()
    made.check_clean()
