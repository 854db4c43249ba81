"""Counts and articles in texts for people."""

from __future__ import annotations

import pytest

from stateshift.serializers.wording import many, one


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ((0, "state"), "0 states"),
        ((1, "state"), "1 state"),
        ((9_996, "state"), "9,996 states"),
        ((1, "entry", "entries"), "1 entry"),
        ((1_234_567, "entry", "entries"), "1,234,567 entries"),
        ((1, "file is", "files are"), "1 file is"),
    ],
)
def test_a_count_has_separators_and_its_noun_the_right_number(words, expected):
    assert expected == many(*words)


def test_a_word_has_its_article():
    assert ["a long", "an int", "an instant", "a decimal"] == [
        one(what) for what in ("long", "int", "instant", "decimal")
    ]
