"""Harness cases C01 to C19: how the verdicts of parts become the verdict of the whole."""

from typing import Any, ClassVar

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stateshift.serializers.compatibility import Child, CompatibilityResult, Finding, Verdict, compose, worst
from stateshift.serializers.containers import ListSerializer, MapSerializer, SetSerializer, TupleSerializer
from stateshift.serializers.errors import OldReaderUnavailable
from stateshift.serializers.numeric import BooleanSerializer, IntSerializer, LongSerializer
from stateshift.serializers.optional import OptionalSerializer
from stateshift.serializers.registry import register_snapshot
from stateshift.serializers.serializer import TypeSerializer, incompatible
from stateshift.serializers.snapshot import TypeSerializerConfigSnapshot, snapshot_to_bytes


@attrs.define
class PlainSnapshot(TypeSerializerConfigSnapshot[Any]):
    """A snapshot without content; `restores` says whether it can restore."""

    restores: ClassVar[Any] = None

    def write(self, target):
        pass

    def read(self, source):
        pass

    def restore_serializer(self):
        if self.restores is None:
            raise OldReaderUnavailable(f"{self.snapshot_id} cannot restore its serializer")
        return type(self).restores()


@register_snapshot
@attrs.define
class V1Snapshot(PlainSnapshot):
    snapshot_id: ClassVar[str] = "stateshift/test-composition-v1"


@register_snapshot
@attrs.define
class V2Snapshot(PlainSnapshot):
    snapshot_id: ClassVar[str] = "stateshift/test-composition-v2"


@register_snapshot
@attrs.define
class UnrestorableSnapshot(PlainSnapshot):
    snapshot_id: ClassVar[str] = "stateshift/test-composition-unrestorable"


def found(verdict, rule):
    return Finding("$", rule, verdict, "old", "new", "as the test says", ("do something",))


@attrs.frozen
class V1(TypeSerializer[int]):
    """Layout one: a long."""

    def serialize(self, value, target):
        target.write_long(value)

    def deserialize(self, source):
        return source.read_long()

    def snapshot_configuration(self):
        return V1Snapshot()


@attrs.frozen
class V2(V1):
    """Layout two, by migration from V1: twice the value, behind a byte."""

    def serialize(self, value, target):
        target.write_byte(2)
        target.write_long(value)

    def deserialize(self, source):
        source.skip_bytes(1)
        return source.read_long()

    def snapshot_configuration(self):
        return V2Snapshot()

    def ensure_compatibility(self, snapshot):
        if isinstance(snapshot, V1Snapshot):
            finding = found(Verdict.REQUIRES_MIGRATION, "TEST-M")
            return CompatibilityResult.requires_migration(finding, conversion=lambda value: value * 2)
        return super().ensure_compatibility(snapshot)


@attrs.frozen
class NeedsReconfig(V1):
    """Takes V1 over by reconfiguration, and fails where the copy is not used."""

    reconfigured: bool = False

    def serialize(self, value, target):
        assert self.reconfigured, "used without reconfiguration"
        super().serialize(value, target)

    def deserialize(self, source):
        assert self.reconfigured, "used without reconfiguration"
        return super().deserialize(source)

    def ensure_compatibility(self, snapshot):
        if not isinstance(snapshot, V1Snapshot):
            return incompatible(self, snapshot, "TEST-I", "not V1")
        finding = found(Verdict.COMPATIBLE_AFTER_RECONFIGURATION, "TEST-R")
        return CompatibilityResult.compatible_after_reconfiguration(NeedsReconfig(reconfigured=True), finding)


@attrs.frozen
class Refuses(V1):
    """Takes nothing over."""

    def ensure_compatibility(self, snapshot):
        return incompatible(self, snapshot, "TEST-I", "it refuses everything")


@attrs.frozen
class OldLong:
    """A fallback deserializer, of V1's bytes."""

    def deserialize(self, source):
        return source.read_long()


@attrs.frozen
class NeedsFallback(V2):
    """By migration from what cannot be restored, with a fallback."""

    def ensure_compatibility(self, snapshot):
        finding = found(Verdict.REQUIRES_MIGRATION_WITH_FALLBACK, "TEST-MF")
        return CompatibilityResult.requires_migration(finding, fallback=OldLong(), conversion=lambda value: value * 2)


@attrs.frozen
class Unrestorable(V1):
    """V1 under a snapshot that cannot restore."""

    def snapshot_configuration(self):
        return UnrestorableSnapshot()


V1Snapshot.restores = V1
V2Snapshot.restores = V2

BY_VERDICT = {"C": V1(), "R": NeedsReconfig(), "M": V2(), "MF": NeedsFallback(), "I": Refuses()}
VERDICTS = dict(zip(BY_VERDICT, Verdict, strict=True))


def ask(*letters: str) -> CompatibilityResult[Any]:
    """A tuple of parts that answer so, about a tuple of V1."""
    new = TupleSerializer(tuple(BY_VERDICT[letter] for letter in letters))
    return new.ensure_compatibility(TupleSerializer((V1(),) * len(letters)).snapshot_configuration())


def ask_with_outer(outer: CompatibilityResult[Any], letter: str) -> CompatibilityResult[Any]:
    """A composite whose own check says `outer`, and whose one part answers `letter`."""
    part = BY_VERDICT[letter]
    return compose(
        outer,
        [Child("[]", part, part.ensure_compatibility(V1Snapshot()), V1)],
        rebuild=lambda nested: ListSerializer(nested[0]),
        convert=lambda conversions: conversions[0],
        read_with=lambda readers: readers[0],
    )


