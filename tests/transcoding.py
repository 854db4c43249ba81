"""Transcoders from one type of state to another, and blocks of entries for them."""

from __future__ import annotations

from stateshift import DataOutputView, check
from stateshift.compat.description import JobDescription, OperatorDescription, StateDescription, StateKind
from stateshift.compat.description import SerializerDescription as Described
from stateshift.compat.planner import plan
from stateshift.serializers.primitives.numeric import ByteSerializer, LongSerializer
from stateshift.state.transcode.entry_layout import entry_framing
from stateshift.state.transcode.executor_choice import ExecutorName
from stateshift.state.transcode.factory import make_transcoder

KEY = LongSerializer()


def planned(old, new, kind=StateKind.VALUE, keys=(None, None)):
    """The plan of one state whose values, and keys where given, go from one type to another."""

    def job(value, key):
        state = StateDescription("s", kind, Described.of(value), key=Described.of(key) if key else None)
        return JobDescription("x", (OperatorDescription("0" * 32, states=(state,)),))

    return plan(check(job(old, keys[0]), job(new, keys[1]))).operators[0].states[0]


def transcoder(old, new, kind=StateKind.VALUE, executor=ExecutorName.NUMBA):
    """What rewrites the entries of `block`."""
    framing = entry_framing(kind, key=KEY, namespace=ByteSerializer(), max_parallelism=128)
    return make_transcoder(planned(old, new, kind), framing, executor)


def written(serializer, value):
    target = DataOutputView()
    serializer.serialize(value, target)
    return target.getvalue()


def block(*values):
    """An entry for each value, under keys 0, 1, …: key group 7, a long key, a namespace of one byte 0."""
    parts = (part for key, value in enumerate(values) for part in (b"\x07" + written(KEY, key) + b"\0", value))
    return b"".join(len(part).to_bytes(4, "big") + part for part in parts)
