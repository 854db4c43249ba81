"""Blocks of old entries to blocks of new ones."""

from __future__ import annotations

import cloudpickle
import pytest

from stateshift import CorruptSavepoint, DataOutputView, DeclarationError, TtlValue, ValueNotConvertible, check
from stateshift.compat.description import (
    Converter,
    JobDescription,
    OperatorDescription,
    SerializerDescription,
    StateDescription,
    StateKind,
)
from stateshift.compat.planner import plan
from stateshift.serializers.containers.lists import ListSerializer, MapSerializer
from stateshift.serializers.containers.ttl import TtlSerializer
from stateshift.serializers.containers.wrappers import OptionalSerializer
from stateshift.serializers.primitives.numeric import (
    BigIntSerializer,
    ByteSerializer,
    FloatSerializer,
    IntSerializer,
    LongSerializer,
)
from stateshift.state.transcode.entry_layout import entry_framing
from stateshift.state.transcode.executor_choice import choose_executor
from stateshift.state.transcode.factory import make_element_transcoder, make_transcoder

INT, LONG, BIG = IntSerializer(), LongSerializer(), BigIntSerializer()


def described(given):
    return given if isinstance(given, SerializerDescription) else SerializerDescription.of(given)


def state_plan(kind, old, new, **roles):
    def job(value, key):
        state = StateDescription("s", kind, described(value), key=described(key) if key else None)
        return JobDescription("x", (OperatorDescription("0" * 32, states=(state,)),))

    old_key, new_key = roles.get("keys", (None, None))
    return plan(check(job(old, old_key), job(new, new_key))).operators[0].states[0]


def framing_of(kind, key=LONG, namespace=None):
    return entry_framing(kind, key=key, namespace=namespace or ByteSerializer(), max_parallelism=128)


def transcoder(kind, old, new, **framing):
    return make_transcoder(state_plan(kind, old, new), framing_of(kind, **framing), choose_executor(0))


def written(serializer, value):
    target = DataOutputView()
    serializer.serialize(value, target)
    return target.getvalue()


def block(*entries):
    return b"".join(len(part).to_bytes(4, "big") + part for entry in entries for part in entry)


def entry_key(key, user_key=b""):
    """Key group 7, a long key, a namespace of one byte 0."""
    return b"\x07" + written(LONG, key) + b"\0" + user_key


def test_a_value_is_rewritten_under_the_key_it_had():
    result = transcoder(StateKind.VALUE, INT, LONG).transcode(
        block((entry_key(1), written(INT, -5)), (entry_key(2), written(INT, 9)))
    )

    assert block((entry_key(1), written(LONG, -5)), (entry_key(2), written(LONG, 9))) == result.data
    assert (2, 0) == (result.entries, result.dropped)


def test_an_empty_block_stays_empty():
    assert b"" == transcoder(StateKind.VALUE, INT, LONG).transcode(b"").data


def test_elements_of_list_state_are_read_over_any_separator_and_written_with_a_comma():
    old = written(INT, 0x2C2C2C2C) + b"\xff" + written(INT, 2)

    result = transcoder(StateKind.LIST, ListSerializer(INT), ListSerializer(LONG)).transcode(block((entry_key(1), old)))

    assert block((entry_key(1), written(LONG, 0x2C2C2C2C) + b"\x2c" + written(LONG, 2))) == result.data


@pytest.mark.parametrize("null", [b"\x01", b"\x01\x00", b"\x01\x01\x02"])
def test_a_null_map_value_is_its_flag_alone_whatever_followed(null):
    new = MapSerializer(LONG, LONG, nullable_values=True)
    key = entry_key(1, written(LONG, 5))

    result = transcoder(StateKind.MAP, MapSerializer(LONG, INT), new).transcode(
        block((key, null), (key, b"\0" + written(INT, 3)))
    )

    assert block((key, b"\x01"), (key, b"\0" + written(LONG, 3))) == result.data


