"""The way back of what was renamed: aliases of later revisions, turned round (rule REC-6)."""

from __future__ import annotations

import enum
from typing import Annotated

import attrs
import pytest

from stateshift import (
    Decision,
    Field,
    Job,
    ListStateDescriptor,
    MapStateDescriptor,
    Operator,
    ValueStateDescriptor,
    check,
    enum_options,
    record,
)
from stateshift.compat.former_names import knowing_later_names
from stateshift.compat.gate.recording import from_json, to_json


def made(name, *, aliases=(), **fields):
    """A record of this name, with fields of (type, aliases)."""
    body = {
        field: attrs.field(default=default, type=Annotated[type(default), Field(aliases=former)])
        for field, (default, former) in fields.items()
    }
    return record(aliases=aliases)(attrs.make_class(name, body, frozen=True))


def described(value, kind=ValueStateDescriptor):
    states = [MapStateDescriptor("s", str, value)] if kind is MapStateDescriptor else [kind("s", value)]
    return Job([Operator("o", key=int, states=states)]).describe()


def recorded(value, kind=ValueStateDescriptor):
    return from_json(to_json(described(value, kind)))


def back(*values, kind=ValueStateDescriptor):
    """The check of the way from the last type to the first, whose revisions are recorded."""
    first, *later = (recorded(value, kind) for value in values)
    report = check(described(values[-1], kind), knowing_later_names(first, later))
    return report.decision, {(finding.path, finding.rule) for _, _, finding in report.findings()}


A = made("A", total=(0, ()))
B = made("A", amount=(0, ("total",)))
C = made("A", sum=(0, ("amount",)))


def test_a_renamed_field_keeps_its_values_on_the_way_back():
    assert (Decision.START, {("$.total", "REC-6")}) == back(A, B)


def test_a_field_that_was_renamed_twice_does_too():
    assert (Decision.START, {("$.total", "REC-6")}) == back(A, B, C)


def test_a_revision_between_that_dropped_the_field_ends_the_way():
    decision, found = back(A, made("A", other=(0, ())), C)

    assert Decision.MIGRATE is decision
    assert {("$.total", "REC-2"), ("$.sum", "REC-4")} == found


def test_a_new_field_under_the_old_name_is_the_field_by_name():
    """Fields pair by name before aliases, as on the way forward."""
    other = made("A", total=(0, ()), amount=(0, ("total",)))

    assert {("$.amount", "REC-4")} == back(A, other)[1]


def test_a_name_that_another_field_has_is_not_taken_twice():
    one = made("A", a=(0, ()), b=(0, ()))
    other = made("A", b=(0, ("a",)))

    assert {("$.a", "REC-2")} == back(one, other)[1]


def test_a_renamed_class_is_the_same_on_the_way_back():
    other = made("Other", aliases=[f"{A.__module__}.{A.__qualname__}"], total=(0, ()))

    assert (Decision.START, {("$", "REC-11")}) == back(A, other)


def test_a_class_that_is_not_said_to_be_the_same_is_refused():
    assert Decision.REFUSE is back(A, made("Other", total=(0, ())))[0]


@pytest.mark.parametrize("kind", [ValueStateDescriptor, ListStateDescriptor, MapStateDescriptor])
@pytest.mark.parametrize("of", [
    lambda value: list[value], lambda value: dict[str, value], lambda value: tuple[int, value],
    lambda value: value | None, lambda value: made("Outer", inner=(value(), ())),
], ids=["list", "map", "tuple", "optional", "record"])  # fmt: skip
def test_names_are_followed_into_every_container(kind, of):
    decision, found = back(of(A), of(B), kind=kind)

    assert Decision.START is decision
    assert {"REC-6"} == {rule for _, rule in found} - {"OPT-5"}


def test_renamed_symbols_of_an_enum_are_the_same_on_the_way_back():
    one = enum.Enum("Level", ["LOW", "HIGH"], module=__name__)
    other = enum_options(symbol_aliases={"TOP": ("HIGH",)})(enum.Enum("Level", ["LOW", "TOP"], module=__name__))

    decision, found = back(one, other)

    assert Decision.REFUSE is not decision
    assert "ENUM-6" in {rule for _, rule in found}
