"""JSON forms without the tags that say a type: as keys are written, and as people read values."""

from __future__ import annotations

import datetime as dt
import json
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stateshift import DataInputView, DataOutputView, serializer_for
from stateshift.compat.testing.strategies import types, values_of
from stateshift.serializers.json_forms import tagger_of
from stateshift.serializers.plain_forms import bytes_of, exact_decimal, moment_of, plain, value_text
from stateshift.serializers.snapshot import snapshot_from_bytes, snapshot_to_bytes


@given(st.data())
def test_the_plain_form_of_every_value_is_json_and_its_own_plain_form_and_has_a_text_of_one_line(data):
    serializer = serializer_for(data.draw(types()))
    snapshot = snapshot_from_bytes(snapshot_to_bytes(serializer.snapshot_configuration()))
    target = DataOutputView()
    serializer.serialize(data.draw(values_of(serializer)), target)
    form = tagger_of(snapshot)(snapshot.restore_serializer().deserialize(DataInputView(target.getvalue())))

    once = plain(json.loads(json.dumps(form)))

    assert json.dumps(plain(once)) == json.dumps(once)
    assert value_text(form).isprintable()


@pytest.mark.parametrize(
    ("form", "expected", "text"),
    [
        ({"$pojo": {"class": "a.b$C", "fields": {"x": 1, "y": "z"}}}, {"x": 1, "y": "z"}, 'C{"x": 1, "y": "z"}'),
        ({"$row": {"fields": [1, None], "kind": "INSERT"}}, [1, None], "[1, null]"),
        ({"$sqlrow": {"fields": {"a": 2.0}, "kind": "-D"}}, {"a": 2}, '-D {"a": 2.0}'),
        ({"$map": [[1, "a"], [{"$tuple": [2]}, None]]}, {"$map": [[1, "a"], [[2], None]]}, '{1: "a", [2]: null}'),
        ({"$map": "of its user"}, {"$map": "of its user"}, '{"$map": "of its user"}'),
        ({"$set": ["a", "b"]}, {"$set": ["a", "b"]}, '["a", "b"]'),
        ({"$left": {"$enum": "HIGH"}}, {"$left": "HIGH"}, "left HIGH"),
        ({"$bytes": "00ff"}, "0x00ff", "0x00ff"),
        ({"$bytes": "none"}, {"$bytes": "none"}, '{"$bytes": "none"}'),
        ({"$decimal": ["123456789012345678901234567890123456", 2]}, *["1234567890123456789012345678901234.56"] * 2),
        ({"$bigint": "12345678901234567890"}, 12345678901234567890, "12345678901234567890"),
        ({"$double": "NaN"}, {"$double": "NaN"}, "NaN"),
        ({"$instant": [-1, 500_000_000]}, *["1969-12-31T23:59:59.500Z"] * 2),
        ({"$instant": [1 << 60, 0]}, {"$instant": [1 << 60, 0]}, '{"$instant": [1152921504606846976, 0]}'),
        ({"$timestamp": [1001, 7]}, *["1970-01-01T00:00:01.001000007"] * 2),
        ({"$sqltimestamp": [1001, 1_000_007]}, *["1970-01-01T00:00:01.001000007Z"] * 2),
        ({"$localdate": [2026, 1, 2]}, *["2026-01-02"] * 2),
        ({"$localdatetime": [2026, 1, 2, 3, 4, 5, 0]}, *["2026-01-02T03:04:05"] * 2),
        ({"$window": [0, 60_000]}, {"$window": [0, 60_000]}, "1970-01-01T00:00:00Z to 1970-01-01T00:01:00Z"),
        ({"$window": [0, (1 << 63) - 1]}, {"$window": [0, (1 << 63) - 1]},
         "1970-01-01T00:00:00Z to +292278994-08-17T07:12:55.807Z"),
        ({"$opaque": "a\x1b[31m"}, {"$opaque": "a\x1b[31m"}, r"a\u001b[31m"),
    ],
)  # fmt: skip
def test_tags_that_the_type_says_are_left_out(form, expected, text):
    assert (plain(form), value_text(form)) == (expected, text)


def test_long_texts_lists_and_maps_are_cut_and_say_how_long_they_are_and_records_are_whole():
    form = {"$pojo": {"class": "C", "fields": {
        "text": "abcdef", "list": [1, 2, 3, 4, 5], "map": {"$map": [[1, "x"]] * 5}, "bytes": {"$bytes": "00" * 9}
    }}}  # fmt: skip

    assert value_text(form, 4) == (
        'C{"text": "abcd…" (6 characters), "list": [1, 2, 3, 4, … 1 more],'
        ' "map": {1: "x", 1: "x", 1: "x", 1: "x", … 1 more}, "bytes": 0x00… (20 characters)}'
    )
    assert value_text(form, 99) == value_text(form)


def test_what_is_shown_of_a_value_can_be_written():
    assert exact_decimal("123456789012345678901234567890123456", 2) == Decimal("1234567890123456789012345678901234.56")
    assert bytes_of("0x00ff") == b"\0\xff"
    for text in ("2026-01-01T01:00:00.5+01:00", "2026-01-01 00:00:00.500", "2026-01-01T00:00:00.500000000Z"):
        assert moment_of(text) == (int(dt.datetime(2026, 1, 1, tzinfo=dt.UTC).timestamp()), 500_000_000)
    for wrong in ("00ff", "0xf", "yesterday"):
        with pytest.raises(ValueError, match=r"0x|hexadecimal|yesterday"):
            (bytes_of if wrong[0] == "0" else moment_of)(wrong)
