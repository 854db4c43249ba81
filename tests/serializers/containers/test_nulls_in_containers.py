"""Nulls in maps, sets, arrays and rows, of which snapshots say nothing (OPT-5)."""

from __future__ import annotations

from decimal import Decimal

import pytest

from stateshift import Array, Flag, Row, ValueNotConvertible, serializer_for


@pytest.mark.parametrize(
    ("optional", "required", "step", "value"),
    [
        (dict[str, int | None], dict[str, int], "{}", {"a": None}),
        (set[int | None], set[int], "[]", {None}),
        (Array[str | None], Array[str], "[]", ["a", None]),
        (Array[Decimal | None], Array[Decimal], "[]", [None]),
        (Row[int | None, str | None], Row[int, str | None], "(0)", Row(None, "a")),
    ],
)
def test_a_required_piece_says_that_a_null_may_be_stored(ask, write, read, optional, required, step, value):
    was, becomes = serializer_for(optional), serializer_for(required)
    told = (("$" + step, Flag.MAY_FAIL_PER_VALUE),)

    assert ask(becomes, was).is_compatible_as_is()
    assert ask(becomes, becomes).is_compatible_as_is()
    assert told == ask(becomes, was).flags == ask(becomes, becomes).flags
    assert not ask(was, becomes).flags
    with pytest.raises(ValueNotConvertible, match="null"):
        read(becomes, write(was, value))


def test_a_piece_that_changes_its_type_says_it_too(ask):
    flags = ask(serializer_for(dict[str, int]), serializer_for(dict[str, int | None])).flags

    assert {("${}", Flag.MAY_FAIL_PER_VALUE)} == set(flags)
