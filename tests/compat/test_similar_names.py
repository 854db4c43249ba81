"""Names that are alike are found among many at once: the same ones that difflib finds one by one."""

from __future__ import annotations

from difflib import SequenceMatcher
from hashlib import sha256

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from stateshift.compat.one_sided_states import SimilarNames

NAMES = st.one_of(
    st.text(st.sampled_from("ab-"), max_size=20),
    st.text(st.sampled_from("account-balncex "), max_size=30),
    st.text(st.characters(codec="utf-16"), max_size=12),
    st.integers(0, 130).map(lambda count: "long" * count),
    st.sampled_from(
        ["account-balance", "balance-of-accounts", "balances", "żółw", "zolw", "\0 ", "a" * 100, "a" * 101]
    ),
)


def one_by_one(name, names):
    return [index for index, one in enumerate(names) if SequenceMatcher(a=one, b=name).ratio() >= 0.6]


@given(st.lists(NAMES, max_size=12), NAMES)
@example([], "")
@example(["", "a"], "")
@example(["b" * 8, "a" * 8, "b" * 8], "b" * 8)
@example(["abcdefgh", "hgfedcba"], "abcdefgh")
@example(["ź" * 5, "z" * 5], "ź" * 5)
def test_names_are_found_that_difflib_takes_for_similar(names, name):
    assert one_by_one(name, names) == list(SimilarNames(names).like(name))


@pytest.mark.parametrize("former", ["old-state-{}", "{}-of-all", "{digest}"])
def test_names_that_look_alike_by_chance_are_told_apart_as_by_difflib(former):
    names = [former.format(one, digest=sha256(str(one).encode()).hexdigest()[:32]) for one in range(60)]
    similar = SimilarNames(names)

    for name in ("old-states-17", "17-of-a11", sha256(b"x").hexdigest()[:32], names[30], names[31][::-1]):
        assert one_by_one(name, names) == list(similar.like(name))
