"""References: prefixes, partners, exact names, what is ambiguous and what is unknown."""

import os

import builders
import pytest
from builders import Unit

# Two graph hashes that begin alike, and partners of which one begins like an aot hash.
ALIKE = "c15860dd"
HASHES = (ALIKE + "a" * 56, ALIKE + "b" * 56)
PARTNERS = ("c158aaaaaa", "0c79dd93f4")


@pytest.fixture
def alike(place):
    """Add two units whose hashes share their first eight characters."""
    for key, partner in zip(HASHES, PARTNERS, strict=True):
        builders.build_unit(place.root, Unit(key, partner, 1, mega=False), key[:9], place.clock)
    return place


@pytest.mark.parametrize("length", [4, 5, 8, 10, 16, 33, 63, 64])
def test_unique_prefixes_lead_to_the_unit(ck, place, length):
    """pin, show and restore take 4 to 64 characters of a hash."""
    prefix = place.first.aot[:length]
    assert ck.json("pin", prefix, "--name", "p")["key"] == place.first.aot
    assert ck.json("show", prefix)["key"] == place.first.aot
    assert ck.json("restore", prefix)["unchanged"][0]["key"] == place.first.aot
    assert ck.json("verify", prefix)["pins"][0]["key"] == place.first.aot


@pytest.mark.parametrize("length", [1, 2, 3])
@pytest.mark.parametrize("command", ["pin", "show", "restore", "verify", "diff", "log", "mark"])
def test_shorter_ones_are_unknown(ck, pinned, command, length):
    """Fewer than four characters name nothing, even where they are unique."""
    extra = {"diff": ("fast",), "mark": ("suspect", "--reason", "r")}.get(command, ())
    assert ck(command, pinned.first.aot[:length], *extra).code == 2


@pytest.mark.parametrize("length", [4, 7, 10])
def test_a_partner_key_leads_to_its_unit(ck, place, length):
    """The 10-hex key of a compile family, or its prefix, is the unit's."""
    prefix = place.first.partner[:length]
    assert ck.json("pin", prefix)["key"] == place.first.aot
    assert ck.json("show", prefix)["key"] == place.first.aot
    assert ck.json("diff", prefix, f"live:{prefix}")["same_family"]


def test_a_partner_key_leads_to_its_unit_without_a_pin(ck, place):
    """What a snapshot stored is found by its partner's key as well."""
    ck.ok("snapshot")
    assert ck.json("show", place.second.partner)["key"] == place.second.aot


@pytest.mark.parametrize("text", [ALIKE[:4], ALIKE])
def test_ambiguous_live_hashes_list_the_candidates(ck, alike, text):
    """pin refuses to choose between two hashes and names both."""
    found = ck("pin", text, "--json")
    assert found.code == 2
    assert found.data["error"]["candidates"] == list(HASHES)
    assert all(key in found.error for key in HASHES)
    assert found.hint == "type more of it"


def test_a_hash_and_its_own_partner_are_one(ck, alike):
    """A prefix of an aot hash and of the same unit's partner is not ambiguous."""
    builders.remove_tree(alike.root + b"/" + Unit(HASHES[1], PARTNERS[1], 1, mega=False).aot_path)
    assert ck.json("pin", "c158")["key"] == HASHES[0]
    assert ck.json("show", "c158")["key"] == HASHES[0]


@pytest.mark.parametrize("command", ["show", "restore", "verify", "log"])
def test_ambiguous_stored_hashes_list_the_candidates(ck, alike, command):
    """Stored content that two hashes fit is not chosen either."""
    ck.ok("snapshot")
    found = ck(command, ALIKE, "--json")
    assert found.code == 2
    where = alike.root.decode()
    assert found.data["error"]["candidates"] == [f"{key} in {where}" for key in HASHES]


