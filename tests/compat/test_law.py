"""The law of the verdict: it predicts what happens to the bytes, for types made at random and changed at random.

compatible             the new serializer reads the old bytes, with the same meaning
after reconfiguration  the reconfigured copy does
migration              the transcoded entries read as the converted values

The model of a conversion is written here independently, and uses nothing of the families' own.
"""

from __future__ import annotations

import struct
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import attrs
from hypothesis import event, given
from hypothesis import strategies as st

from stateshift.compat.check import check
from stateshift.compat.description import (
    JobDescription,
    OperatorDescription,
    SerializerDescription,
    StateDescription,
    StateKind,
)
from stateshift.compat.planner import plan
from stateshift.compat.reference_time import milliseconds
from stateshift.compat.testing.strategies import values_of
from stateshift.serializers.compatibility import Decision
from stateshift.serializers.containers.arrays import PrimitiveArraySerializer, is_primitive
from stateshift.serializers.containers.either import EitherSerializer, Left, Right
from stateshift.serializers.containers.lists import ListSerializer, MapSerializer, SetSerializer, TupleSerializer
from stateshift.serializers.containers.object_arrays import GenericArraySerializer
from stateshift.serializers.containers.optional import OptionalSerializer
from stateshift.serializers.containers.ttl import TtlSerializer, TtlValue
from stateshift.serializers.defaults import Default
from stateshift.serializers.enums.serializers import EnumSerializer
from stateshift.serializers.enums.symbols import Symbol
from stateshift.serializers.primitives.numeric import (
    BigIntSerializer,
    BooleanSerializer,
    ByteSerializer,
    DoubleSerializer,
    FloatSerializer,
    IntSerializer,
    LongSerializer,
)
from stateshift.serializers.primitives.text import StringSerializer
from stateshift.serializers.records.fields import RecordField
from stateshift.serializers.records.serializers import RecordSerializer
from stateshift.serializers.records.values import Record
from stateshift.serializers.rows.serializers import RowSerializer
from stateshift.serializers.rows.values import Row, RowKind
from stateshift.serializers.views import DataInputView, DataOutputView
from stateshift.state.transcode import entry_framing, make_transcoder
from stateshift.state.transcode.choice import choose_executor

if TYPE_CHECKING:
    from collections.abc import Callable

LONG = LongSerializer()
INTEGERS = {
    serializer: values_of(serializer) for serializer in (ByteSerializer(), IntSerializer(), LONG, BigIntSerializer())
}
OTHERS = (FloatSerializer(), DoubleSerializer(), BooleanSerializer(), StringSerializer())
LEAVES = INTEGERS | {serializer: values_of(serializer) for serializer in OTHERS}

AT = datetime(2026, 6, 15, tzinfo=UTC)


@attrs.frozen
class Change:
    """An old and a new type, values of the old one, and what each becomes."""

    old: Any
    new: Any
    values: st.SearchStrategy[Any]
    model: Callable[[Any], Any]


def leaf_model(new):
    def convert(value):
        if isinstance(new, FloatSerializer):
            return struct.unpack(">f", struct.pack(">f", value))[0]
        return float(value) if isinstance(new, DoubleSerializer) else value

    return convert


@st.composite
def leaves(draw, of=None):
    kinds = of or LEAVES
    old = draw(st.sampled_from(list(kinds)))
    new = draw(st.one_of(st.just(old), st.sampled_from(list(kinds))))
    return Change(old, new, kinds[old], leaf_model(new))


@st.composite
def enums(draw):
    """Symbols reordered, added, and one renamed."""
    old = draw(st.lists(st.sampled_from("ABCD"), min_size=1, unique=True))
    became = {symbol: symbol for symbol in old}
    if draw(st.booleans()):
        became[old[0]] = "N"
    symbols = [*became.values(), *(["Z"] if draw(st.booleans()) else [])]
    aliases = (("N", (old[0],)),) if became[old[0]] == "N" else ()
    new = EnumSerializer(tuple(draw(st.permutations(symbols))), "E", symbol_aliases=aliases)
    values = st.sampled_from(old).map(lambda name: Symbol(name, "E"))
    return Change(EnumSerializer(tuple(old), "E"), new, values, lambda value: Symbol(became[value.name], "E"))


@st.composite
def with_ttl(draw, item):
    """Time stamps that stay, that come (STATE-4), or that go (STATE-5)."""
    inner = draw(item)
    had, gets = draw(st.sampled_from([(True, True), (False, True), (True, False)]))

    def model(value):
        bare, stamp = (value.value, value.last_access_ms) if had else (value, milliseconds(AT))
        return TtlValue(stamp, inner.model(bare)) if gets else inner.model(bare)

    return Change(
        TtlSerializer(inner.old) if had else inner.old,
        TtlSerializer(inner.new) if gets else inner.new,
        st.builds(TtlValue, st.integers(0, 1 << 40), inner.values) if had else inner.values,
        model,
    )


