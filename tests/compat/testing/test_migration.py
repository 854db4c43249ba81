"""A migration in one line of a test."""

from __future__ import annotations

import enum

import attrs
import pytest

from stateshift import Int32, Verdict
from stateshift.compat.testing import assert_migrates
from stateshift.serializers.primitives.numeric import IntSerializer, LongSerializer


def order(**fields):
    return attrs.make_class("Order", {name: attrs.field(type=hint, default=7) for name, hint in fields.items()})


@pytest.mark.parametrize(
    ("old", "new", "verdict"),
    [
        (int, int, Verdict.COMPATIBLE),
        (Int32, int, Verdict.REQUIRES_MIGRATION),
        (IntSerializer(), LongSerializer(), Verdict.REQUIRES_MIGRATION),
        (int, int | None, Verdict.REQUIRES_MIGRATION),
    ],
)
def test_values_that_stay_equal_need_no_expectation(old, new, verdict):
    assert verdict is assert_migrates(old, new, [1, -1], verdict=verdict).verdict


def test_a_reconfigured_copy_reads():
    old = enum.Enum("Level", "LOW HIGH", module=__name__)
    new = enum.Enum("Level", "NONE LOW HIGH", module=__name__)

    assert_migrates(old, new, list(old), expected=[new.LOW, new.HIGH], verdict=Verdict.COMPATIBLE_AFTER_RECONFIGURATION)


def test_values_become_what_is_expected():
    old, new = order(id=int), order(id=int, note=int)

    assert_migrates(old, new, [old(1)], expected=[new(1, 7)])
    with pytest.raises(AssertionError, match=r"Order\(id=1, note=8\) was expected"):
        assert_migrates(old, new, [old(1)], expected=[new(1, 8)])


def test_another_verdict_fails_with_the_findings():
    with pytest.raises(AssertionError, match=r"requires_migration: \$: every int fits a long.*\[PRIM-2\]"):
        assert_migrates(Int32, int, [1], verdict=Verdict.COMPATIBLE)


def test_what_is_incompatible_fails_unless_a_converter_decides():
    with pytest.raises(AssertionError, match="PRIM-4"):
        assert_migrates(str, int, ["1"])
    assert_migrates(str, int, ["1"], expected=[1], converter=int)


def test_too_few_expectations_are_reported():
    with pytest.raises(AssertionError, match="2 values are to become 1"):
        assert_migrates(Int32, int, [1, 2], expected=[1])
