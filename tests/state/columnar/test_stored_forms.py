"""Values that rows replace keep the form that they had, where columns have less of them than their bytes."""

from __future__ import annotations

from decimal import Decimal

import attrs
import pyarrow as pa
import pytest
from writing import bytes_of, refused, values, write

from stateshift import (
    DeclarationError,
    Job,
    ListStateDescriptor,
    MapStateDescriptor,
    Operator,
    Savepoint,
    SavepointWriter,
    ValueNotConvertible,
    ValueStateDescriptor,
)
from stateshift.state.columnar.table import StateTable
from stateshift.state.savepoint.verify import verify

AMOUNTS = [Decimal("1.50"), Decimal("0E+3"), Decimal(-7), Decimal("2.5E+2"), Decimal("0.000"), Decimal("12345.6789")]


@attrs.frozen
class Cart:
    owner: str
    total: Decimal
    parts: list[Decimal]
    rates: dict[str, Decimal]
    best: Decimal | None
    tags: set[str]


@attrs.frozen
class Seen:
    """Not a Flink type, so that any key will do with it."""

    at: int


CARTS = {
    number: Cart(f"o{number}", amount, [amount, Decimal("3.10")], {"a": amount, "b": Decimal(4)},
                 amount if number % 2 else None, {f"t{tag}" for tag in range(number)})
    for number, amount in enumerate(AMOUNTS)
}  # fmt: skip
JOB = Job([
    Operator("o", key=int, states=[
        ValueStateDescriptor("s", Cart),
        ListStateDescriptor("l", Decimal),
        MapStateDescriptor("m", str, Decimal),
        MapStateDescriptor("by", Decimal, str),
        MapStateDescriptor("big", int, int),
    ]),
    Operator("keyed", key=Decimal, states=[ValueStateDescriptor("s", Seen)]),
])  # fmt: skip


@pytest.fixture
def base(tmp_path):
    with SavepointWriter(tmp_path / "base", JOB, max_parallelism=4) as writer:
        for number, cart in CARTS.items():
            writer.put("o", "s", number, cart)
            writer.put("o", "l", number, [cart.total, Decimal("9.90"), Decimal(1)])
            writer.put("o", "m", number, {"a": cart.total, "b": Decimal("1.0")})
            writer.put("o", "by", number, {cart.total: "x"})
            writer.put("keyed", "s", cart.total, Seen(number))
    return Savepoint.open(tmp_path / "base")


def rows_of(savepoint, state, operator="o", **how):
    table = StateTable.of(savepoint.operator(operator), state, **how)
    return pa.Table.from_batches([batch for piece in table.slices(2) for batch in table.read(piece)], table.schema)


def changed(rows, change):
    """Change each value, as Python has it."""
    found = [change(value) for value in rows["value"].to_pylist()]
    field = rows.schema.field("value")
    return rows.set_column(rows.schema.get_field_index("value"), field, pa.array(found, field.type))


def told(savepoint, state="s"):
    return next(count for count in savepoint.lineage.states if count.state == state and count.action == "write")


@pytest.mark.parametrize("state", ["s", "l", "m"])
def test_what_is_not_changed_keeps_its_bytes(tmp_path, base, state):
    rows = rows_of(base, state)

    found = write(tmp_path / "new", rows, state=state, base=base.place, overwrite=True)

    assert bytes_of(base) == bytes_of(found)
    assert 0 == told(found, state).rescaled
    assert verify(found).ok


def test_a_field_that_changes_leaves_the_others_of_its_record_as_they_were(tmp_path, base):
    rows = changed(rows_of(base, "s"), lambda cart: cart | {"owner": "new"})

    found = values(write(tmp_path / "new", rows, base=base.place, overwrite=True))

    for number, cart in CARTS.items():
        assert repr(attrs.evolve(cart, owner="new", tags=frozenset(cart.tags)).total) == repr(found[number].total)
        assert repr(cart.parts) == repr(found[number].parts)
        assert repr(cart.rates) == repr(found[number].rates)
        assert ("new", repr(cart.best)) == (found[number].owner, repr(found[number].best))


def test_a_decimal_that_changes_keeps_its_scale_where_it_can_and_is_counted_where_not(tmp_path, base):
    rows = changed(rows_of(base, "m"), lambda amount: amount + Decimal("0.25"))

    found = write(tmp_path / "new", rows, state="m", base=base.place, overwrite=True)

    expected = ["1.75", "0.25", "-6.75", "250.25", "0.250", "12345.9289"]
    items = values(found, state="m")
    assert expected == [str(items[number]["a"]) for number in CARTS]
    assert {"1.25"} == {str(items[number]["b"]) for number in CARTS}
    assert 3 + len(CARTS) == told(found, "m").rescaled
    assert verify(found).ok


def test_elements_that_go_at_the_begin_and_others_at_the_end_leave_the_rest_as_it_was(tmp_path, base):
    rows = rows_of(base, "l")
    less = write(tmp_path / "l", changed(rows, lambda one: one[1:]), state="l", base=base.place, overwrite=True)
    more = write(tmp_path / "m", changed(rows, lambda one: [*one, one[0]]), state="l", base=base.place, overwrite=True)

    assert {"[Decimal('9.90'), Decimal('1')]"} == {repr(items) for items in values(less, state="l").values()}
    for number, items in values(more, state="l").items():
        assert repr([AMOUNTS[number], Decimal("9.90"), Decimal(1)]) == repr(items[:3])


def test_what_is_replaced_may_be_of_another_column(tmp_path, base):
    rows = pa.table({"key": [0, 1], "user_key": ["a", "a"], "value": pa.array([Decimal("1.5"), Decimal(7)])})

    found = values(write(tmp_path / "new", rows, state="m", base=base.place, overwrite=True), state="m")

    assert {0: "{'a': Decimal('1.50')}", 1: "{'a': Decimal('7')}"} == {key: repr(one) for key, one in found.items()}


def test_the_exact_form_is_written_as_it_is_read(tmp_path, base):
    rows = rows_of(base, "m", exact=True)
    assert pa.string() == rows.schema.field("value").type

    found = write(tmp_path / "new", rows, state="m", base=base.place, overwrite=True)
    alone = write(tmp_path / "alone", rows.drop_columns(["key_group"]), state="m", job=JOB)

    assert bytes_of(base) == bytes_of(found)
    assert repr(values(base, state="m")) == repr(
        {key: values(alone, state="m")[key] for key in values(base, state="m")}
    )
    big = pa.table({"key": [1], "user_key": pa.array(["7"]), "value": ["1" * 60]})
    refused(DeclarationError, "is a string", target=tmp_path / "big", rows=big, state="big", job=JOB)
    for text in ("twelve", "1_000", "NaN", "1E+99999999999999999999", "\u0661"):
        bad = pa.table({"key": [1], "user_key": ["a"], "value": [text]})
        refused(ValueNotConvertible, "not such a number", target=tmp_path / text, rows=bad, state="m", job=JOB)


@pytest.mark.parametrize(("operator", "state"), [("keyed", "s"), ("o", "by")])
def test_keys_with_a_scale_that_a_column_does_not_have_are_refused(tmp_path, base, operator, state):
    arguments = {"operator": operator, "state": state, "base": base.place, "overwrite": True}

    refused(DeclarationError, "different keys would be written", target=tmp_path / "no",
            rows=rows_of(base, state, operator), **arguments)  # fmt: skip
    assert not (tmp_path / "no").exists()
    assert bytes_of(base) == bytes_of(write(tmp_path / "new", rows_of(base, state, operator, exact=True), **arguments))
