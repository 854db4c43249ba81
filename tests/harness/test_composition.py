"""Harness cases C: how the verdicts of the parts, and that of the whole itself, become one.

The parts are tried in a tuple: its own check says nothing as long as the number of its items is the same.
"""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stateshift import CompatibilityResult, Finding, Verdict
from stateshift.compat.testing import V1, V2, NeedsFallback, NeedsReconfig, Refuses
from stateshift.serializers.compatibility import Child, compose, worst
from stateshift.serializers.containers.lists import ListSerializer, MapSerializer
from stateshift.serializers.containers.tuples import TupleSerializer
from stateshift.serializers.containers.wrappers import OptionalSerializer
from stateshift.serializers.primitives.numeric import IntSerializer, LongSerializer
from stateshift.serializers.primitives.text import StringSerializer
from stateshift.serializers.records.classes import RecordField
from stateshift.serializers.records.recursive import RecordReference, RecursiveRecordSerializer

C, R, M, MF, I = Verdict  # noqa: E741 - as the harness cases call them
ANSWERING = {C: V1(), R: NeedsReconfig(), M: V2(), MF: NeedsFallback(), I: Refuses()}
RECONFIGURED = NeedsReconfig(reconfigured=True)


@pytest.fixture(scope="session")
def answer_of(ask):
    """`answer_of(C, M)`: what a tuple answers whose items answer so, about a tuple of V1."""

    def answer(*verdicts):
        return ask(TupleSerializer(tuple(map(ANSWERING.get, verdicts))), TupleSerializer((V1(),) * len(verdicts)))

    return answer


def answer_with_outer(outer, verdict):
    """Give what a composite answers whose own check says `outer`, and whose one part answers `verdict`."""
    part = ANSWERING[verdict]
    return compose(
        outer,
        [Child("[]", part, part.ensure_compatibility(V1().snapshot_configuration()), V1)],
        rebuild=lambda parts: ListSerializer(parts[0]),
        convert=lambda conversions: conversions[0],
        read_with=lambda readers: readers[0],
    )


def outer_finding(verdict):
    return Finding("$", "OUTER", verdict, "old", "new", "the whole itself has changed", ("keep it",))


def test_incompatible_wins(answer_of):
    """C01: COMP-1; what the others found is reported, too."""
    result = answer_of(C, M, I, R)

    assert I is result.verdict
    assert ["$(1)", "$(2)", "$(3)"] == [finding.path for finding in result.findings]


def test_migration_beats_reconfiguration(answer_of):
    """C02: and no copy is offered, which would read half of it (COMP-4)."""
    result = answer_of(C, M, R, C)

    assert M is result.verdict
    with pytest.raises(ValueError, match="no reconfigured serializer"):
        _ = result.reconfigured_serializer


def test_reconfiguration_beats_as_is(answer_of, write, read):
    """C03: in the copy exactly the second part is another one (COMP-4), and it reads what is stored."""
    result = answer_of(C, R, C)

    assert R is result.verdict
    assert TupleSerializer((V1(), RECONFIGURED, V1())) == result.reconfigured_serializer
    assert (1, 2, 3) == read(result.reconfigured_serializer, write(TupleSerializer((V1(),) * 3), (1, 2, 3)))


def test_all_as_is(answer_of):
    """C04."""
    assert CompatibilityResult.compatible() == answer_of(C, C)


def test_outer_incompatible_wins():
    """C05."""
    result = answer_with_outer(CompatibilityResult.incompatible(outer_finding(I)), C)

    assert I is result.verdict
    assert ["OUTER"] == [finding.rule for finding in result.findings]


def test_outer_migration_beats_child_reconfig():
    """C06: what the whole itself found comes first (COMP-2)."""
    result = answer_with_outer(CompatibilityResult.requires_migration(outer_finding(M)), R)

    assert M is result.verdict
    assert [("$", "OUTER"), ("$[]", "HARNESS")] == [(finding.path, finding.rule) for finding in result.findings]


