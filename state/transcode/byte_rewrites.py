"""The byte rewrites and op lists for the plan of a state."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...compat.description import StateKind
from ...serializers.containers.rewrites import stripped_rewrite
from ...serializers.containers.wrappers import OptionalSerializer
from ...serializers.errors import StateShiftError
from ...serializers.rewrite import Counted, Rest, Sequence, rewrite_of, tells_apart
from .compiler import compile_value
from .facts import stays
from .framing import ValueFraming, value_framing

if TYPE_CHECKING:
    from ...compat.plan import Recoding, StatePlan
    from ...serializers.rewrite import ByteRewrite
    from ...serializers.snapshot import TypeSerializerConfigSnapshot
    from .framing import EntryFraming
    from .program import Program


def program_of(plan: StatePlan, entry: EntryFraming) -> Program | None:
    """Return the op list that rewrites the entries of a keyed state; None if objects are needed.

    Objects are needed if user code is involved, or a serializer has no byte rewrite.
    """
    recoding, framing, key = plan.value, value_framing(plan.kind), None
    if plan.transform is not None:
        return None
    if plan.user_key is not None:
        user_key = _rewrite(plan.user_key)
        if user_key is None or entry.parts is None:
            return None
        key = Sequence((*entry.parts, user_key))
    if recoding is None:
        return compile_value(Rest(), ValueFraming.WHOLE, nullable=False, key=key)
    if framing is ValueFraming.NULLABLE and isinstance(recoding.reader, OptionalSerializer):
        return None  # a null after the entry's own flag must be moved to that flag
    rewrite = _rewrite(recoding)
    if rewrite is None:
        return None
    return compile_value(rewrite, framing, nullable=recoding.nullable and recoding.null_stamp_ms is None, key=key)


def element_program_of(plan: StatePlan) -> Program | None:
    """Return the op list that rewrites elements of an operator's list state, or broadcast maps; None if there is none.

    The op list checks that the keys of such a map stay distinct.
    """
    if plan.transform is not None:
        return None
    rewrite = _piece(plan.value, plan.old.value)
    if plan.kind is StateKind.BROADCAST and rewrite is not None:
        key = _piece(plan.user_key, plan.old.key)
        is_told = key is not None and (tells_apart(key) or stays(key))
        rewrite = Counted(rewrite, key) if is_told else None
    return None if rewrite is None else compile_value(rewrite, ValueFraming.WHOLE, nullable=False)


def _piece(recoding: Recoding | None, stored: TypeSerializerConfigSnapshot[Any] | None) -> ByteRewrite | None:
    """Return the byte rewrite of an element, key or value; without a recoding it is that of the stored type."""
    if recoding is not None:
        return _rewrite(recoding)
    try:
        serializer = stored.restore_serializer() if stored is not None else None
    except StateShiftError:
        return None
    return None if serializer is None else rewrite_of(serializer, None, serializer)


def _rewrite(recoding: Recoding) -> ByteRewrite | None:
    if recoding.converter:
        return None
    reader, conversion, writer = recoding.reader, recoding.conversion, recoding.writer
    bare = stripped_rewrite(reader, conversion, writer, recoding.expired_until_ms)
    if bare is not None or recoding.expired_until_ms is not None:
        return bare
    rewrite = rewrite_of(reader, conversion, writer)
    return None if recoding.is_check and rewrite is not None and not stays(rewrite) else rewrite
