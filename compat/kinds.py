"""A changed state kind: it is refused, unless a transform converts the state (STATE-1, STATE-2).

A transform takes all the state of a key, so the stored parts of each entry are read and the new ones written, whatever
their types are.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..serializers.compatibility import CompatibilityResult, Finding, Verdict
from ..serializers.containers.wrappers import without_ttl_awareness
from ..serializers.ways_out import by_migration
from .description import USER_KEY
from .parts import Judgement, Part, exposes_pieces, judge_values, stored_child, unread, with_readers

if TYPE_CHECKING:
    from ..serializers.snapshot import TypeSerializerConfigSnapshot
    from .description import StateDescription, StateKind

_OTHER_NAME = "declare the new state under another name: the old one is kept"


def is_transformed(old: StateDescription, new: StateDescription) -> bool:
    """Whether the new side has a transform for exactly this change of kind."""
    return new.transform is not None and new.transform.old_kind is old.kind and new.kind.has_values


def kind_changed(old: StateDescription, new: StateDescription) -> Finding:
    """Refuse a change of kind (rule STATE-1)."""
    ways: tuple[str, ...] = ("keep the kind of the state", _OTHER_NAME)
    if old.kind.has_values and new.kind.has_values:
        ways = (
            f"declare what it becomes: transform=StateTransform.from_{old.kind}(…) of the state's descriptor",
            *ways,
        )
    reason = f"entries of {old.kind} state are not entries of {new.kind} state"
    if new.transform is not None:
        reason += f"; its transform {new.transform.name} takes {new.transform.old_kind} state"
    return Finding("$<state>", "STATE-1", Verdict.INCOMPATIBLE, str(old.kind), str(new.kind), reason, ways)


def judge(old: StateDescription, new: StateDescription) -> Judgement:
    """Judge the values of a state: by the rules of their types (STATE-3), or by its transform (STATE-2)."""
    if new.transform is None or not is_transformed(old, new):
        return judge_values(old, new)
    findings = new.transform.findings
    if any(one.verdict is Verdict.INCOMPATIBLE for one in findings):
        return Judgement(CompatibilityResult.incompatible(*findings))
    parts = _parts(old, new)
    if not parts or not exposes_pieces(new.kind, new.value.new_side()):
        reason = (
            "the entries of list and map state are its parts, and a serializer of another kind does not expose them"
        )
        return _refused(old, new, reason, "describe list and map state with stateshift's own serializers")
    if _has_ttl(old.kind, old.value.snapshot) is not _has_ttl(new.kind, new.value.snapshot):
        reason = "only one side has TTL, and a transform does not convert time stamps"
        return _refused(old, new, reason, "change the kind first, and TTL in a separate migration")
    if old.value.unread:
        return Judgement(CompatibilityResult.incompatible(unread(old, new)))
    finding = Finding(
        "$<state>", "STATE-2", Verdict.REQUIRES_MIGRATION, _words(old), _words(new),
        f"the transform {new.transform.name} converts all that a key has",
        (by_migration("each key is transformed"), "keep the kind of the state"),
    )  # fmt: skip
    return with_readers(Judgement(CompatibilityResult.requires_migration(*findings or (finding,)), parts))


def _words(state: StateDescription) -> str:
    return f"{state.kind} state, {state.describe()}"


def _refused(old: StateDescription, new: StateDescription, reason: str, way: str) -> Judgement:
    ways = (way, "keep the kind of the state", _OTHER_NAME)
    finding = Finding("$<state>", "STATE-2", Verdict.INCOMPATIBLE, _words(old), _words(new), reason, ways)
    return Judgement(CompatibilityResult.incompatible(finding))


def _parts(old: StateDescription, new: StateDescription) -> tuple[Part, ...]:
    """Return the stored parts of an entry, each to be read; empty if they are not known."""
    snapshot, stored, fallback = without_ttl_awareness(old.value.snapshot), old.value.stored, new.value.fallback
    rewritten: CompatibilityResult[Any] = CompatibilityResult.requires_migration()
    serializer = new.value.new_side()
    pieces = old.kind.row.pieces
    if not pieces:
        return (Part("", snapshot, serializer, rewritten, stored=stored, fallback=fallback),)
    nested = snapshot.children()
    if snapshot.kind != old.kind or len(nested) != len(pieces):
        return ()
    return tuple(
        Part(
            step, child, serializer, rewritten,
            stored=stored_child(stored, name), fallback=None if step == USER_KEY else fallback,
        )
        for (step, name), child in zip(pieces, nested, strict=True)
    )  # fmt: skip


def _has_ttl(kind: StateKind, snapshot: TypeSerializerConfigSnapshot[Any]) -> bool:
    snapshot = without_ttl_awareness(snapshot)
    if kind.row.pieces:
        snapshot = without_ttl_awareness(snapshot.children()[-1])
    return snapshot.kind == "ttl"