@pytest.mark.parametrize("command", ["show", "restore", "verify", "log"])
def test_a_pin_does_not_hide_another_stored_hash(ck, alike, command):
    """A prefix of a pinned and of another stored hash is ambiguous: either could be meant."""
    ck.ok("snapshot")
    ck.ok("pin", HASHES[0], "--name", "one")
    found = ck(command, ALIKE, "--json")
    assert found.code == 2
    assert [text.split(" ")[0] for text in found.data["error"]["candidates"]] == [HASHES[1], "one"]
    assert ck.json("show", HASHES[0])["name"] == "one"


def test_two_pinned_hashes_are_ambiguous(ck, alike):
    """The candidates of pins are told by their names."""
    ck.ok("pin", HASHES[0], "--name", "one")
    ck.ok("pin", HASHES[1], "--name", "two")
    found = ck("restore", ALIKE, "--json")
    where = alike.root.decode()
    assert found.data["error"]["candidates"] == [
        f"one ({HASHES[0][:16]} in {where})",
        f"two ({HASHES[1][:16]} in {where})",
    ]


def test_an_exact_pin_name_wins(ck, alike):
    """A pin named like the prefix of another hash is that pin."""
    ck.ok("pin", alike.first.aot, "--name", "c158")
    ck.ok("pin", HASHES[0], "--name", "fast")
    assert ck.json("show", "c158")["key"] == alike.first.aot
    assert ck.json("restore", "c158")["unchanged"][0]["key"] == alike.first.aot
    assert ck.json("show", ALIKE + "a")["key"] == HASHES[0]


def test_a_pin_named_like_another_unit_s_whole_hash_wins(ck, alike):
    """Even a whole hash is a pin's name first."""
    ck.ok("pin", HASHES[0], "--name", "x")
    ck.ok("pin", alike.first.aot, "--name", HASHES[0])
    assert ck.json("show", HASHES[0])["key"] == alike.first.aot


def test_two_pins_of_a_unit_give_the_floor(ck, pinned):
    """A hash with several pins is its floor; without one the names are candidates."""
    ck.ok("pin", pinned.first.aot, "--name", "draft", "--status", "candidate")
    assert ck.json("show", pinned.first.aot)["name"] == "fast"
    ck.ok("mark", "fast", "suspect", "--reason", "slower")
    found = ck("show", pinned.first.aot, "--json")
    names = [text.split(" ")[0] for text in found.data["error"]["candidates"]]
    assert (found.code, names) == (2, ["draft", "fast"])


def test_unknown_names_show_the_nearest(ck, pinned):
    """A slip of the finger is answered with what was probably meant."""
    assert ck("show", "fats").hint == "did you mean fast?"
    wrong = pinned.first.aot[:7] + ("0" if pinned.first.aot[7] != "0" else "1")
    for command in ("show", "pin", "restore"):
        found = ck(command, wrong)
        assert (found.code, found.hint) == (2, f"did you mean {pinned.first.aot[:8]}?")


def test_unknown_names_without_a_near_one_show_where_to_look(ck, pinned):
    """Where nothing is near, the hint is the command that lists them."""
    assert ck("show", "zzzzzzzz").hint == "cachekeeper log lists what is stored"
    assert ck("pin", "zzzzzzzz").hint == "cachekeeper scan lists the hashes"
    assert ck("unpin", "zzzzzzzz", "--yes").code == 2


def test_unpin_takes_exact_names_only(ck, pinned):
    """A prefix of the hash or of the name removes nothing."""
    for text in (pinned.first.aot, pinned.first.aot[:8], "fas"):
        assert ck("unpin", text, "--yes").code == 2
    assert len(ck.json("pins")["pins"]) == 1


def test_builds_are_found_by_prefix(ck, pinned):
    """b: with 4 to 64 characters names one content; its own family is what is shown."""
    shown = ck.json("show", "fast")
    aot, partner = (family["build"] for family in shown["unit"])
    for build in (aot, partner):
        for length in (8, 64):
            found = ck.json("show", f"b:{build[:length]}")
            assert (found["kind"], found["key"], found["build"]) == (
                "build",
                pinned.first.aot,
                build,
            )
    assert ck("show", f"b:{aot[:3]}").code == 2


