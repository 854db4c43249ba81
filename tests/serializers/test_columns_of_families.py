"""Every built-in serializer has a column codec of its family, or a reason why it has none."""

from __future__ import annotations

import attrs
import built_in
import pyarrow as pa
import pytest

from stateshift.serializers.columns.scalars import NumberCodec
from stateshift.serializers.families import Ability, Family, families
from stateshift.serializers.primitives.numeric import LongSerializer
from stateshift.state.columnar.json_codec import JsonCodec, all_codecs

EXCUSED = {
    "AvroSerializer": "its values are columns of the counterpart",
    "RecursiveRecordSerializer": "no column holds a record that contains itself, so it is JSON",
    "TimerSerializer": "timers are read part by part",
}


@pytest.mark.parametrize("cls", built_in.serializers(), ids=lambda cls: cls.__name__)
def test_a_built_in_serializer_has_a_column_codec_or_an_excuse(cls):
    has_codec = families.find(Ability.COLUMNS, cls) is not None

    assert has_codec != (cls.__name__ in EXCUSED)


def test_all_tables_are_of_serializers_of_their_family():
    for package, family in families.built_in.items():
        for cls in family.table(Ability.COLUMNS):
            assert cls.__module__.startswith(f"{package}.")


@attrs.frozen
class Shifted(LongSerializer):
    """Writes other bytes."""


@pytest.mark.parametrize("exact", [False, True])
def test_a_subclass_has_no_codec_of_its_base_but_takes_its_values(exact):
    codecs = all_codecs(exact=exact)
    base, codec = codecs.of(LongSerializer()), codecs.of(Shifted())

    assert (pa.int64(), pa.string()) == (base.kind, codec.kind)
    assert isinstance(codec, JsonCodec)
    assert list(codec.mismatches(pa.int32())) == []
    assert [("", "is a string, and long is declared")] == list(codec.mismatches(pa.string()))


COLUMNS = {Shifted: lambda _, serializer: NumberCodec(serializer, pa.int64(), ">u8")}


def test_a_family_of_ones_own_has_its_codecs(monkeypatch):
    monkeypatch.setitem(families.registered, __name__, Family(__name__, columns=f"{__name__}:COLUMNS"))

    assert NumberCodec(Shifted(), pa.int64(), ">u8") == all_codecs().of(Shifted())
