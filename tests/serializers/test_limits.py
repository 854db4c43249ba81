"""What does not fit into the format is refused with advice."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stateshift import DataInputView, DataOutputView, DeclarationError, ValueNotConvertible
from stateshift.serializers import limits
from stateshift.serializers.limits import require_name, require_room
from stateshift.serializers.views import MAX_NAME_BYTES


def test_the_length_of_a_value_is_a_signed_int():
    require_room(2**31 - 1)
    with pytest.raises(ValueNotConvertible, match="2,147,483,648 bytes"):
        require_room(2**31)
    assert 2**31 - 1 == limits.MAX_VALUE_BYTES


FIT = ["a" * 65535, "é" * 32767, "日" * 21845, "😀" * 10922]
TOO_LONG = ["a" * 65536, "é" * 32768, "\0" * 32768, "日" * 21846, "😀" * 10923]


@pytest.mark.parametrize(("name", "fits"), [*((name, True) for name in FIT), *((name, False) for name in TOO_LONG)])
def test_names_are_measured_in_modified_utf8_when_declared_and_when_written(name, fits):
    target = DataOutputView()
    if fits:
        require_name(name, "a state")
        target.write_utf(name)
        assert name == DataInputView(target.getvalue()).read_utf()
        return
    with pytest.raises(DeclarationError, match=r"the name of a state takes 65,53[6-8] bytes, but the format allows"):
        require_name(name, "a state")
    with pytest.raises(ValueNotConvertible, match=r"a name takes 65,53[6-8] bytes, but the format allows 65,535"):
        target.write_utf(name)


@given(st.text(max_size=300))
def test_short_names_always_fit(name):
    require_name(name, "a state")
    assert len(name) * 6 < MAX_NAME_BYTES
