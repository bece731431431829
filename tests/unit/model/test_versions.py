"""Which processes may take part at which active version, and what they are told otherwise."""

from __future__ import annotations

import pytest

from svc_cluster._pb.cluster.v1 import catalog_entry_pb2 as pb
from svc_cluster.base.errors import ServiceError
from svc_cluster.codec.entry_since import NotActiveYetError, check_since, written_kinds
from svc_cluster.model import versions
from svc_cluster.model.versions import Format, Spoken

OWN = Spoken(2, 3)


@pytest.mark.parametrize(
    ("theirs", "active", "says"),
    [
        (Spoken(2, 2), 2, None),
        (Spoken(2, 3), 3, None),
        (Spoken(3, 4), 3, None),
        (Spoken(2, 2), 3, "too old: it speaks version 2 (release 0.2), and this cluster is at ver"),
        (Spoken(3, 4), 2, "too new: it speaks versions 3 to 4 (release 0.4), and this cluster is"),
    ],
)
def test_who_does_not_speak_the_active_version_is_told_both(
    theirs: Spoken, active: int, says: str | None
) -> None:
    """Whoever speaks the active version takes part, whatever else it speaks."""
    refusal = versions.refusal(theirs, OWN, active)
    if says is None:
        assert refusal is None
    else:
        assert refusal is not None
        assert refusal.startswith(says)
        assert f"version {active}" in refusal


def test_a_directory_is_refused_by_programs_that_do_not_speak_its_version() -> None:
    """In one sentence with both versions and the release to run."""
    assert versions.directory_refusal(2, OWN) is versions.directory_refusal(3, OWN) is None
    newer = versions.directory_refusal(4, OWN)
    assert newer is not None
    assert "version 4" in newer
    assert "start svc-cluster 0.4" in newer
    older = versions.directory_refusal(2, Spoken(4, 5))
    assert older is not None
    assert "start svc-cluster 0.3" in older


def test_what_is_newer_than_the_active_version_is_read_and_not_written() -> None:
    formats = (Format(1, since=2), Format(2, since=3))
    assert versions.newest_read(formats) == 2
    assert versions.newest_written(formats, 2) == 1
    assert versions.newest_written(formats, 3) == 2


def test_every_format_was_written_at_first_and_none_is_newer_than_the_program() -> None:
    """A format whose first version came later says so, and a new one is announced by NEWEST."""
    found = {name: each for name, each in vars(versions).items() if isinstance(each, tuple)}
    assert len(found) == 9
    for name, formats in found.items():
        begun = versions.SEALED_CONFIGURATIONS if name == "SEAL_ENTRY" else versions.FIRST
        assert min(each.since for each in formats) == begun, name
        assert max(each.since for each in formats) <= versions.NEWEST, name
        assert len({each.version for each in formats}) == len(formats), name


def test_a_member_that_is_not_active_yet_is_not_written_wherever_it_stands() -> None:
    """At the top, in a list, and inside a write that may be repeated; the text says what to do."""
    entry = pb.CatalogEntry()
    entry.commands.add().create_basin.owner = 4
    entry.commands.add().keyed_write.write.create_basin.location = "here"
    for name in ("CatalogCommand.create_basin", "CreateBasin.owner", "CreateBasin.location"):
        with pytest.raises(NotActiveYetError, match=r"takes version 3 .* at 2.*finalize") as told:
            check_since(entry, 2, {name: 3})
        assert isinstance(told.value, ServiceError)
        assert not told.value.may_have_taken_effect
        check_since(entry, 3, {name: 3})
    check_since(entry, 2, {"CreateBasin.creation_hash": 3})  # not set, so not written


def test_a_snapshot_names_the_kinds_that_can_have_made_it() -> None:
    """A release from before takes the snapshots of a newer one until the version is raised."""
    kinds = {"create_basin", "raise_active_version", "new"}
    since = {"CatalogCommand.new": 4}
    assert written_kinds("CatalogCommand", kinds, 2, since) == ["create_basin"]
    assert "raise_active_version" in written_kinds("CatalogCommand", kinds, 3, since)
    assert written_kinds("CatalogCommand", kinds, 4, since) == sorted(kinds)
