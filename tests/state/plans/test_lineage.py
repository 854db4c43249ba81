"""What expressions of a plan are in words: equal where values are, and short enough to be read."""

import pytest

from stateshift.state.plans.lineage import expression_text

OPEN, CLOSED = "OPEN", "CLOSED"


def end(value, bound):
    return {"value": value, "boundType": bound}


@pytest.mark.parametrize(
    ("sarg", "words"),
    [
        (
            {"nullAs": "TRUE", "ranges": [{"upper": end("a", OPEN)}, {"lower": end("a", OPEN)}]},
            "{NULL, (-∞, 'a'), ('a', ∞)}",
        ),
        ({"nullAs": "UNKNOWN", "ranges": [{"lower": end(5, CLOSED), "upper": end(9, OPEN)}]}, "{[5, 9)}"),
        ({"nullAs": "FALSE", "ranges": [{"lower": end(5, CLOSED), "upper": end(5, CLOSED)}]}, "{not NULL, 5}"),
        ({"nullAs": "UNKNOWN", "ranges": []}, "{}"),
    ],
)
def test_a_search_is_the_set_of_its_values(sarg, words):
    assert words == expression_text({"kind": "LITERAL", "sarg": sarg, "type": "INT NOT NULL"}, ())
