"""PyFlink's configuration: typed values by key."""

import pytest

from stateshift import DeclarationError
from stateshift.pyflink.common import Configuration


def test_values_are_kept_as_text():
    made = Configuration().set_string("a", "x").set_integer("b", 2).set_boolean("c", True).set_float("d", 0.5)

    assert {"a": "x", "b": "2", "c": "true", "d": "0.5"} == made.to_dict()
    assert ("x", 2, True, 0.5) == (
        made.get_string("a", ""), made.get_integer("b", 0), made.get_boolean("c", False), made.get_float("d", 0.0)
    )  # fmt: skip
    assert 7 == made.get_integer("none", 7)


def test_a_value_of_another_type_is_refused():
    with pytest.raises(DeclarationError, match="b is 'x', which is no int"):
        Configuration.from_dict({"b": "x"}).get_integer("b", 0)


def test_configurations_are_joined_and_copied():
    one = Configuration.from_dict({"a": "1"})
    other = Configuration(one).add_all(Configuration.from_dict({"b": "2"}), "p.")

    assert {"a", "p.b"} == other.key_set()
    assert (True, False, False) == (other.remove_config("a"), other.remove_config("a"), other.contains_key("a"))
    assert Configuration.from_dict({"a": "1"}) == one
