"""The separately encoded pieces of a state's entries, and the verdict on each.

Entries of list state hold elements and no list, entries of map state hold user keys and values and no map (format
notes 5.3), while their metadata describes the list and the map. So the verdict on a state is that of its whole
serializer, and the migration reads, converts and writes by the parts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs

from ..serializers.compatibility import CompatibilityResult, Finding, Flag, Verdict, worst
from ..serializers.containers import ListSerializer, MapSerializer
from ..serializers.errors import CompatibilityCheckError, OldReaderUnavailable, StateShiftError, located
from ..serializers.serializer import KEEP_OLD_TYPE
from .description import StateKind
from .old_reader import OldReader, ReaderSource, find_old_reader

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..serializers.serializer import TypeDeserializer, TypeSerializer
    from ..serializers.snapshot import TypeSerializerConfigSnapshot
    from .description import Converter, StateDescription

ELEMENT, USER_KEY, MAP_VALUE = "[]", "<key>", "{}"


@attrs.frozen
class Part:
    """One piece: what was stored, what is to be written, and how they compare.

    Attributes:
        step: How a path reaches it from the state's root: "", `[]`, `<key>` or `{}`.
        old: Snapshot of the stored piece.
        new: Serializer of the new piece.
        result: The new serializer's answer, or what a converter makes of it.
        reader: Who reads the old bytes; None where nothing is to be read.
        nullable: Whether the new side allows a null here, of which the entry's own flag tells (values of map state).
        stored: Loads the piece's serializer stored beside the savepoint.
        fallback: The job's deserializer for the piece.
    """

    step: str
    old: TypeSerializerConfigSnapshot[Any]
    new: TypeSerializer[Any]
    result: CompatibilityResult[Any]
    reader: OldReader | None = None
    nullable: bool = False
    stored: Callable[[], TypeSerializer[Any]] | None = attrs.field(default=None, eq=False)
    fallback: TypeDeserializer[Any] | None = attrs.field(default=None, eq=False)

    @property
    def is_rewritten(self) -> bool:
        """Whether a migration of the state decodes this piece; else its bytes stay as they are."""
        return not self.result.is_compatible_as_is()

    @property
    def effective_serializer(self) -> TypeSerializer[Any]:
        """Who reads the stored bytes where nothing is rewritten: the reconfigured copy where there is one."""
        result = self.result
        return result.reconfigured_serializer if result.is_compatible_after_reconfiguration() else self.new

    def find_reader(self) -> Part:
        """Give the part with its old reader; raises `OldReaderUnavailable`."""
        fallback = self.result.fallback or self.fallback
        return attrs.evolve(self, reader=find_old_reader(self.old, stored=self.stored, fallback=fallback))


@attrs.frozen
class Judgement:
    """The result for a state's values, and the parts behind it (none where they cannot be paired)."""

    result: CompatibilityResult[Any]
    parts: tuple[Part, ...] = ()


def ask(
    serializer: TypeSerializer[Any], snapshot: TypeSerializerConfigSnapshot[Any], path: str
) -> CompatibilityResult[Any]:
    """Put the question to the new side; a failure is an error with the path, never a verdict (rules V-1, V-6).

    Raises:
        CompatibilityCheckError: The serializer failed in a way of its own.
    """
    with located(path=path):
        try:
            result = serializer.ensure_compatibility(snapshot)
        except StateShiftError:
            raise
        except Exception as error:
            raise CompatibilityCheckError(
                f"{type(serializer).__name__} failed while it was asked about the stored {snapshot.describe()}: "
                f"{type(error).__name__}: {error}",
                advice="correct its ensure_compatibility; it must answer for every snapshot",
                written="nothing was changed",
            ) from error
    if result.verdict < Verdict.REQUIRES_MIGRATION or result.findings:
        return result
    silent = Finding(
        "$", "COMP-6", result.verdict, snapshot.describe(), serializer.describe(),
        f"{type(serializer).__name__} gives no reason", (KEEP_OLD_TYPE,),
    )  # fmt: skip
    return attrs.evolve(result, findings=(silent,))


def judge_values(old: StateDescription, new: StateDescription) -> Judgement:
    """Judge the values of a state whose kind is the same on both sides (rule STATE-3), and find the old readers."""
    parts = _parts(old, new)
    result = _whole(old, new, parts)
    if new.value.converter is not None and parts:
        result, parts = _converted(result, parts, new.value.converter)
    if not result.is_migration_required():
        return Judgement(result, parts)
    return _with_readers(result, parts)


def _parts(old: StateDescription, new: StateDescription) -> tuple[Part, ...]:
    """Pair the pieces; the last is the one to which fallback and converter belong."""
    was, serializer, stored = old.value.snapshot, new.value.new_side(), old.value.stored
    if new.kind is StateKind.LIST:
        if not isinstance(serializer, ListSerializer) or was.kind != "list":
            return ()
        pieces = [(ELEMENT, was.children()[0], serializer.element, _child_of(stored, "element"))]
    elif new.kind is StateKind.MAP:
        if not isinstance(serializer, MapSerializer) or was.kind != "map":
            return ()
        pieces = [
            (USER_KEY, was.children()[0], serializer.key, _child_of(stored, "key")),
            (MAP_VALUE, was.children()[1], serializer.value, _child_of(stored, "value")),
        ]
    elif new.kind is StateKind.BROADCAST and old.key is not None and new.key is not None:
        pieces = [
            (USER_KEY, old.key.snapshot, new.key.new_side(), old.key.stored),
            (MAP_VALUE, was, serializer, stored),
        ]
    else:
        step = "" if new.kind.is_keyed else ELEMENT
        pieces = [(step, was, serializer, stored)]
    nullable = isinstance(serializer, MapSerializer) and new.kind is StateKind.MAP and serializer.nullable_values
    return tuple(
        Part(
            step, piece, piece_serializer, ask(piece_serializer, piece, "$" + step),
            nullable=nullable and step == MAP_VALUE, stored=load,
            fallback=new.value.fallback if index == len(pieces) - 1 else None,
        )
        for index, (step, piece, piece_serializer, load) in enumerate(pieces)
    )  # fmt: skip


