"""Two types as one tree, with what is found on each place."""

from __future__ import annotations

from typing import Annotated

import attrs
import pytest

from stateshift import Field, Int32, record, serializer_for
from stateshift.compat.type_tree import Mark, type_tree


@record(aliases=["shop.Line"])
@attrs.frozen
class Line:
    price: Int32


@record(aliases=["shop.Line"])
@attrs.frozen
class NewLine:
    price: int
    note: str = ""


@record(aliases=["shop.Order"])
@attrs.frozen
class Order:
    number: int
    owner: str
    legacy: str
    lines: list[Line]


@record(aliases=["shop.Order", f"{__name__}.Order"])
@attrs.frozen
class NewOrder:
    number: int
    name: Annotated[str, Field(aliases=["owner"])]
    lines: list[NewLine]


def tree_of(old, new):
    before, after = serializer_for(old), serializer_for(new)
    findings = after.ensure_compatibility(before.snapshot_configuration()).findings
    return type_tree(before.snapshot_configuration(), after.snapshot_configuration(), findings)


@pytest.fixture(scope="module")
def tree():
    return tree_of(Order, NewOrder)


def by_name(node):
    return {child.name: child for child in node.children}


def test_fields_stand_side_by_side_and_a_renamed_one_is_one_place(tree):
    fields = by_name(tree)

    assert {name: str(node.mark) for name, node in fields.items()} == {
        "number": "same",
        "name": "renamed",
        "legacy": "gone",
        "lines": "changed",
    }
    assert (fields["name"].was, fields["name"].old, fields["name"].new) == ("owner", "string", "string")
    assert (fields["legacy"].old, fields["legacy"].new) == ("string", "")


def test_the_fields_of_elements_are_those_of_their_list(tree):
    lines = by_name(by_name(tree)["lines"])

    assert {name: (str(node.mark), node.old, node.new) for name, node in lines.items()} == {
        "price": ("changed", "int", "long"),
        "note": ("new", "", "string"),
    }


def test_a_finding_stands_at_its_place_and_at_no_other(tree):
    lines = by_name(by_name(tree)["lines"])

    assert [one.rule for one in lines["price"].findings] == ["PRIM-2"]
    assert [one.rule for one in lines["note"].findings] == ["REC-2"]
    assert [one.rule for one in by_name(tree)["legacy"].findings] == ["REC-4"]
    assert not {"PRIM-2", "REC-2", "REC-4"} & {one.rule for one in tree.findings}


def test_equal_types_are_the_same_all_through():
    tree = tree_of(Order, Order)

    assert tree.is_same
    assert tree.mark is Mark.SAME
    assert by_name(tree).keys() == {"number", "owner", "legacy", "lines"}


def test_a_side_that_is_missing_makes_everything_new():
    tree = type_tree(None, serializer_for(Order).snapshot_configuration())

    assert {child.mark for child in tree.children} == {Mark.ADDED}


def test_a_type_that_contains_itself_ends():
    tree = tree_of(Node, Node)

    assert by_name(tree).keys() == {"value", "following"}


@record()
@attrs.frozen
class Node:
    value: int
    following: Node | None = None
