"""Column codecs of families: those of a subclass, and of a family of one's own."""

from __future__ import annotations

import attrs
import pyarrow as pa
import pytest

from stateshift import Family
from stateshift.serializers.columns.scalars import NumberCodec
from stateshift.serializers.families import families
from stateshift.serializers.primitives.numeric import LongSerializer
from stateshift.state.columnar.column_values import JsonCodec, all_codecs


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