@pytest.mark.parametrize(
    ("letters", "expected"),
    [
        pytest.param("C M I R", "I", id="C01_incompatible_wins"),
        pytest.param("C M R C", "M", id="C02_migration_beats_reconfiguration"),
        pytest.param("C R C", "R", id="C03_reconfiguration_beats_as_is"),
        pytest.param("C C", "C", id="C04_all_as_is"),
        pytest.param("M MF", "MF", id="C09_fallback_ranks_above_migration"),
        pytest.param("MF I", "I", id="C09_incompatible_ranks_above_fallback"),
        pytest.param("R M C", "M", id="C12_intermediate_migration"),
        pytest.param("C I R M", "I", id="C13_intermediate_incompatible"),
    ],
)
def test_the_worst_verdict_of_the_parts_is_that_of_the_whole_comp_1(letters, expected):
    assert VERDICTS[expected] is ask(*letters.split()).verdict


def test_outer_incompatible_wins():
    outer = CompatibilityResult.incompatible(found(Verdict.INCOMPATIBLE, "OUTER"))

    result = ask_with_outer(outer, "C")

    assert Verdict.INCOMPATIBLE is result.verdict
    assert ["OUTER"] == [finding.rule for finding in result.findings]


def test_outer_migration_beats_child_reconfig_and_stands_first_comp_2():
    outer = CompatibilityResult.requires_migration(found(Verdict.REQUIRES_MIGRATION, "OUTER"))

    result = ask_with_outer(outer, "R")

    assert Verdict.REQUIRES_MIGRATION is result.verdict
    assert ["OUTER", "TEST-R"] == [finding.rule for finding in result.findings]
    with pytest.raises(ValueError, match="no reconfigured serializer"):
        _ = result.reconfigured_serializer


def test_arity_mismatch_is_incompatible(stored):
    result = TupleSerializer((V1(), V1(), V1())).ensure_compatibility(stored(TupleSerializer((V1(),))))

    assert Verdict.INCOMPATIBLE is result.verdict
    assert ["TUP-3"] == [finding.rule for finding in result.findings]
    assert "1 stored and 3 declared" in result.findings[0].reason


def test_restore_composite_restores_children_comp_5(stored):
    fields = (V1(), V2(), LongSerializer(), OptionalSerializer(IntSerializer()))
    restored = stored(TupleSerializer(fields)).restore_serializer()

    assert fields == restored.fields


def test_a_composite_whose_part_cannot_restore_says_which(stored):
    with pytest.raises(OldReaderUnavailable) as caught:
        stored(TupleSerializer((V1(), Unrestorable()))).restore_serializer()

    assert "$(1)" == caught.value.where["path"]


def test_intermediate_as_is_yields_children():
    result = ask("C", "C")

    assert result.is_compatible_as_is()
    assert [V1(), V1()] == [child.effective_serializer for child in result.children]


def test_intermediate_reconfig_yields_children(write, read):
    copy = ask("C", "R", "C").reconfigured_serializer

    assert (V1(), NeedsReconfig(reconfigured=True), V1()) == copy.fields
    assert (1, 2, 3) == read(copy, write(TupleSerializer((V1(),) * 3), (1, 2, 3)))


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
    old, new = wrap(Unrestorable()), wrap(NeedsFallback())
    result = new.ensure_compatibility(stored(old))

    assert Verdict.REQUIRES_MIGRATION_WITH_FALLBACK is result.verdict
    assert result.fallback is not None
    assert result.conversion is not None
    assert expected == read(new, write(new, result.conversion(read(result.fallback, write(old, value)))))


def test_a_compatible_check_restores_nothing(stored):
    old = TupleSerializer((Unrestorable(), ListSerializer(Unrestorable())))

    assert old.ensure_compatibility(stored(old)).is_compatible_as_is()


def test_every_problem_is_reported(stored):
    old = TupleSerializer((V1(), ListSerializer(TupleSerializer((V1(), MapSerializer(V1(), V1()))))))
    new = TupleSerializer((Refuses(), ListSerializer(TupleSerializer((Refuses(), MapSerializer(V1(), Refuses()))))))

    result = new.ensure_compatibility(stored(old))

    assert ["$(0)", "$(1)[](0)", "$(1)[](1){}"] == [finding.path for finding in result.findings]
    assert all(finding.reason and finding.ways_out for finding in result.findings)


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
def test_paths_say_how_a_part_is_reached(stored, wrap, path):
    result = wrap(Refuses()).ensure_compatibility(stored(wrap(V1())))

    assert [path] == [finding.path for finding in result.findings]


VERDICT = st.sampled_from(Verdict)


@given(st.lists(VERDICT), st.randoms())
def test_worst_of_is_a_lattice(verdicts, random):
    shuffled = list(verdicts)
    random.shuffle(shuffled)
    middle = len(verdicts) // 2

    assert max(verdicts, default=Verdict.COMPATIBLE) is worst(verdicts)
    assert worst(verdicts) is worst(shuffled)
    assert worst(verdicts) is worst([*verdicts, worst(verdicts)])
    assert worst(verdicts) is worst([worst(verdicts[:middle]), worst(verdicts[middle:])])


@given(st.lists(st.sampled_from(sorted(BY_VERDICT)), min_size=1, max_size=6))
def test_a_composite_is_as_bad_as_its_worst_part_wherever_it_stands(letters):
    expected = max(VERDICTS[letter] for letter in letters)

    assert expected is ask(*letters).verdict
    assert expected is ask(*reversed(letters)).verdict
    assert len([letter for letter in letters if letter != "C"]) == len(ask(*letters).findings)


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
