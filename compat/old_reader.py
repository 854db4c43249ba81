"""Selection of the reader of old bytes: snapshot, stored serializer, fallback, strictly in this order (rules, 10)."""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, Any

import attrs

from ..serializers.compatibility import made_reader
from ..serializers.errors import OldReaderUnavailable, StateShiftError, UntrustedCode, cause_text
from ..serializers.snapshot import SkippedSnapshot
from ..serializers.ways_out import Option, Told, WayOut

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from ..serializers.compatibility import Obstacle
    from ..serializers.serializer import TypeDeserializer, TypeSerializer
    from ..serializers.snapshot import TypeSerializerConfigSnapshot


class ReaderSource(enum.StrEnum):
    """The source of an old reader."""

    SNAPSHOT = "snapshot"
    STORED = "stored serializer"
    FALLBACK = "fallback"


@attrs.frozen
class OldReader:
    """A reader of old bytes, its source, and the reasons why the earlier sources failed."""

    reader: TypeDeserializer[Any]
    source: ReaderSource
    reasons: tuple[str, ...] = ()


def find_old_reader(
    snapshot: TypeSerializerConfigSnapshot[Any],
    *,
    obstacles: Sequence[Obstacle] = (),
    stored: Callable[[], TypeSerializer[Any]] | None = None,
    fallbacks: Iterable[TypeDeserializer[Any] | None] = (),
) -> OldReader:
    """Find a reader for bytes written by the serializer of `snapshot`. Call it only if bytes must be read (READ-7).

    Args:
        snapshot: The source of truth, tried first (READ-1).
        obstacles: Reasons why the restored serializer still cannot read, such as untrusted pickles.
        stored: Loads the serializer stored beside the savepoint (READ-2); may raise `UntrustedCode`.
        fallbacks: The deserializers from the result and from the job (READ-3), used only if the other sources fail
            (READ-6).

    Raises:
        OldReaderUnavailable: All three sources failed; it has the reasons, and the way out of each (READ-4).
    """
    reasons = [f"snapshot: {reason}" for reason in dict.fromkeys(obstacle.reason for obstacle in obstacles)]
    trust = tuple(Told.of(Option.TRUST, obstacle.lifted_by) for obstacle in obstacles if obstacle.lifted_by)
    ways: list[WayOut | str] = [WayOut(_IF_KNOWN, trust)] if trust else []
    try:
        reader = snapshot.restore_serializer()
        if not reasons:
            return OldReader(reader, ReaderSource.SNAPSHOT)
    except Exception as error:  # noqa: BLE001 - a user's snapshot may fail in any way; the next source is tried
        reasons.append(f"snapshot: {_error_line(error)}")
        ways += [_RESTORE] if is_gone(snapshot) else []
    if stored is None:
        reasons.append("stored serializer: the savepoint has none")
    else:
        try:
            return OldReader(stored(), ReaderSource.STORED, tuple(reasons))
        except Exception as error:  # noqa: BLE001 - unpickling may fail in any way; the next source is tried
            reasons.append(f"stored serializer: {_error_line(error)}")
            ways += [_TRUST] if isinstance(error, UntrustedCode) else []
    given = [fallback for fallback in fallbacks if fallback is not None]
    for fallback in given:
        try:
            return OldReader(made_reader(fallback), ReaderSource.FALLBACK, tuple(reasons))
        except Exception as error:  # noqa: BLE001 - its nested readers may fail in any way
            reasons.append(f"fallback: {_error_line(error)}")
    if not given:
        reasons.append("fallback: the job has none")
    raise OldReaderUnavailable(
        f"nothing can read the stored values of type {snapshot.describe()}",
        reasons=tuple(reasons),
        ways_out=(*ways, *_ANYWAY),
        rule="READ-4",
    )


_RESTORE = "import the module that registers the snapshot, in the job's module"
_IF_KNOWN = "if you know where the savepoint comes from:"
_TRUST = WayOut(_IF_KNOWN, (Told(Option.TRUST_STORED_SERIALIZERS),))
_ANYWAY = (
    "pass a fallback: fallback_deserializer=… of the state's descriptor",
    WayOut.telling(
        "leave the state out of the job, which keeps it as it is; or leave it out of the new savepoint:",
        Option.DROP,
        "STATE",
    ),
)


def is_gone(snapshot: TypeSerializerConfigSnapshot[Any]) -> bool:
    """Whether the class of a snapshot, or of one nested in it, is not registered."""
    return isinstance(snapshot, SkippedSnapshot) or any(map(is_gone, snapshot.children()))


def _error_line(error: Exception) -> str:
    """Return an error in one line, with the part of the value that it is about."""
    if isinstance(error, StateShiftError):
        path = error.where.get("path", "$")
        return error.what.replace("\n", " ") + (f" (at {path})" if path != "$" else "")
    return cause_text(error)
