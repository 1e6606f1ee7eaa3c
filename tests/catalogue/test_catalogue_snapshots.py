"""What is asked about snapshots, builds and links."""

from builders_records import ROOT, family, key_of, link, root

from cachekeeper.catalogue.rows import BuildRow, LinkRow, ReferencedBuild, SnapshotRow

OTHER = "/tmp/other%20root"


def test_an_empty_store_has_nothing(catalogue):
    assert catalogue.snapshots() == ()
    assert catalogue.snapshot_by_prefix("") == ()
    assert catalogue.builds_by_prefix("ab") == ()
    assert catalogue.builds_of_key("ab", None) == ()
    assert catalogue.referenced_builds() == ()
    assert catalogue.links_of(ROOT, key_of(1)) == ()


def test_snapshots_are_counted_and_listed_newest_first(catalogue, source):
    first = source.snapshot(root(), reason="pin")
    second = source.snapshot(
        root([family(1, bytes=7), family(2, bytes=8)]), root([family(3)], path=OTHER), message="all"
    )
    assert catalogue.snapshots() == (
        SnapshotRow(second.digest, 2, second.at, "snapshot", "all", 1015, 3),
        SnapshotRow(first.digest, 1, first.at, "pin", "", 0, 0),
    )


def test_a_snapshot_is_found_by_the_prefix_of_its_record(catalogue, source):
    records = [source.snapshot(root([family(n)])) for n in range(20)]
    wanted = records[7].digest
    assert [row.digest for row in catalogue.snapshot_by_prefix(wanted[:12])] == [wanted]
    digits = wanted[:1]
    expected = {record.digest for record in records if record.digest.startswith(digits)}
    assert {row.digest for row in catalogue.snapshot_by_prefix(digits)} == expected
    assert catalogue.snapshot_by_prefix(wanted) == catalogue.snapshot_by_prefix(wanted[:12])


def test_a_prefix_is_no_pattern(catalogue, source):
    digest = source.snapshot(root([family(1)])).digest
    for nothing in ("%", "_", digest[:-1] + "_", digest.upper(), "\udce9", "é", digest + "0"):
        assert catalogue.snapshot_by_prefix(nothing) == ()
        assert catalogue.builds_by_prefix(nothing) == ()
        assert catalogue.builds_of_key(nothing, None) == ()


def test_a_build_is_given_once_at_its_newest_place(catalogue, source):
    kept = family(1)
    source.snapshot(root([kept]))
    source.snapshot(root([kept]), root([kept], path=OTHER))
    newest = source.snapshot(root([kept], path=OTHER))
    source.snapshot(root([family(1, "changed")]))
    row = BuildRow(
        kept["build"], kept["attributes"], OTHER, "aot", kept["key"], kept["path"], 2, 1000,
        newest.digest, 3, newest.at,
    )  # fmt: skip
    assert catalogue.builds_by_prefix(kept["build"][:8]) == (row,)
    assert [b.sequence for b in catalogue.builds_by_prefix("")] == [4, 3]


def test_of_two_places_in_one_snapshot_the_first_is_given(catalogue, source):
    source.snapshot(root([family(1)]), root([family(1)], path=OTHER))
    assert [b.root for b in catalogue.builds_by_prefix(family(1)["build"])] == [ROOT]


def test_the_builds_of_a_key_are_its_history(catalogue, source):
    for content in ("a", "b", "a"):
        source.snapshot(root([family(1, content), family(2)]))
    builds = [family(1, content)["build"] for content in ("a", "b", "a")]
    rows = catalogue.builds_of_key(key_of(1)[:4], None)
    assert [(row.build, row.sequence) for row in rows] == list(zip(builds, (3, 2, 1), strict=True))
    assert {row.key for row in catalogue.builds_of_key("", None)} == {key_of(1), key_of(2)}


def test_the_builds_of_a_key_can_be_asked_of_one_root(catalogue, source):
    source.snapshot(root([family(1)]), root([family(1, "else")], path=OTHER))
    assert [row.root for row in catalogue.builds_of_key(key_of(1), OTHER)] == [OTHER]
    assert [row.root for row in catalogue.builds_of_key(key_of(1), None)] == [ROOT, OTHER]
    assert catalogue.builds_of_key(key_of(1), "/nowhere") == ()


def test_the_key_of_another_family_is_its_path(catalogue, source):
    other = family(1, kind="other", key="modelinfos%C3", path="modelinfos%C3")
    source.snapshot(root([other]))
    (row,) = catalogue.builds_of_key("modelinfos%", ROOT)
    assert (row.kind, row.key, row.path) == ("other", "modelinfos%C3", "modelinfos%C3")


def test_content_that_only_a_pin_names_is_no_place_seen(catalogue, source):
    snapshot = source.snapshot(root([family(1)]))
    source.pin("fast", snapshot, family(2))
    assert catalogue.builds_by_prefix(family(2)["build"]) == ()
    assert [row.build for row in catalogue.referenced_builds()] == [family(1)["build"]]


def test_every_family_of_every_snapshot_is_referenced(catalogue, source):
    one, two = family(1), family(2)
    first = source.snapshot(root([one]))
    second = source.snapshot(root([one, two]))
    assert catalogue.referenced_builds() == tuple(
        ReferencedBuild(f["build"], f["attributes"], digest, ROOT, f["path"])
        for digest, f in ((second.digest, one), (second.digest, two), (first.digest, one))
    )


def test_one_path_read_as_two_kinds_stays_two_rows(catalogue, source):
    source.snapshot(root([family(1, kind="other")]))
    source.snapshot(root([family(1)]))
    assert [row.kind for row in catalogue.builds_of_key(key_of(1), ROOT)] == ["aot", "other"]


def test_links_are_those_of_one_family_in_one_root(catalogue, source):
    first = source.snapshot(root(links=[link(1, "aa", "log", "line 7"), link(2, "bb")]))
    second = source.snapshot(
        root(links=[link(1, "aa"), link(1, "cc", "inferred")]),
        root(links=[link(1, "dd")], path=OTHER),
    )
    key = key_of(1)
    assert catalogue.links_of(ROOT, key) == (
        LinkRow(ROOT, key, "aa", "log", "", second.digest, 2, second.at),
        LinkRow(ROOT, key, "cc", "inferred", "", second.digest, 2, second.at),
        LinkRow(ROOT, key, "aa", "log", "line 7", first.digest, 1, first.at),
    )


def test_a_root_that_stands_twice_in_a_snapshot_keeps_both(catalogue, source):
    source.snapshot(root([family(1)], [link(1, "aa")]), root([family(2)], [link(1, "bb")]))
    assert [row.compile for row in catalogue.links_of(ROOT, key_of(1))] == ["aa", "bb"]
    assert [row.key for row in catalogue.builds_of_key("", ROOT)] == [key_of(1), key_of(2)]
