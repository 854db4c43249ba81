"""Types, values of a type, and evolutions of a type, as hypothesis draws them for the tests of others."""

from __future__ import annotations

import dataclasses
import enum
from typing import Annotated, NamedTuple

import attrs
import pytest
from hypothesis import HealthCheck, Phase, find, given, settings
from hypothesis import strategies as st
from hypothesis.vendor.pretty import pretty

from stateshift import (
    Array,
    BigInt,
    Either,
    Field,
    Instant,
    Int8,
    Int16,
    Int32,
    JavaDate,
    LocalDate,
    PickleSerializer,
    Right,
    Row,
    SqlTimestamp,
    StateShiftError,
    ValueNotConvertible,
    Verdict,
    enum_options,
    record,
    row_of,
    serializer_for,
)
from stateshift.compat.testing import V1, V2, assert_migrates
from stateshift.compat.testing.strategies import Evolution, evolutions, types, values_of
from stateshift.compat.testing.values import read, written
from stateshift.serializers.snapshot import snapshot_from_bytes, snapshot_to_bytes

repeatable = settings(
    deadline=None,
    derandomize=True,
    database=None,
    max_examples=150,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much],
)
many = settings(repeatable, max_examples=3000, phases=[Phase.generate])


@enum_options(symbol_aliases={"SENT": ("POSTED",)}, default="OPEN")
class Status(enum.Enum):
    OPEN = "open"
    SENT = "sent"


@attrs.frozen
class Line:
    _price: BigInt
    status: Status = Status.OPEN


@record(aliases=("shop.OldOrder",), retired=("color",))
@dataclasses.dataclass(frozen=True)
class Order:
    number: Annotated[int, Field(name="id", aliases=("nr",))]
    lines: list[Line]
    notes: dict[str, str | None] = dataclasses.field(default_factory=dict)


class Point(NamedTuple):
    x: float
    y: float | None = None


@attrs.frozen
class Tree:
    value: int
    left: Tree | None = None
    right: Tree | None = None


def round_trip(serializer, value):
    return read(serializer, written(serializer, value))


@given(st.data())
@repeatable
def test_every_drawn_type_has_values_that_come_back(data):
    hint = data.draw(types())
    value = data.draw(values_of(hint))

    assert value == round_trip(serializer_for(hint), value)


@given(st.data())
@repeatable
def test_values_of_hashable_types_are_keys(data):
    value = data.draw(values_of(data.draw(types(hashable=True))))

    assert value in {value: 1}


@given(types(max_depth=0))
@repeatable
def test_types_without_depth_have_no_parts(hint):
    assert "<" not in serializer_for(hint).describe()


@pytest.mark.parametrize(
    "kind", ["long", "string", "bytes", "decimal", "local datetime", "optional<", "enum", "list<", "set<", "map<",
             "tuple<", "drawn.Item"]
)  # fmt: skip
def test_each_family_is_drawn(kind):
    hint = find(types(), lambda hint: serializer_for(hint).describe().startswith(kind), settings=many)

    assert serializer_for(hint).describe().startswith(kind)


@pytest.mark.parametrize(
    "hint",
    [Order, Line, Point, Tree, Status, V1(), Array[Int32], Array[str | None], Array[Line], Either[int, str], None,
     Row[int, str | None], row_of({"order total": float}), Instant, LocalDate, JavaDate, SqlTimestamp, set[int | None]],
    ids=lambda hint: serializer_for(hint).describe(),
)  # fmt: skip
def test_values_of_declared_types_and_serializers_come_back(hint):
    serializer = serializer_for(hint)
    own = {V1: st.integers(0, 9)}

    @given(values_of(hint, own=own))
    @settings(repeatable, max_examples=20)
    def come_back(value):
        assert value == round_trip(serializer, value)

    come_back()


def test_generic_readers_have_values_too():
    snapshot = snapshot_from_bytes(snapshot_to_bytes(serializer_for(Order).snapshot_configuration()))
    reader = snapshot.restore_serializer()

    value = find(values_of(reader), lambda order: order.lines, settings=many)

    assert value == round_trip(reader, value)
    assert "OPEN" == value.lines[0].status.name


def test_a_tree_has_branches():
    tree = find(values_of(Tree), lambda tree: tree.left and tree.left.right, settings=many)

    assert tree == round_trip(serializer_for(Tree), tree)


def test_values_of_a_serializer_that_is_not_known_are_asked_for():
    pickled = list[Annotated[object, PickleSerializer(Line)]]

    with pytest.raises(
        StateShiftError, match=r"there is no strategy for values of pickle[^$]*own=\{PickleSerializer: …\}"
    ):
        values_of(pickled)
    assert [7] == find(values_of(pickled, own={PickleSerializer: st.just(7)}), len)


BITS = {8: Int8, 16: Int16, 32: Int32, 64: int}
EDGES = {
    "empty text": (str, ""),
    "empty list": (list[int], []),
    "empty set": (frozenset[int], frozenset()),
    "empty map": (dict[str, int], {}),
    "None": (int | None, None),
    "an optional field without a value": (Point, Point(0.0, None)),
    "right": (Either[int, bool], Right(True)),
    **{f"symbol {one.name}": (Status, one) for one in Status},
    **{f"least of {bits} bits": (hint, -(1 << bits - 1)) for bits, hint in BITS.items()},
    **{f"most of {bits} bits": (hint, (1 << bits - 1) - 1) for bits, hint in BITS.items()},
}  # fmt: skip
WIDE = {
    "text beyond ASCII": (str, lambda value: not value.isascii()),
    "a big integer beyond 64 bits": (BigInt, lambda value: abs(value) > 1 << 64),
    "a double beyond a float": (float, lambda value: abs(value) > 3.5e38),
    "zero below zero": (float, lambda value: str(value) == "-0.0"),
}


