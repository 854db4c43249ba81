"""What composites do with their parts: paths, fallbacks, restoring. Verdicts: tests/harness/test_composition.py."""

import attrs
import pytest

from stateshift import CompatibilityResult, DeclarationError, Finding, OldReaderUnavailable, Verdict
from stateshift.compat.testing import V1, V2, NeedsReconfig, Refuses, Unrestorable
from stateshift.serializers.containers.lists import ListSerializer, MapSerializer, SetSerializer
from stateshift.serializers.containers.tuples import TupleSerializer
from stateshift.serializers.containers.wrappers import OptionalSerializer
from stateshift.serializers.primitives.numeric import BooleanSerializer, LongSerializer
from stateshift.serializers.snapshot import snapshot_to_bytes


@attrs.frozen
class OldLong:
    """A fallback that reads layout one."""

    def deserialize(self, source):
        return source.read_long()


@attrs.frozen
class Doubled(V2):
    """By migration from what cannot be restored, with a fallback and a conversion."""

    def ensure_compatibility(self, snapshot):
        return CompatibilityResult.requires_migration(fallback=OldLong(), conversion=lambda value: value * 2)


def test_a_composite_whose_part_cannot_restore_says_which(stored):
    with pytest.raises(OldReaderUnavailable) as caught:
        stored(TupleSerializer((V1(), Unrestorable()))).restore_serializer()

    assert "$(1)" == caught.value.where["path"]


def test_a_check_changes_neither_side_v_2(stored):
    new = TupleSerializer((V1(), NeedsReconfig()))
    old = stored(TupleSerializer((V1(), V1())))
    before = snapshot_to_bytes(old)

    new.ensure_compatibility(old)

    assert TupleSerializer((V1(), NeedsReconfig())) == new
    assert before == snapshot_to_bytes(old)


@pytest.mark.parametrize(
    ("wrap", "value", "expected"),
    [
        (ListSerializer, [1, 2], [2, 4]),
        (SetSerializer, {1, 2}, {2, 4}),
        (lambda part: MapSerializer(part, part), {1: 2}, {2: 4}),
        (lambda part: MapSerializer(V1(), part, nullable_values=True), {1: None, 2: 3}, {1: None, 2: 6}),
        (lambda part: TupleSerializer((part, V1())), (1, 2), (2, 2)),
        (OptionalSerializer, 1, 2),
        (OptionalSerializer, None, None),
    ],
)
def test_a_fallback_of_a_part_reads_within_the_whole(stored, write, read, wrap, value, expected):
    old, new = wrap(Unrestorable()), wrap(Doubled())
    result = new.ensure_compatibility(stored(old))

    assert Verdict.REQUIRES_MIGRATION_WITH_FALLBACK is result.verdict
    assert result.fallback is not None
    assert result.conversion is not None
    assert expected == read(new, write(new, result.conversion(read(result.fallback, write(old, value)))))


def test_a_compatible_check_restores_nothing(stored):
    old = TupleSerializer((Unrestorable(), ListSerializer(Unrestorable())))

    assert old.ensure_compatibility(stored(old)).is_compatible_as_is()


@pytest.mark.parametrize(
    ("wrap", "path"),
    [
        (ListSerializer, "$[]"),
        (SetSerializer, "$[]"),
        (lambda part: MapSerializer(V1(), part), "${}"),
        (lambda part: MapSerializer(part, V1()), "$<key>"),
        (lambda part: TupleSerializer((V1(), part)), "$(1)"),
        (OptionalSerializer, "$?"),
        (lambda part: ListSerializer(OptionalSerializer(part)), "$[]?"),
    ],
)
def test_paths_say_how_a_part_is_reached(stored, rules, wrap, path):
    result = wrap(Refuses()).ensure_compatibility(stored(wrap(V1())))

    assert [path] == [found for found, _ in rules(result)]


def test_words_of_a_decision_come_from_the_verdict():
    assert ["start", "start", "migrate", "migrate", "refuse"] == [str(verdict.decision) for verdict in Verdict]


def test_unrelated_kinds_are_refused_by_the_rule_of_their_families(stored):
    number, flag = LongSerializer(), BooleanSerializer()
    cases = [
        (ListSerializer(number), SetSerializer(number), "LIST-3"),
        (SetSerializer(number), TupleSerializer((number,)), "LIST-3"),
        (TupleSerializer((number,)), ListSerializer(number), "LIST-3"),
        (MapSerializer(number, number), ListSerializer(number), "MAP-4"),
        (ListSerializer(number), MapSerializer(number, number), "MAP-4"),
        (ListSerializer(number), flag, "FAM-2"),
    ]

    answers = [(new.ensure_compatibility(stored(old)), rule) for new, old, rule in cases]

    assert all(answer.is_incompatible() for answer, _ in answers)
    assert [rule for _, rule in answers] == [answer.findings[0].rule for answer, _ in answers]


def test_a_finding_seen_from_a_parent_has_another_path_and_all_else_as_it_was():
    flags = ("lossy", "drops:$.old", "possible_rename:old->new")
    finding = Finding("$.a", "REC-4", Verdict.REQUIRES_MIGRATION, "int", "long", "why", ("way",), flags, ("lossy",))
    moved = ("lossy", "drops:$[].old", "possible_rename:old->new")

    assert attrs.evolve(finding, path="$[].a", flags=moved) == finding.below("[]")
    assert all(getattr(finding, field.name) for field in attrs.fields(Finding))  # a new one belongs into this test


@pytest.mark.parametrize("made", [CompatibilityResult.requires_migration, CompatibilityResult.compatible])
def test_a_fallback_that_is_given_as_a_finding_is_refused(made):
    with pytest.raises(DeclarationError, match=r"is given findings, and OldLong is none\n.*fallback="):
        made(OldLong())