@st.composite
def lists(draw, item):
    inner = draw(item)
    return Change(
        ListSerializer(inner.old), ListSerializer(inner.new), st.lists(inner.values, max_size=3),
        lambda value: [inner.model(one) for one in value],
    )  # fmt: skip


@st.composite
def arrays(draw, item):
    """Arrays and lists of one another."""
    inner = draw(item)
    arrays_of = [ListSerializer, lambda element: GenericArraySerializer(element, nullable_elements=True)]
    was, becomes = arrays_of[:], arrays_of[:]
    was += [PrimitiveArraySerializer] if is_primitive(inner.old) else []
    becomes += [PrimitiveArraySerializer] if is_primitive(inner.new) else []
    return Change(
        draw(st.sampled_from(was))(inner.old), draw(st.sampled_from(becomes))(inner.new),
        st.lists(inner.values, max_size=3), lambda value: [inner.model(one) for one in value],
    )  # fmt: skip


@st.composite
def rows(draw, item):
    """Columns kept, dropped, added and in another order, for a job that names the stored ones."""
    columns = {name: draw(item) for name in draw(st.lists(st.sampled_from("abcd"), min_size=1, unique=True))}
    kept = draw(st.lists(st.sampled_from(sorted(columns)), unique=True))
    new_columns = [RecordField(name, columns[name].new, optional=True) for name in kept]
    if draw(st.booleans()) or not kept:
        new_columns.append(RecordField("z", LONG, default=Default(7)))
    old = RowSerializer.of([change.old for change in columns.values()])
    new = RowSerializer(tuple(new_columns), stored_names=tuple(columns))

    def model(value):
        stored = dict(zip(columns, value, strict=True))
        found = {name: None if stored[name] is None else columns[name].model(stored[name]) for name in kept}
        return Row(*found.values(), *([7] if len(new_columns) > len(kept) else []))._with_kind(value._kind)

    items = st.tuples(*(st.none() | change.values for change in columns.values()))
    values = st.builds(lambda given, kind: Row(*given)._with_kind(kind), items, st.sampled_from(RowKind))
    return Change(old, new, values, model)


@st.composite
def eithers(draw, item):
    left, right = draw(item), draw(item)
    return Change(
        EitherSerializer(left.old, right.old), EitherSerializer(left.new, right.new),
        left.values.map(Left) | right.values.map(Right),
        lambda one: Left(left.model(one.value)) if isinstance(one, Left) else Right(right.model(one.value)),
    )  # fmt: skip


@st.composite
def sets(draw, _item):
    inner = draw(leaves(INTEGERS))
    return Change(
        SetSerializer(inner.old), SetSerializer(inner.new), st.frozensets(inner.values, max_size=3),
        lambda value: {inner.model(one) for one in value},
    )  # fmt: skip


@st.composite
def maps(draw, item):
    key, value = draw(leaves(INTEGERS)), draw(item)
    nullable = draw(st.booleans())
    values = st.one_of(st.none(), value.values) if nullable else value.values
    gets_stamps = isinstance(value.new, TtlSerializer) and not isinstance(value.old, TtlSerializer)
    has_form = gets_stamps and isinstance(value.new.value, OptionalSerializer)
    null = TtlValue(milliseconds(AT), None) if has_form else None  # as Flink lists it
    return Change(
        MapSerializer(key.old, value.old, nullable_values=nullable),
        MapSerializer(key.new, value.new, nullable_values=nullable),
        st.dictionaries(key.values, values, max_size=3),
        lambda whole: {key.model(k): null if v is None else value.model(v) for k, v in whole.items()},
    )


@st.composite
def tuples(draw, item):
    inner = draw(st.lists(item, min_size=1, max_size=3))
    return Change(
        TupleSerializer(tuple(one.old for one in inner)),
        TupleSerializer(tuple(one.new for one in inner)),
        st.tuples(*(one.values for one in inner)),
        lambda value: tuple(one.model(part) for one, part in zip(inner, value, strict=True)),
    )


@st.composite
def optionals(draw, item):
    inner = draw(item)
    if isinstance(inner.old, OptionalSerializer):
        return inner
    was_optional = draw(st.booleans())
    return Change(
        OptionalSerializer(inner.old) if was_optional else inner.old,
        OptionalSerializer(inner.new),
        st.one_of(st.none(), inner.values) if was_optional else inner.values,
        lambda value: None if value is None else inner.model(value),
    )