@pytest.mark.parametrize("edge", [*EDGES, *WIDE])
def test_strategies_cover_edges(edge):
    """K14: empty containers, every symbol of an enum, None, extreme numbers, and text beyond ASCII are drawn."""
    if edge in EDGES:
        hint, expected = EDGES[edge]
        assert expected == find(values_of(hint), lambda value: value == expected, settings=many)
    else:
        hint, is_there = WIDE[edge]
        assert is_there(find(values_of(hint), is_there, settings=many))


@given(st.data())
@repeatable
def test_an_evolution_has_a_verdict_and_what_is_not_incompatible_migrates(data):
    hint = data.draw(types())
    _migrates_as_the_verdict_says(data, hint)


@pytest.mark.parametrize("hint", [Order, Point, Tree, Status, list[Line], Annotated[int, V1()]], ids=str)
def test_types_of_the_user_evolve(hint):
    @given(st.data())
    @settings(repeatable, max_examples=30)
    def evolve(data):
        _migrates_as_the_verdict_says(data, hint)

    evolve()


def _migrates_as_the_verdict_says(data, hint):
    """What a value becomes, the rules say; here it is that it becomes one, or that the error is about this value."""
    old, new = serializer_for(hint), data.draw(evolutions(hint))
    values = data.draw(st.lists(values_of(hint, own={V1: st.integers(0, 9)}), max_size=2))
    snapshot = snapshot_from_bytes(snapshot_to_bytes(old.snapshot_configuration()))

    assert new.changes
    assert all(change.startswith("$") for change in new.changes)
    if not serializer_for(new.hint).ensure_compatibility(snapshot).is_incompatible():
        try:
            assert_migrates(old, new.hint, values, expected=[Anything()] * len(values))
        except ValueNotConvertible as error:
            assert error.what  # noqa: PT017 - the value does not fit, as the check says of the type


class Anything:
    def __eq__(self, other):
        return True

    __hash__ = None


CHANGES = {
    "is called": Order,
    "is added, with a default": Order,
    "is added, without a default": Line,
    "is removed": Point,
    "with an alias": Order,
    "without an alias": Order,
    "are in the order": Order,
    "long becomes double": int,
    "double becomes float": float,
    "may be None": int,
    "is required": int | None,
    "the symbol SENT is removed, and OPEN is the default": Status,
    "the symbols are in the order SENT, OPEN": Status,
    "$.lines[].status: the symbol": Order,
    "$.lines[].status: enum": Order,
    "$<key>: string becomes": dict[str, int],
    "becomes a list of it": str,
    "an item is added": tuple[int, str],
    "the last item is removed": tuple[int, str],
}


@pytest.mark.parametrize("words", CHANGES)
def test_each_change_is_drawn_and_reported(words):
    found = find(evolutions(CHANGES[words], most=1), lambda new: words in new.changes[0], settings=many)

    assert 1 == len(found.changes)


@pytest.mark.parametrize("verdict", [verdict for verdict in Verdict if "FALLBACK" not in verdict.name])
def test_each_verdict_is_drawn(verdict):
    old = snapshot_from_bytes(snapshot_to_bytes(serializer_for(Order).snapshot_configuration()))

    def answer(evolution):
        return serializer_for(evolution.hint).ensure_compatibility(old).verdict

    assert verdict is answer(find(evolutions(Order), lambda new: answer(new) is verdict, settings=many))


def test_what_was_declared_is_kept_in_a_changed_class():
    changed = find(evolutions(Order, most=1), lambda new: "is added, with" in new.changes[0], settings=many).hint
    old, new = serializer_for(Order), serializer_for(changed)

    assert (old.name, old.aliases, old.retired) == (new.name, new.aliases, new.retired)
    fields = {field.name: field for field in new.fields}
    assert ("nr",) == fields["id"].aliases
    assert {} == fields["notes"].default.factory()


def test_the_same_draw_has_the_same_state():
    """Classes made on the fly have names that do not depend on when they are made."""
    wanted = lambda hint: serializer_for(hint).describe().startswith("drawn.Item") and "Kind" in str(attrs.fields(hint))  # noqa: E731
    first, second = (find(types(), wanted, settings=many) for _ in range(2))

    assert first is not second
    assert_migrates(first, second, [], verdict=Verdict.COMPATIBLE)


def test_an_evolution_is_a_pair():
    hint, changes = Evolution(int, ("$: short becomes long",))

    assert (int, ("$: short becomes long",)) == (hint, changes)


def test_parts_whose_answer_is_known_evolve_into_others():
    assert V2() != find(evolutions(Annotated[int, V1()], most=1), lambda new: "becomes" in new.changes[0]).hint


def test_records_are_printed_with_their_fields():
    """Hypothesis shows what was drawn when a test fails; a name alone would show nothing."""
    changed = find(evolutions(Point, most=1), lambda new: "$.y: is required" in new.changes, settings=many)

    assert "Point(x: double, y: double)" == repr(changed.hint) == pretty(changed.hint)