def test_unknown_builds_and_snapshots_show_the_nearest(ck, pinned):
    """A mistyped id is answered with the nearest one of its kind."""
    shown = ck.json("show", "fast")
    for whole in (f"b:{shown['build']}", shown["snapshot"]):
        typed = whole[:9] + ("0" if whole[9] != "0" else "1")
        found = ck("show", typed)
        assert found.code == 2
        assert found.hint.startswith(f"did you mean {whole[:10]}")


@pytest.mark.parametrize("text", ["b:", "s:xyz", "b:123", "live:zz", "s:" + "a" * 65, ""])
def test_what_can_name_nothing_is_wrong_usage(ck, pinned, text):
    """A mark without a digest prefix behind it is refused as such."""
    assert ck("show", text).code == 2


def test_runs_are_not_known_yet(ck, pinned):
    """No run is recorded by this version, so none is known."""
    assert "no run is known" in ck("show", "r:nightly").error


@pytest.mark.parametrize("command", ["restore", "verify", "log", "mark"])
def test_live_content_is_no_stored_content(ck, pinned, command):
    """live:HASH is what stands in the root: nothing can be put back from it."""
    extra = ("suspect", "--reason", "r") if command == "mark" else ()
    found = ck(command, f"live:{pinned.first.aot}", *extra)
    assert (found.code, "what stands in the root" in found.error) == (2, True)


@pytest.mark.parametrize("text", ["b:1234", "s:1234", "r:x"])
def test_pin_takes_a_hash(ck, place, text):
    """What is pinned is named by its graph hash; snapshots come by --from."""
    assert ck("pin", text).code == 2


def test_the_same_hash_in_two_roots(ck, place):
    """One hash in two roots is ambiguous for pin, and the roots are told."""
    other = place.top + b"/other"
    builders.build_unit(other, place.first, "v1", place.clock)
    both = ("--root", place.root, "--root", other)
    found = ck("pin", place.first.aot, *both, "--json")
    expected = sorted(f"{place.first.aot} in {os.fsdecode(root)}" for root in (place.root, other))
    assert (found.code, found.data["error"]["candidates"]) == (2, expected)


def test_the_root_at_hand_decides_between_two(ck, place):
    """The same hash stored from two roots is the one of the root at hand."""
    other = place.top + b"/other"
    builders.build_unit(other, place.first, "v2", place.clock)
    for name, root in (("here", place.root), ("there", other)):
        ck.ok("pin", place.first.aot, "--name", name, "--root", root)
        assert ck.json("show", place.first.aot, "--root", root)["name"] == name
    for root in (place.root, other):
        found = ck.json("restore", place.first.aot[:8], "--root", root)
        assert [unit["drift"] for unit in found["unchanged"]] == ["intact"]


def test_the_root_at_hand_decides_without_pins(ck, place):
    """So it is for what only snapshots hold."""
    other = place.top + b"/other"
    builders.build_unit(other, place.first, "v2", place.clock)
    ck.ok("snapshot", "--root", place.root, "--root", other)
    for root in (place.root, other):
        assert ck.json("show", place.first.aot, "--root", root)["root"].encode() == root
    nowhere = ck("show", place.first.aot, "--root", place.top + b"/nowhere")
    assert nowhere.code == 2


def test_a_partner_of_two_units_is_ambiguous(ck, place):
    """Two models that compiled to one 10-hex family: its key leads to both."""
    twin = Unit("d" * 64, place.first.partner, 2, mega=False)
    tree = place.root + b"/" + place.first.aot_path
    builders.copy_tree(tree, place.root + b"/" + twin.aot_path)
    keys = sorted([place.first.aot, twin.aot])
    assert ck("pin", place.first.partner, "--json").data["error"]["candidates"] == keys
    ck.ok("snapshot")
    found = ck("show", place.first.partner, "--json")
    where = place.root.decode()
    assert found.data["error"]["candidates"] == [f"{key} in {where}" for key in keys]
    assert ck.json("show", twin.aot)["key"] == twin.aot
    build = ck.json("show", twin.aot)["unit"][1]["build"]
    assert [family["kind"] for family in ck.json("show", f"b:{build}")["unit"]] == ["compile"]