@st.composite
def records(draw, item):
    """Fields kept, renamed, dropped and added."""
    fields = {name: draw(item) for name in draw(st.sets(st.sampled_from("abcd"), min_size=1))}
    renamed = {name: draw(st.sampled_from([name, name, f"new_{name}"])) for name in fields}
    dropped = draw(st.sets(st.sampled_from(sorted(fields)))) if draw(st.booleans()) else set()
    added = draw(st.booleans())
    old = RecordSerializer("R", tuple(RecordField(name, fields[name].old) for name in sorted(fields)))
    new_fields = [
        RecordField(renamed[name], change.new, aliases=(name,))
        for name, change in fields.items()
        if name not in dropped
    ]
    if added:
        new_fields.append(RecordField("z", LONG, default=Default(7)))
    new = RecordSerializer("R", tuple(sorted(new_fields, key=lambda field: field.name)))

    def model(value):
        kept = {renamed[name]: change.model(value[name]) for name, change in fields.items() if name not in dropped}
        return Record("R", {**kept, **({"z": 7} if added else {})})

    values = st.fixed_dictionaries({name: change.values for name, change in fields.items()})
    return Change(old, new, values.map(lambda given: Record("R", given)), model)


def not_null(change):
    """Records and tuples of this test hold no null without a flag of its own."""
    return not isinstance(change.new, OptionalSerializer)


changes = st.recursive(
    st.one_of(leaves(), leaves(), enums()),
    lambda item: st.one_of(
        lists(item),
        arrays(item),
        rows(item.filter(not_null)),
        eithers(item),
        sets(item),
        maps(item.filter(not_null)),
        tuples(item),
        optionals(item),
        records(item.filter(not_null)),
    ),
    max_leaves=4,
)


def written(serializer, value):
    target = DataOutputView()
    serializer.serialize(value, target)
    return target.getvalue()


def read(serializer, data):
    source = DataInputView(data)
    value = serializer.deserialize(source)
    assert not source.remaining()
    return value


def entry(value, user_key=b""):
    key = b"\x07" + written(LONG, 1) + b"\0" + user_key
    return len(key).to_bytes(4, "big") + key + len(value).to_bytes(4, "big") + value


def described(kind, serializer):
    state = StateDescription("s", kind, SerializerDescription.of(serializer))
    return JobDescription("x", (OperatorDescription("0" * 32, states=(state,)),))


def judged(kind, old, new):
    """Check one state; give its report, and what rewrites it (None where its bytes stay, or it is refused)."""
    report = check(described(kind, old), described(kind, new))
    (state,) = report.operators[0].states
    event(f"{kind}: {state.result.verdict.label}")
    assert state.result.findings or report.decision is Decision.START
    if report.decision is not Decision.MIGRATE:
        return state, None
    framing = entry_framing(kind, key=LONG, namespace=ByteSerializer(), max_parallelism=128)
    return state, make_transcoder(plan(report, reference_time=AT).operators[0].states[0], framing, choose_executor(0))


def taking_over(state, new):
    """Who reads the stored bytes where nothing is rewritten."""
    result = state.result
    return result.reconfigured_serializer if result.is_compatible_after_reconfiguration() else new


@given(st.one_of(changes, with_ttl(changes)), st.data())
def test_the_verdict_predicts_what_happens_to_a_value_k11_v_5(change, data):
    value = data.draw(change.values)
    stored = written(change.old, value)

    state, rewrite = judged(StateKind.VALUE, change.old, change.new)

    if rewrite is not None:
        body = bytes(rewrite.transcode(entry(stored)).data)[len(entry(b"")) :]
        assert change.model(value) == read(change.new, body)
    elif state.decision is Decision.START:
        assert change.model(value) == read(taking_over(state, change.new), stored)


@given(st.one_of(changes, with_ttl(changes)), st.data())
def test_the_verdict_predicts_what_happens_to_the_elements_of_a_list_k11(change, data):
    values = data.draw(st.lists(change.values, min_size=1, max_size=3))
    stored = b"\x2c".join(written(change.old, value) for value in values)

    state, rewrite = judged(StateKind.LIST, ListSerializer(change.old), ListSerializer(change.new))

    if state.decision is Decision.REFUSE:
        return
    body = bytes(rewrite.transcode(entry(stored)).data)[len(entry(b"")) :] if rewrite else stored
    reader = taking_over(state, ListSerializer(change.new)).element
    source, found = DataInputView(body), []
    while source.remaining():
        found.append(reader.deserialize(source))
        if source.remaining():
            assert 0x2C == source.read_byte()
    assert [change.model(value) for value in values] == found


@given(maps(st.one_of(changes.filter(not_null), with_ttl(changes))), st.data())
def test_the_verdict_predicts_what_happens_to_the_entries_of_a_map_k11(change, data):
    whole = data.draw(change.values)
    old, new = change.old, change.new
    block = b"".join(
        entry(b"\1" if value is None else b"\0" + written(old.value, value), written(old.key, key))
        for key, value in whole.items()
    )

    state, rewrite = judged(StateKind.MAP, old, new)

    if state.decision is Decision.REFUSE:
        return
    source, found = DataInputView(bytes(rewrite.transcode(block).data) if rewrite else block), {}
    reader = taking_over(state, new)
    while source.remaining():
        key = source.read_fully(source.read_int())[10:]
        value = source.read_fully(source.read_int())
        found[read(reader.key, key)] = None if value == b"\1" else read(reader.value, value[1:])
    assert change.model(whole) == found
