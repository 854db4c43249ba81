"""What a page on a check shows first."""

from __future__ import annotations

import re

import attrs

from stateshift import Int32, Job, Operator, ValueStateDescriptor, record
from stateshift.compat.check import check
from stateshift.compat.pages.check import check_pieces


@record()
@attrs.frozen
class Order:
    number: Int32


@record(aliases=[f"{__name__}.Order"])
@attrs.frozen
class NewOrder:
    number: int


def worst_of(old, new):
    before, after = (
        Job([Operator("orders", key=str, states=[ValueStateDescriptor("order", of)])]).describe() for of in (old, new)
    )
    html = "".join(map(str, check_pieces(check(before, after))))
    (listed,) = re.findall('<ol class="worst">(.*?)</ol>', html, re.DOTALL)
    return [re.sub(r"\s+", " ", re.sub("<[^>]*>", " ", one)).strip() for one in listed.split("<li class=")[1:]]


def test_changes_without_a_way_back_are_among_the_worst_findings():
    *lost, last = worst_of(Order, NewOrder)

    assert [one.startswith('"warn"> no way back orders/order') for one in lost] == [True, True]
    assert "$.number long → int a stored long may not fit an int" in lost[1]
    assert "migrate orders/order $.number int → long" in last
