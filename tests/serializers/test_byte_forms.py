"""Forms of bytes: what is written by a table of fields is read by it, and bounded where it is damaged."""

from __future__ import annotations

import attrs
import pytest

from stateshift import CorruptSavepoint, DataInputView, DataOutputView
from stateshift.serializers.byte_forms import (
    BOOLEAN,
    BYTE,
    INT,
    SHORT,
    UTF,
    checked,
    made,
    many,
    marked,
    optional,
    several,
    stepped,
    utf8,
)


@attrs.frozen
class Place:
    name: str
    size: int


PLACE = made(Place, {"name": UTF, "size": checked(INT, lambda size: size >= 0, "{} is no size")})
PLACES = many(PLACE, "places", apart="name")


def written(form, value):
    target = DataOutputView()
    form.write(target, value)
    return target.getvalue()


@pytest.mark.parametrize(
    ("form", "value", "data"),
    [
        (PLACE, Place("a", 1), "0001 61 00000001"),
        (PLACES, (Place("a", 1), Place("b", 2)), "00000002 0001 61 00000001 0001 62 00000002"),
        (many(BYTE, "bytes", number=SHORT), (1, 2), "0002 01 02"),
        (optional(BOOLEAN, INT), None, "00"),
        (optional(BOOLEAN, INT), 3, "01 00000003"),
        (marked(0x4D, "the mark", several(BYTE, BYTE)), (1, 2), "0000004d 01 02"),
        (utf8("a text"), "ä", "00000002 c3a4"),
    ],
)
def test_what_a_form_writes_it_reads(form, value, data):
    data = bytes.fromhex(data)

    assert data == written(form, value)
    assert value == form.read(DataInputView(data))
    assert form.least <= len(data)


@pytest.mark.parametrize(
    ("form", "data", "message"),
    [
        (PLACE, "0001 61 ffffffff", "-1 is no size"),
        (PLACES, "7fffffff", "2147483647 places are declared, but only 0 bytes"),
        (PLACES, "00000002 0001 61 00000001 0001 61 00000002", "two places have the same name"),
        (marked(0x4D, "the mark", BYTE), "0000004e 00", "the mark should be 0x4d"),
        (utf8("a text"), "00000001 c3", "a text is not UTF-8"),
    ],
)
def test_what_does_not_fit_is_corrupt(form, data, message):
    with pytest.raises(CorruptSavepoint, match=message):
        form.read(DataInputView(bytes.fromhex(data)))


def test_an_error_names_the_step_to_its_part():
    with pytest.raises(CorruptSavepoint) as caught:
        stepped("<key>", PLACE).read(DataInputView(b""))

    assert "$<key>" == caught.value.where["path"]
