"""The keys of CLI.md, with values that mean what they say."""

import pytest
from builders import digest

FAMILY = {"kind", "key", "ranks", "files", "bytes", "build", "unit", "drift", "problems"}
PIN = {"name", "kind", "key", "build", "unit", "status", "settled", "drift"}
KEYS = {
    "scan": ((), {"families", "roots", "warnings"}),
    "snapshot": (
        ("-m", "nightly"),
        {"id", "builds", "new_bytes", "total_bytes", "skipped", "problems"},
    ),
    "pin": (("SECOND",), {"name", "key", "build", "unit", "settled", "status"}),
    "pins": ((), {"pins"}),
    "mark": (("fast", "reference", "--reason", "r"), {"ref", "status", "previous"}),
    "verify": ((), {"ok", "checked", "pins", "problems"}),
    "check": ((), {"ok", "objects", "problems"}),
    "restore": (("fast",), {"restored", "unchanged", "displaced", "preflight"}),
    "diff": (("fast", "live:FIRST"), {"same_family", "same_build", "levels", "files"}),
    "log": ((), {"events"}),
    "rebuild": ((), {"records", "snapshots", "pins", "runs"}),
    "show": (("fast",), {"kind"}),
}


@pytest.mark.parametrize("name", KEYS)
def test_the_keys_of_the_contract_are_there(ck, pinned, name):
    """Each command's object has a schema and every key that CLI.md names."""
    arguments, keys = KEYS[name]
    parts = [each.replace("FIRST", pinned.first.aot) for each in arguments]
    parts = [each.replace("SECOND", pinned.second.aot) for each in parts]
    data = ck.json(name, *parts)
    assert data["schema"] == f"cachekeeper/{name}/1"
    assert keys <= data.keys()


def test_scan_describes_families_and_roots(ck, pinned):
    """Each family has the contract's keys; a pinned one has its drift, another none."""
    data = ck.json("scan")
    families = {family["key"]: family for family in data["families"]}
    for family in data["families"]:
        assert family.keys() >= FAMILY
    pinned_one, other = families[pinned.first.aot], families[pinned.second.aot]
    assert (pinned_one["drift"], other["drift"]) == ("intact", None)
    assert pinned_one["ranks"] == ["rank_0_0", "rank_1_0"]
    assert families[pinned.first.partner]["unit"] == pinned.first.aot
    assert families[pinned.second.partner]["unit"] == pinned.second.aot
    assert [root["path"] for root in data["roots"]] == [pinned.root.decode()]
    assert data["roots"][0]["bytes"] == sum(family["bytes"] for family in data["families"])


def test_scan_counts_what_stands_there(ck, place):
    """Files and bytes of a family are those of its content; locks are no part of it."""
    families = {family["key"]: family for family in ck.json("scan")["families"]}
    tree = place.families()[place.first.aot_path]
    content = {p: n for p, n in tree.items() if n.kind != "d" and not p.endswith(b".lock")}
    found = families[place.first.aot]
    assert found["files"] == len(content)
    assert found["bytes"] == sum(len(node.content) for node in content.values())


def test_pins_describe_the_pin(ck, pinned):
    """A pin is listed with its unit and its drift."""
    (pin,) = ck.json("pins")["pins"]
    assert pin.keys() >= PIN
    assert (pin["name"], pin["kind"], pin["key"]) == ("fast", "aot", pinned.first.aot)
    assert (pin["status"], pin["settled"], pin["drift"]) == ("floor", False, "intact")
    assert [family["key"] for family in pin["unit"]] == [pinned.first.aot, pinned.first.partner]
    assert pin["build"] == pin["unit"][0]["build"]


def test_pin_says_how_each_link_is_known(ck, place):
    """A pinned unit names its partner and the evidence, from handles or inferred by times."""
    sources = {}
    for unit in (place.first, place.second):
        aot, partner = ck.json("pin", unit.aot)["unit"]
        assert (aot["key"], aot["link"]) == (unit.aot, None)
        assert partner["key"] == unit.partner
        assert partner["link"]["detail"]
        sources[unit.aot] = partner["link"]["source"]
    assert sources == {place.first.aot: "handles", place.second.aot: "inferred"}


def test_pin_defaults(ck, place):
    """A pin without options is an unsettled floor named by the hash's first eight characters."""
    data = ck.json("pin", place.first.aot[:5])
    assert (data["name"], data["status"], data["settled"]) == (place.first.aot[:8], "floor", False)
    assert data["ranks"] == {"expected": ["rank_0_0", "rank_1_0"], "source": "assumed"}


def test_verify_describes_changes(ck, pinned):
    """A changed file is named with both digests, as another tool computes them."""
    before = pinned.tree()[pinned.first.aot_path + b"/rank_0_0/model"].content
    pinned.overwrite()
    after = pinned.tree()[pinned.first.aot_path + b"/rank_0_0/model"].content
    data = ck.json("verify", code=1)
    (pin,) = data["pins"]
    assert (data["ok"], pin["name"], pin["drift"]) == (False, "fast", "overwritten")
    (model,) = [change for change in pin["changed"] if change["path"] == "rank_0_0/model"]
    assert (model["before"], model["after"]) == (digest(before), digest(after))
    assert model["family"] == pinned.first.aot


def test_restore_describes_what_it_did(ck, pinned):
    """What was restored, what was displaced and what was left alone is said."""
    ck.ok("pin", pinned.second.aot, "--name", "draft")
    pinned.overwrite()
    data = ck.json("restore")
    assert [unit["name"] for unit in data["restored"]] == ["fast"]
    assert [unit["name"] for unit in data["unchanged"]] == ["draft"]
    assert {one["path"].encode() for one in data["displaced"]} == set(pinned.first.paths)
    assert all(one["snapshot"].startswith("s:") for one in data["displaced"])
    assert data["preflight"] == []


def test_diff_levels_are_equal_or_unknown(ck, pinned):
    """Equal bytes make every level equal; other bytes make it unknown, never equal."""
    levels = {"sources", "graph", "codegen", "choices", "binaries"}
    same = ck.json("diff", "fast", f"live:{pinned.first.aot}")
    assert (same["same_family"], same["same_build"]) == (True, True)
    assert same["levels"] == {level: {"equal": True} for level in levels}
    pinned.overwrite()
    other = ck.json("diff", "fast", f"live:{pinned.first.aot}", code=1)
    assert (other["same_family"], other["same_build"]) == (True, False)
    assert other["levels"] == {level: {"equal": None} for level in levels}


def test_errors_are_json_too(ck, pinned):
    """With --json an error is an object on stdout; the words stay on stderr."""
    found = ck("--json", "show", "nobody")
    assert (found.code, found.data["schema"]) == (2, "cachekeeper/error/1")
    error = found.data["error"]
    assert (error["fact"], error["hint"]) == (found.error, found.hint)
    assert (error["exit_code"], error["candidates"]) == (2, [])


def test_wrong_usage_is_json_too(ck):
    """An unknown option or command is an object as well."""
    for arguments in (("scan", "--bogus", "--json"), ("--json", "frobnicate"), ("pin", "--json")):
        found = ck(*arguments)
        assert (found.code, found.data["error"]["exit_code"]) == (2, 2)
