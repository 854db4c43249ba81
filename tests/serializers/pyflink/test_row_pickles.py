"""Rows and tuples of thread mode: the pickles of real PyFlink, opened and written again as the same bytes."""

import datetime as dt
from decimal import Decimal

import pytest

from stateshift import Row, Savepoint, ValueNotConvertible
from stateshift.pyflink.common import RowKind, Types
from stateshift.serializers.errors import UntrustedCode
from stateshift.serializers.pyflink import coder_for
from stateshift.serializers.pyflink.contents import PyFlinkPickle
from stateshift.serializers.pyflink.row_pickles import opened, pickled

LONG, STRING = Types.LONG(), Types.STRING()
STORED = {
    ("types-thread", "types", "row"): Types.ROW_NAMED(["a", "b"], [LONG, STRING]),
    ("types-thread", "types", "tuple"): Types.TUPLE([STRING, Types.INT()]),
    ("values-thread", "keeps", "mean"): Types.TUPLE([LONG, LONG]),
    ("values-thread", "keeps", "last"): Types.ROW_NAMED(["at", "text"], [LONG, STRING]),
}


@pytest.mark.parametrize(("place", "declared"), STORED.items(), ids=[name for _, _, name in STORED])
def test_pickles_of_pyflink_are_written_again(root, read, write, place, declared):
    fixture, uid, name = place
    savepoint = Savepoint.open(root / "tests/fixtures/pyflink-2.3" / fixture / "savepoint")
    serializer = PyFlinkPickle(coder_for(declared))
    for entry in savepoint.operator(uid).state(name).read_entries():
        framed = len(entry.value).to_bytes(4, "big") + entry.value
        assert framed == write(serializer, read(serializer, framed))


@pytest.mark.parametrize(
    "value",
    [
        Row.of_kind(RowKind.UPDATE_AFTER, 1, None),
        Row(a=1, b=Row("x", [1, 2])),
        (1, ("é", None, {"k": Decimal("1.5")})),
        (dt.date(2026, 1, 2), dt.datetime(2026, 1, 2, 3)),  # noqa: DTZ001 - in no time zone
    ],
    ids=["kind", "names", "tuple", "dates"],
)
def test_values_come_back(value):
    found = opened(pickled(value))

    assert value == found
    assert repr(value) == repr(found)


@pytest.mark.parametrize("data", [b"\x80\x04cos\nsystem\n\x8c\x04true\x85R.", b"\x80\x04cpyflink.common\nRow\n)R."])
def test_other_names_are_refused(data):
    with pytest.raises(UntrustedCode):
        opened(data)


@pytest.mark.parametrize("value", [(1, "x"), Row(1), [1]], ids=repr)
def test_a_value_of_another_type_does_not_fit(read, value):
    data = pickled(value)
    with pytest.raises(ValueNotConvertible, match="bytes of PyFlink do not hold"):
        read(PyFlinkPickle(coder_for(Types.TUPLE([STRING, LONG]))), len(data).to_bytes(4, "big") + data)