def test_a_null_map_value_that_is_not_declared_is_an_error():
    old, new = MapSerializer(LONG, INT), MapSerializer(LONG, LONG)

    with pytest.raises(ValueNotConvertible, match="not declared optional") as caught:
        transcoder(StateKind.MAP, old, new).transcode(block((entry_key(1, written(LONG, 5)), b"\x01")))

    assert ("1", "${}") == (caught.value.where["key"], caught.value.where["path"])


def test_a_second_null_flag_of_the_stored_values_goes_when_the_user_key_migrates():
    """Flink 2 stores maps of nullable lists; a map whose values are optional flags nulls once."""
    old = MapSerializer(INT, OptionalSerializer(LONG))
    new = MapSerializer(LONG, LONG, nullable_values=True)
    rewrite = transcoder(StateKind.MAP, old, new)
    null, seven = (entry_key(1, written(INT, 5)), b"\0\1"), (entry_key(1, written(INT, 6)), b"\0\0" + written(LONG, 7))

    result = rewrite.transcode(block(null, seven))

    assert block(
        (entry_key(1, written(LONG, 5)), b"\1"), (entry_key(1, written(LONG, 6)), b"\0" + written(LONG, 7))
    ) == result.data  # fmt: skip


def test_user_keys_are_rewritten_behind_key_and_namespace():
    old, new = MapSerializer(INT, LONG), MapSerializer(LONG, LONG)

    result = transcoder(StateKind.MAP, old, new).transcode(
        block((entry_key(1, written(INT, 5)), b"\0" + written(LONG, 3)))
    )

    assert block((entry_key(1, written(LONG, 5)), b"\0" + written(LONG, 3))) == result.data


def test_user_keys_are_found_behind_ambiguity_bytes():
    old, new = MapSerializer(INT, LONG), MapSerializer(LONG, LONG)
    start = b"\x07" + written(BIG, 500) + b"\x06" + written(BIG, 1) + b"\x04"

    result = transcoder(StateKind.MAP, old, new, key=BIG, namespace=BIG).transcode(
        block((start + written(INT, 5), b"\0" + written(LONG, 3)))
    )

    assert block((start + written(LONG, 5), b"\0" + written(LONG, 3))) == result.data


def test_long_keys_have_more_than_one_ambiguity_byte():
    key = written(BIG, 1 << 4096)
    size = len(key).to_bytes(2, "little")
    start = b"\x07" + key + size + written(BIG, 1) + b"\x04"

    assert len(start) == framing_of(StateKind.MAP, key=BIG, namespace=BIG).keys.user_key_start(start + b"rest")


def test_two_user_keys_of_one_key_that_become_one_abort_map_3():
    old, new = MapSerializer(LONG, LONG), MapSerializer(FloatSerializer(), LONG)
    rewrite = transcoder(StateKind.MAP, old, new)
    first, second = written(LONG, 1 << 60), written(LONG, (1 << 60) + 1)
    value = b"\0" + written(LONG, 3)

    assert rewrite.needs_whole_run
    assert 2 == rewrite.transcode(block((entry_key(1, first), value), (entry_key(2, second), value))).entries
    with pytest.raises(ValueNotConvertible, match="become the same") as caught:
        rewrite.transcode(block((entry_key(1, first), value), (entry_key(1, second), value)))
    assert ("1", "$<key>", "MAP-3") == tuple(caught.value.where[place] for place in ("key", "path", "rule"))


def test_a_value_that_does_not_fit_is_reported_with_key_path_rule_and_place():
    def halved(value):
        return value // 2

    new = SerializerDescription.of(ListSerializer(INT), converter=Converter.of(halved))
    rewrite = transcoder(StateKind.LIST, ListSerializer(LONG), new)
    good, bad = (entry_key(1), written(LONG, 8)), (entry_key(2), written(LONG, 1 << 40))

    with pytest.raises(ValueNotConvertible, match="does not fit an int") as caught:
        rewrite.transcode(block(good, bad))

    assert {"state": "s", "key": "2", "path": "$[]", "rule": "PRIM-3", "offset": len(block(good))} == caught.value.where