def _child_of(stored: Callable[[], TypeSerializer[Any]] | None, name: str) -> Callable[[], TypeSerializer[Any]] | None:
    if stored is None:
        return None
    load = stored

    def child() -> TypeSerializer[Any]:
        serializer: TypeSerializer[Any] = getattr(load(), name)
        return serializer

    return child


def _whole(old: StateDescription, new: StateDescription, parts: tuple[Part, ...]) -> CompatibilityResult[Any]:
    """Give the answer for the state as its metadata describes it."""
    if new.kind in {StateKind.LIST, StateKind.MAP} or not parts:
        return ask(new.value.new_side(), old.value.snapshot, "$")
    findings = tuple(finding.below(part.step) for part in parts for finding in part.result.findings)
    if new.kind is StateKind.BROADCAST and parts[0].result.is_migration_required():
        collision = Finding(
            "$" + USER_KEY, "MAP-3", Verdict.REQUIRES_MIGRATION, parts[0].old.describe(), parts[0].new.describe(),
            "two old keys that become one would abort the migration", (KEEP_OLD_TYPE,), (Flag.COLLISION_CHECK,),
        )  # fmt: skip
        findings = (collision, *findings)
    if len(parts) == 1:
        return attrs.evolve(parts[0].result, findings=findings)
    verdict = worst([part.result.verdict for part in parts])
    if verdict is Verdict.COMPATIBLE_AFTER_RECONFIGURATION:
        return CompatibilityResult.compatible_after_reconfiguration(parts[-1].effective_serializer, *findings)
    return CompatibilityResult(verdict, findings)


def _converted(
    result: CompatibilityResult[Any], parts: tuple[Part, ...], converter: Converter
) -> tuple[CompatibilityResult[Any], tuple[Part, ...]]:
    """Let a converter decide what the value part becomes; what the rules found stays told, as a migration."""
    *others, value = parts
    if value.result.verdict < Verdict.REQUIRES_MIGRATION:
        return result, parts
    lowest = Verdict.REQUIRES_MIGRATION
    way_out = (f"converter {converter.name} decides",)

    def lowered(finding: Finding) -> Finding:
        if finding.verdict < Verdict.REQUIRES_MIGRATION or not finding.path.startswith("$" + value.step):
            return finding
        return attrs.evolve(finding, verdict=Verdict.REQUIRES_MIGRATION, ways_out=way_out)

    own: CompatibilityResult[Any] = CompatibilityResult.requires_migration(
        *(attrs.evolve(finding, verdict=min(finding.verdict, lowest)) for finding in value.result.findings),
        fallback=value.result.fallback,
        conversion=_lifted(value, converter),
    )  # fmt: skip
    verdict = worst([own.verdict, *(part.result.verdict for part in others)])
    whole: CompatibilityResult[Any] = CompatibilityResult(
        verdict, tuple(map(lowered, result.findings)), fallback=own.fallback
    )
    return whole, (*others, attrs.evolve(value, result=own))


@attrs.frozen
class _UnderStamp:
    """Converts what lies behind the time stamp of a value with ttl, and keeps the stamp."""

    function: Callable[[Any], Any]

    def __call__(self, stamped: Any) -> Any:
        return attrs.evolve(stamped, value=self.function(stamped.value))


def _lifted(part: Part, converter: Converter) -> Callable[[Any], Any]:
    """Let a converter see bare values, where both sides have ttl."""
    if part.old.kind == part.new.snapshot_configuration().kind == "ttl":
        return _UnderStamp(converter.function)
    return converter.function


def _with_readers(result: CompatibilityResult[Any], parts: tuple[Part, ...]) -> Judgement:
    """Find who reads each rewritten part; a migration that nothing can read is none (rules READ-3, READ-4, READ-6)."""
    found, verdict, missing = [], result.verdict, []
    for part in parts:
        if not part.is_rewritten:
            found.append(part)
            continue
        try:
            with_reader = part.find_reader()
        except OldReaderUnavailable as error:
            missing.append(
                Finding(
                    "$" + part.step, "READ-4", Verdict.INCOMPATIBLE, part.old.describe(), part.new.describe(),
                    "nothing can read the stored values: " + "; ".join(error.reasons),
                    (OldReaderUnavailable.advice,),
                )
            )  # fmt: skip
            found.append(part)
            continue
        found.append(with_reader)
        if with_reader.reader is not None and with_reader.reader.source is ReaderSource.FALLBACK:
            verdict = max(verdict, Verdict.REQUIRES_MIGRATION_WITH_FALLBACK)
    if missing:
        return Judgement(CompatibilityResult.incompatible(*missing, *result.findings), tuple(found))
    return Judgement(attrs.evolve(result, verdict=verdict), tuple(found))
