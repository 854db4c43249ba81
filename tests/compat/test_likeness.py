"""Reports on very many states: what is fine is counted, and what is said of many is said once."""

from __future__ import annotations

import pytest

from stateshift import check
from stateshift.compat import explain
from stateshift.compat.description import JobDescription, OperatorDescription, SerializerDescription, StateKind
from stateshift.compat.report_data import to_data
from stateshift.serializers.containers.lists import ListSerializer, MapSerializer
from stateshift.serializers.primitives.numeric import IntSerializer, LongSerializer
from stateshift.serializers.records.classes import RecordField
from stateshift.serializers.records.serializers import RecordSerializer

INT, LONG = IntSerializer(), LongSerializer()


def order(number):
    return RecordSerializer("shop.Order", (RecordField("number", number),))


@pytest.fixture
def job(make):
    """`job(20, order)`: so many operators, each with a state that is fine, and an order in three kinds of state."""

    def described(operators, kind, *more):
        value, element, mapped = kind, ListSerializer(kind), MapSerializer(LONG, kind, nullable_values=True)
        states = (
            make.state("total", StateKind.VALUE, LONG), make.state("last", StateKind.VALUE, value),
            make.state("all", StateKind.LIST, element), make.state("by-number", StateKind.MAP, mapped), *more,
        )  # fmt: skip
        return JobDescription(
            "job",
            tuple(
                OperatorDescription(f"{at:032x}", f"op-{at}", key=SerializerDescription.of(LONG), states=states)
                for at in range(operators)
            ),
        )

    return described


def test_what_is_fine_is_one_line_with_a_count(job):
    report = check(job(125, order(LONG)), job(125, order(LONG)))

    lines = explain.text_lines(report)

    assert len(lines) < 8
    assert "625 states and keys can be used as they are (--all lists them)" in lines
    assert len(explain.text_lines(report, everything=True)) > 600
    assert 500 == sum(len(operator["states"]) for operator in to_data(report)["operators"])


def test_one_change_at_many_places_is_reported_once_with_the_places(job):
    report = check(job(125, order(INT)), job(125, order(LONG)))

    text = "\n".join(explain.text_lines(report))

    assert 1 == text.count("every int fits a long, in other bytes")
    assert "the same at 374 other places: op-0/by-number, op-0/last, op-1/all" in text
    assert " and 369 more (--all lists them)" in text
    assert len(text.splitlines()) < 16


def test_what_only_one_side_has_is_reported(job, make):
    gone, begun = make.state("gone", StateKind.VALUE, INT), make.state("begun", StateKind.LIST, ListSerializer(LONG))
    report = check(job(10, order(LONG), gone), job(10, order(LONG), begun))

    lines = explain.text_lines(report)

    assert "  begun  list  list<long>: only in the job: starts empty" in lines
    assert "  gone  value  int: only in the stored state: kept" in lines
    assert 2 == sum(line.startswith("    the same at 9 other places: op-1/") for line in lines)


def test_few_states_are_listed_whole(job):
    report = check(job(2, order(LONG)), job(2, order(LONG)))

    assert explain.text_lines(report) == explain.text_lines(report, everything=True)
