"""Who reads the old bytes (rules, section 10)."""

from __future__ import annotations

import pickle

import pytest

from stateshift import OldReaderUnavailable, UntrustedCode, Verdict, check
from stateshift.compat.description import StateKind
from stateshift.compat.old_reader import ReaderSource, find_old_reader
from stateshift.serializers.containers.tuples import TupleSerializer, TupleSerializerSnapshot


def refuse():
    raise UntrustedCode("the stored serializer would have to be unpickled")


@pytest.mark.parametrize(
    ("restorable", "is_trusted", "has_fallback", "source"),
    [
        (True, True, True, ReaderSource.SNAPSHOT),
        (False, True, True, ReaderSource.STORED),
        (False, False, True, ReaderSource.FALLBACK),
        (False, False, False, None),
    ],
)
def test_reader_order(make, restorable, is_trusted, has_fallback, source):
    """J11, READ-1 to READ-4: the first of the three that there is, which is named; or an error that names all."""
    stored, fallback = make.Layout(2), make.Layout(3)
    readers = {ReaderSource.SNAPSHOT: make.Layout(1), ReaderSource.STORED: stored, ReaderSource.FALLBACK: fallback}
    attempts = ["snapshot", "stored serializer", "fallback"]

    def find():
        return find_old_reader(
            make.LayoutSnapshot(1, restorable=restorable),
            stored=(lambda: stored) if is_trusted else refuse,
            fallbacks=[fallback] if has_fallback else [],
        )

    if source is None:
        with pytest.raises(OldReaderUnavailable) as caught:
            find()
        assert attempts == [reason.partition(":")[0] for reason in caught.value.reasons]
    else:
        found = find()
        assert (readers[source], source) == (found.reader, found.source)
        assert attempts[: list(readers).index(source)] == [reason.partition(":")[0] for reason in found.reasons]


def test_later_sources_are_not_touched_once_one_has_served(make):
    def never():
        raise AssertionError("the stored serializer was loaded")

    assert ReaderSource.SNAPSHOT == find_old_reader(make.LayoutSnapshot(1), stored=never).source


def test_without_any_source_all_three_reasons_are_reported_read_4(make):
    with pytest.raises(OldReaderUnavailable) as caught:
        find_old_reader(make.LayoutSnapshot(1, restorable=False), stored=refuse)

    error = pickle.loads(pickle.dumps(caught.value))
    assert ("snapshot: the class is gone", "fallback: the job has none") == (error.reasons[0], error.reasons[2])
    assert "unpickled" in error.reasons[1]
    assert "READ-4" == error.where["rule"]


def test_a_snapshot_that_fails_in_its_own_way_is_one_more_reason(make):
    class Broken(make.LayoutSnapshot):
        def restore_serializer(self):
            raise ImportError("no module named acme")

    found = find_old_reader(Broken(1), fallbacks=[make.Layout(1)])

    assert "snapshot: ImportError: no module named acme" == found.reasons[0]


def test_an_unreadable_part_refuses_the_whole_even_if_another_part_has_a_fallback_read_4(make):
    gone = make.LayoutSnapshot(1, restorable=False)
    old = TupleSerializerSnapshot((gone, gone), "org.apache.flink.api.java.tuple.Tuple2")
    read = make.Layout(2, "migrates", fallback=make.Layout(1))

    results = [
        check(
            make.job(make.state("s", StateKind.VALUE, old)),
            make.job(make.state("s", StateKind.VALUE, TupleSerializer((read, other)))),
        )
        .operators[0]
        .states[0]
        .result
        for other in (make.Layout(1), read)
    ]

    assert [Verdict.INCOMPATIBLE, Verdict.REQUIRES_MIGRATION_WITH_FALLBACK] == [result.verdict for result in results]
    (finding,) = (finding for finding in results[0].findings if finding.rule == "READ-4")
    assert "fallback: the class is gone (at $(1))" in finding.reason


def test_what_no_reader_can_skip_refuses_a_broadcast_map_whose_other_side_migrates_read_4(make):
    gone, moved = make.LayoutSnapshot(2, restorable=False), make.Layout(3, "migrates")

    def verdict(key, value, new_key, new_value):
        was = make.state("s", StateKind.BROADCAST, value, key=key)
        becomes = make.state("s", StateKind.BROADCAST, new_value, key=new_key)
        return check(make.job(was), make.job(becomes)).operators[0].states[0].result

    assert Verdict.COMPATIBLE == verdict(make.Layout(1), gone, make.Layout(1), make.Layout(2)).verdict
    refused = verdict(make.Layout(1), gone, moved, make.Layout(2))
    assert Verdict.INCOMPATIBLE == refused.verdict
    assert ("${}", "READ-4") in [(finding.path, finding.rule) for finding in refused.findings]