def test_arity_mismatch_is_incompatible(ask):
    """C07: TUP-3; both arities are in the message."""
    result = ask(TupleSerializer((V1(), V1(), V1())), TupleSerializer((V1(),)))

    assert I is result.verdict
    assert ["TUP-3"] == [finding.rule for finding in result.findings]
    assert "1 stored and 3 declared" in result.findings[0].reason


def test_restore_composite_restores_children(stored):
    """C08: COMP-5; each part comes from its own snapshot, also one that would take nothing over."""
    parts = (V1(), V2(), NeedsReconfig(), Refuses(), LongSerializer(), OptionalSerializer(IntSerializer()))

    assert TupleSerializer(parts) == stored(TupleSerializer(parts)).restore_serializer()


def test_fallback_ranks_between_migration_and_incompatible(answer_of):
    """C09."""
    assert [MF, I] == [answer_of(M, MF).verdict, answer_of(MF, I).verdict]


def test_intermediate_as_is_yields_children(answer_of):
    """C10: the parts to go on with are the new ones."""
    result = answer_of(C, C)

    assert C is result.verdict
    assert [V1(), V1()] == [child.effective_serializer for child in result.children]


def test_intermediate_reconfig_yields_children(answer_of):
    """C11: the parts to go on with are the new one, and the reconfigured one."""
    result = answer_of(C, R)

    assert R is result.verdict
    assert [V1(), RECONFIGURED] == [child.effective_serializer for child in result.children]


def test_intermediate_migration(answer_of):
    """C12."""
    result = answer_of(R, M, C)

    assert M is result.verdict
    assert [R, M, C] == [child.result.verdict for child in result.children]


def test_intermediate_incompatible(answer_of):
    """C13."""
    result = answer_of(C, I, R, M)

    assert I is result.verdict
    assert [C, I, R, M] == [child.result.verdict for child in result.children]


def test_every_problem_is_reported(ask, rules):
    """C17: COMP-6; three broken leaves at three depths have three paths, the outermost first."""

    def layers(outer, middle, inner):
        return TupleSerializer((outer, ListSerializer(TupleSerializer((middle, MapSerializer(V1(), inner))))))

    result = ask(layers(Refuses(), Refuses(), Refuses()), layers(V1(), V1(), V1()))

    assert ["$(0)", "$(1)[](0)", "$(1)[](1){}"] == [path for path, _ in rules(result)]
    assert all(finding.old and finding.new and finding.reason and finding.ways_out for finding in result.findings)


def test_recursion_terminates(ask, rules):
    """C18: COMP-3; a node holds its next one, and its changed value is one problem however long the chain."""

    def node(value):
        fields = (RecordField("next", RecordReference("fx.Node"), optional=True), RecordField("value", value))
        return RecursiveRecordSerializer("fx.Node", fields)

    assert ask(node(LongSerializer()), node(LongSerializer())).is_compatible_as_is()
    assert [("$.value", "PRIM-4")] == rules(ask(node(StringSerializer()), node(LongSerializer())))


@given(st.lists(st.sampled_from(Verdict)), st.randoms(use_true_random=False))
def test_worst_of_is_a_lattice(verdicts: list[Verdict], chance: random.Random):
    """C19: the result is the maximum, in any order and grouping, and taking it again changes nothing."""
    shuffled = list(verdicts)
    chance.shuffle(shuffled)
    middle = len(verdicts) // 2

    assert max(verdicts, default=C) is worst(verdicts)
    assert worst(verdicts) is worst(shuffled)
    assert worst(verdicts) is worst([*verdicts, worst(verdicts)])
    assert worst(verdicts) is worst([worst(verdicts[:middle]), worst(verdicts[middle:])])


@given(st.lists(st.sampled_from(Verdict), min_size=1, max_size=6))
def test_a_composite_is_as_bad_as_its_worst_part_wherever_it_stands(answer_of, verdicts):
    """C19, of the composites."""
    forth, back = answer_of(*verdicts), answer_of(*reversed(verdicts))

    assert (worst(verdicts), worst(verdicts)) == (forth.verdict, back.verdict)
    assert len(verdicts) - verdicts.count(C) == len(forth.findings)
