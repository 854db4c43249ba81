"""Numbers against each other: rules PRIM-1 to PRIM-4, every pair."""

from __future__ import annotations

import itertools

import pytest

from stateshift import ValueNotConvertible, Verdict
from stateshift.serializers.primitives.numeric import (
    BigIntSerializer,
    BooleanSerializer,
    ByteSerializer,
    DoubleSerializer,
    FloatSerializer,
    IntSerializer,
    LongSerializer,
    ShortSerializer,
)
from stateshift.serializers.primitives.text import StringSerializer

BY_WORD = {
    "byte": ByteSerializer(),
    "short": ShortSerializer(),
    "int": IntSerializer(),
    "long": LongSerializer(),
    "bigint": BigIntSerializer(),
    "float": FloatSerializer(),
    "double": DoubleSerializer(),
}
EXACT = {
    "byte": "short int long bigint float double",
    "short": "int long bigint float double",
    "int": "long bigint double",
    "long": "bigint",
    "float": "double",
}
LOSSY = {"int": "float", "long": "float double"}
MIGRATE, REFUSE = Verdict.REQUIRES_MIGRATION, Verdict.INCOMPATIBLE


@pytest.mark.parametrize("word", BY_WORD)
def test_the_same_number_is_compatible_prim_1(ask, word):
    result = ask(BY_WORD[word], BY_WORD[word])

    assert (Verdict.COMPATIBLE, ()) == (result.verdict, result.findings)


@pytest.mark.parametrize(("old", "new"), list(itertools.permutations(BY_WORD, 2)))
def test_a_number_is_widened_or_refused_prim_2_prim_3(ask, rules, old, new):
    lossy = new in LOSSY.get(old, "").split()
    widened = lossy or new in EXACT.get(old, "").split()

    result = ask(BY_WORD[new], BY_WORD[old])

    assert ((MIGRATE, "PRIM-2") if widened else (REFUSE, "PRIM-3")) == (result.verdict, rules(result)[0][1])
    assert ([("$", "lossy")] if lossy else []) == list(result.flags)


@pytest.mark.parametrize(("old", "new"), [p for p in itertools.product(EXACT, BY_WORD) if p[1] in EXACT[p[0]].split()])
def test_an_exact_widening_keeps_the_largest_and_the_smallest_prim_2(migrate, old, new):
    bits = {"byte": 7, "short": 15, "int": 31, "long": 63, "float": 20}[old]

    for value in (2**bits - 1, -(2**bits), 0):
        assert value == migrate(BY_WORD[new], BY_WORD[old], value)


@pytest.mark.parametrize("other", [BooleanSerializer(), StringSerializer()], ids=["boolean", "string"])
def test_a_number_becomes_nothing_else_and_nothing_else_a_number_prim_4(ask, rules, other):
    for old, new in ((other, LongSerializer()), (LongSerializer(), other)):
        assert [("$", "PRIM-4")] == rules(ask(new, old))


@pytest.mark.parametrize(("serializer", "most"), [(FloatSerializer(), 2**24), (DoubleSerializer(), 2**53)])
def test_a_whole_number_is_written_as_a_float_only_where_it_is_exact(write, read, serializer, most):
    assert most == read(serializer, write(serializer, most))
    with pytest.raises(ValueNotConvertible, match="not exact"):
        write(serializer, most + 1)
