"""What a message shows of a value."""

from __future__ import annotations

from stateshift.serializers.errors import shown


def test_a_long_value_is_shortened():
    assert shown("x" * 200) == "'" + "x" * 78 + "…"


def test_an_integer_that_python_refuses_to_write_is_reported_by_its_type():
    assert shown(10**5000) == "<int with an integer of thousands of digits>"
    assert shown([10**5000]) == "<list with an integer of thousands of digits>"