def test_a_converter_that_fails_is_named():
    new = SerializerDescription.of(INT, converter=Converter("accounts.picky", {}.__getitem__))

    with pytest.raises(ValueNotConvertible, match=r"converter accounts\.picky failed on 5: KeyError") as caught:
        transcoder(StateKind.VALUE, LONG, new).transcode(block((entry_key(1), written(LONG, 5))))

    assert isinstance(caught.value.__cause__, KeyError)


def test_what_a_converter_returns_must_be_of_the_new_type():
    new = SerializerDescription.of(INT, converter=Converter.of(str))

    with pytest.raises(ValueNotConvertible):
        transcoder(StateKind.VALUE, LONG, new).transcode(block((entry_key(1), written(LONG, 5))))


@pytest.mark.parametrize("value", [b"\0\0\0", b"\0\0\0\1\0"], ids=["short", "long"])
def test_a_value_that_does_not_fill_its_entry_is_corrupt(value):
    with pytest.raises(CorruptSavepoint) as caught:
        transcoder(StateKind.VALUE, INT, LONG).transcode(block((entry_key(1), value)))

    assert "1" == caught.value.where["key"]


def test_damaged_blocks_are_corrupt_and_nothing_else():
    whole = block((entry_key(1, written(INT, 5)), b"\0" + written(LONG, 3)))
    rewrite = transcoder(StateKind.MAP, MapSerializer(INT, LONG), MapSerializer(LONG, LONG))

    for size in range(1, len(whole)):
        with pytest.raises(CorruptSavepoint):
            rewrite.transcode(whole[:size])


def test_elements_of_operator_lists_are_rewritten_one_by_one():
    rewrite = make_element_transcoder(state_plan(StateKind.SPLIT_LIST, INT, LONG), choose_executor(0))

    assert written(LONG, 5) == rewrite.transcode([written(INT, 5)]).elements[0]
    with pytest.raises(CorruptSavepoint) as caught:
        rewrite.transcode([b"\0"])
    assert ("$[]", "PRIM-2") == (caught.value.where["path"], caught.value.where["rule"])


def test_the_map_of_a_broadcast_state_is_rewritten_as_a_whole():
    rewrite = make_element_transcoder(state_plan(StateKind.BROADCAST, INT, LONG, keys=(BIG, BIG)), choose_executor(0))
    key, count = written(BIG, 300), (1).to_bytes(4, "big")

    assert count + key + written(LONG, 5) == rewrite.transcode([count + key + written(INT, 5)]).elements[0]


def test_broadcast_keys_that_become_one_abort_map_3():
    rewrite = make_element_transcoder(
        state_plan(StateKind.BROADCAST, BIG, BIG, keys=(LONG, FloatSerializer())), choose_executor(0)
    )
    entries = [written(LONG, key) + written(BIG, 1) for key in (1 << 60, (1 << 60) + 1)]

    with pytest.raises(ValueNotConvertible, match="become the same"):
        rewrite.transcode([(2).to_bytes(4, "big") + b"".join(entries)])


def test_only_converted_states_have_a_transcoder():
    with pytest.raises(DeclarationError, match="its plan is copy"):
        transcoder(StateKind.VALUE, LONG, LONG)


def test_a_transcoder_travels_to_workers():
    rewrite = cloudpickle.loads(cloudpickle.dumps(transcoder(StateKind.VALUE, INT, LONG)))

    assert block((entry_key(1), written(LONG, 5))) == rewrite.transcode(block((entry_key(1), written(INT, 5)))).data


def test_a_converter_of_state_with_ttl_sees_bare_values_and_the_stamp_stays():
    new = SerializerDescription.of(ListSerializer(TtlSerializer(INT)), converter=Converter.of(abs))
    old = ListSerializer(TtlSerializer(LONG))

    result = transcoder(StateKind.LIST, old, new).transcode(
        block((entry_key(1), written(TtlSerializer(LONG), TtlValue(77, -5))))
    )

    assert block((entry_key(1), written(TtlSerializer(INT), TtlValue(77, 5)))) == result.data
