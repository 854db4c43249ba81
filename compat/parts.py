"""The separately encoded parts of a state's entries, and the verdict on each.

Entries of list state hold elements and no list, and entries of map state hold user keys and values and no map (format
notes 5.3), while the metadata describes the list or the map. So the verdict on a state comes from its whole serializer,
and the migration reads, converts and writes the parts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import attrs

from ..serializers.compatibility import CompatibilityResult, Finding, Flag, Verdict, worst
from ..serializers.containers.lists import ListSerializer, MapSerializer
from ..serializers.containers.ttl import Stamped, Stripped, TtlSerializer
from ..serializers.containers.wrappers import OptionalSerializer, without_ttl_awareness
from ..serializers.errors import CompatibilityCheckError, OldReaderUnavailable, StateShiftError, cause_text, located
from ..serializers.serializer import KEEP_OLD_TYPE
from ..serializers.stored_names import known_name
from ..serializers.ways_out import by_migration
from .description import ELEMENT, MAP_VALUE, USER_KEY, StateKind, ValueFraming, tells_all
from .old_reader import OldReader, ReaderSource, find_old_reader, is_gone
from .one_time_changes import about_columns, about_converter
from .reference_time import length_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ..serializers.serializer import TypeDeserializer, TypeSerializer
    from ..serializers.snapshot import TypeSerializerConfigSnapshot
    from .description import Converter, SerializerDescription, StateDescription

_OFF_WAYS = (by_migration("the time stamps are removed"), "declare the state with time to live, as it was stored")


@attrs.frozen
class Part:
    """A part of an entry: its stored type, its new type, and the comparison of the two.

    Attributes:
        step: The path from the state's root: "", `[]`, `<key>` or `{}`.
        old: The snapshot of the stored part.
        new: The serializer of the new part.
        result: The new serializer's answer, or the conversion by a converter.
        reader: The reader of the old bytes; None if they need not be read.
        nullable: Whether the new side allows a null here, stored in the entry's own flag (values of map state).
        rewrapped: Whether `result` comes from another serializer than `new`: one that keeps a null flag of the stored
            bytes which `new` does not write.
        is_unframed: Whether only the old serializer can tell where the part ends, so that it is needed even if the
            bytes stay: keys and values of a broadcast map.
        stored: Loads the part's serializer stored beside the savepoint.
        fallback: The job's deserializer for the part.
        trust: The names of the pickled classes that the caller trusts.
    """

    step: str
    old: TypeSerializerConfigSnapshot[Any]
    new: TypeSerializer[Any]
    result: CompatibilityResult[Any]
    reader: OldReader | None = None
    nullable: bool = False
    rewrapped: bool = False
    is_unframed: bool = False
    stored: Callable[[], TypeSerializer[Any]] | None = attrs.field(default=None, eq=False)
    fallback: TypeDeserializer[Any] | None = attrs.field(default=None, eq=False)
    trust: tuple[str, ...] = ()

    @property
    def is_rewritten(self) -> bool:
        """Whether a migration of the state decodes this part; otherwise, its bytes stay as they are."""
        return self.rewrapped or not self.result.is_compatible_as_is()

    @property
    def effective_serializer(self) -> TypeSerializer[Any]:
        """The reader of the stored bytes if nothing is rewritten: the reconfigured copy, if there is one."""
        result = self.result
        return result.reconfigured_serializer if result.is_compatible_after_reconfiguration() else self.new

    @property
    def had_stamps(self) -> bool:
        """Whether each stored part has a time stamp."""
        return without_ttl_awareness(self.old).kind == "ttl"

    @property
    def gets_stamps(self) -> bool:
        """Whether each new part has a time stamp."""
        return isinstance(self.new, TtlSerializer)

    @property
    def stamps_nulls(self) -> bool:
        """Whether a null in the entry's own flag gets a time stamp in a migration that adds time stamps."""
        if not isinstance(self.new, TtlSerializer) or self.had_stamps or not self.nullable:
            return False
        return isinstance(self.new.value, OptionalSerializer) or bool(getattr(self.new.value, "allow_null", False))

    @property
    def bare(self) -> CompatibilityResult[Any]:
        """The answer about the value behind the time stamp if only one side has time stamps; else about the part."""
        if self.had_stamps is self.gets_stamps or not self.result.children:
            return self.result
        return self.result.children[0].result

    def find_reader(self) -> Part:
        """Return the part with its old reader; raises `OldReaderUnavailable`."""
        fallback = self.fallback
        if fallback is not None and self.had_stamps:
            fallback = TtlSerializer(cast("TypeSerializer[Any]", fallback))
        trusted = set(map(known_name, self.trust))
        reader = find_old_reader(
            self.old,
            obstacles=[
                one
                for one in self.result.obstacles
                if not one.is_of_writer and (not one.lifted_by or one.lifted_by not in trusted)
            ],
            stored=self.stored,
            fallbacks=(self.result.fallback, fallback),
        )
        return attrs.evolve(self, reader=reader)


@attrs.frozen
class Judgement:
    """The result for a state's values, and the parts it comes from (none if they cannot be paired)."""

    result: CompatibilityResult[Any]
    parts: tuple[Part, ...] = ()


def ask(
    serializer: TypeSerializer[Any], snapshot: TypeSerializerConfigSnapshot[Any], path: str
) -> CompatibilityResult[Any]:
    """Ask the new side about a snapshot; a failure is an error with the path, never a verdict (rules V-1, V-6).

    Raises:
        CompatibilityCheckError: The serializer raised an error of its own.
    """
    with located(path=path):
        try:
            result = serializer.ensure_compatibility(without_ttl_awareness(snapshot))
        except StateShiftError:
            raise
        except Exception as error:
            raise CompatibilityCheckError(
                f"{type(serializer).__name__} failed when checking the stored {snapshot.describe()}: "
                f"{cause_text(error)}",
                advice="correct its ensure_compatibility; it must return a result for every snapshot",
                written="Nothing was changed.",
            ) from error
    if result.verdict < Verdict.REQUIRES_MIGRATION or result.findings:
        return result
    silent = Finding(
        "$", "COMP-6", result.verdict, snapshot.describe(), serializer.describe(),
        f"{type(serializer).__name__} gives no reason", (KEEP_OLD_TYPE,),
    )  # fmt: skip
    return attrs.evolve(result, findings=(silent,))


def judge_values(old: StateDescription, new: StateDescription) -> Judgement:
    """Judge the values of a state with the same kind on both sides (rule STATE-3), and find the old readers."""
    sides = [(old.value, new.value), *([(old.key, new.key)] if old.key and new.key else [])]
    if all(becomes.repeats(was) for was, becomes in sides):
        return Judgement(CompatibilityResult.compatible())
    judged = _judge(old, new)
    if new.value.converter is not None and judged.parts:
        judged = _converted(judged, new.value.converter, old.value)
    else:
        judged = attrs.evolve(judged, result=about_columns(judged.result, old.value))
    if not judged.result.is_migration_required():
        return _with_lost_readers(judged) if judged.result.is_incompatible() else judged
    judged = _with_stamps(judged, new)
    lost = [unread(old, new)] if old.value.unread else list(_unwritten(judged, old, new))
    if lost:
        return Judgement(CompatibilityResult.incompatible(*lost, *judged.result.findings))
    return with_readers(judged) if judged.parts else _without_parts(judged.result, old, new)


def _unwritten(judged: Judgement, old: StateDescription, new: StateDescription) -> Iterator[Finding]:
    """Refuse to rewrite values that the new side can read in place, but does not write (REC-14)."""
    ways = ("decorate the class with @record", "declare by an alias which registered subclass takes its values")
    results = (judged.result, *(part.result for part in judged.parts))
    reasons = [one.reason for result in results for one in result.obstacles if one.is_of_writer]
    for reason in dict.fromkeys(reasons):
        yield Finding("$", "REC-14", Verdict.INCOMPATIBLE, old.describe(), new.describe(), reason, ways)


def unread(old: StateDescription, new: StateDescription) -> Finding:
    """Refuse a migration of values that this release cannot read although their snapshot may be restored."""
    ways = ("take the savepoint in the canonical format", KEEP_OLD_TYPE)
    return Finding("$", "READ-4", Verdict.INCOMPATIBLE, old.describe(), new.describe(), old.value.unread, ways)


def _judge(old: StateDescription, new: StateDescription) -> Judgement:
    """Ask the new side; fallback and converter apply to the last part."""
    serializer, was, stored = new.value.new_side(), old.value.snapshot, old.value.stored
    if new.kind is StateKind.BROADCAST and old.key is not None and new.key is not None:
        return _judge_broadcast(old, new, old.key, new.key)
    if new.kind.row.pieces:
        result = ask(serializer, old.value.told, "$")
        return Judgement(result, _pieces(result, serializer, old, new))
    step = "" if new.kind.is_keyed else ELEMENT
    answer = ask(serializer, old.value.told, "$" + step)
    part = Part(step, was, serializer, answer, stored=stored, fallback=new.value.fallback, trust=old.value.trust)
    findings = tuple(finding.below(step) for finding in part.result.findings)
    return Judgement(attrs.evolve(part.result, findings=findings), (part,))


_WHOLE: dict[ValueFraming | None, type] = {ValueFraming.SEPARATED: ListSerializer, ValueFraming.NULLABLE: MapSerializer}


def exposes_pieces(kind: StateKind, serializer: TypeSerializer[Any]) -> bool:
    """Whether the serializer of a state shows the parts of its entries: for list and map state only our own do."""
    return not kind.row.pieces or isinstance(serializer, _WHOLE[kind.row.framing])


def _pieces(
    result: CompatibilityResult[Any],
    serializer: TypeSerializer[Any],
    old: StateDescription,
    new: StateDescription,
) -> tuple[Part, ...]:
    """Return the parts of list and map state from the answer about the whole; empty if they could not be paired."""
    names, nullable = tuple(name for _, name in new.kind.row.pieces), False
    snapshots = without_ttl_awareness(old.value.snapshot).children()
    if not exposes_pieces(new.kind, serializer) or not len(names) == len(snapshots) == len(result.children):
        return ()
    if isinstance(serializer, MapSerializer):
        value = serializer.value
        behind = value.value if isinstance(value, TtlSerializer) else value
        nullable = serializer.nullable_values or isinstance(behind, OptionalSerializer)
    return tuple(
        Part(
            child.step,
            snapshot,
            getattr(serializer, name),
            child.result,
            nullable=nullable and child.step == MAP_VALUE,
            rewrapped=child.serializer is not getattr(serializer, name),
            stored=stored_child(old.value.stored, name),
            fallback=new.value.fallback if name != "key" else None,
            trust=old.value.trust,
        )
        for name, snapshot, child in zip(names, snapshots, result.children, strict=True)
    )


def _judge_broadcast(
    old: StateDescription, new: StateDescription, old_key: SerializerDescription, new_key: SerializerDescription
) -> Judgement:
    """Judge broadcast state: a map without null flags; its key may migrate, as it has no key group (rules 8.3)."""
    serializer, key_serializer, was = new.value.new_side(), new_key.new_side(), old.value.snapshot
    key_result = ask(key_serializer, old_key.told, "$" + USER_KEY)
    result = ask(serializer, old.value.told, "$" + MAP_VALUE)
    key = Part(
        USER_KEY, old_key.snapshot, key_serializer, key_result,
        is_unframed=True, stored=old_key.stored, fallback=new_key.fallback, trust=old.value.trust,
    )  # fmt: skip
    value = Part(
        MAP_VALUE, was, serializer, result,
        is_unframed=True, stored=old.value.stored, fallback=new.value.fallback, trust=old.value.trust,
    )  # fmt: skip
    findings = tuple(finding.below(part.step) for part in (key, value) for finding in part.result.findings)
    if key_result.is_migration_required():
        collision = Finding(
            "$" + USER_KEY, "MAP-3", Verdict.REQUIRES_MIGRATION, old_key.describe(), new_key.describe(),
            "two stored keys that become one would abort the migration",
            (by_migration("it is checked"), KEEP_OLD_TYPE), (Flag.COLLISION_CHECK,),
        )  # fmt: skip
        findings = (collision, *findings)
    verdict = worst([key_result.verdict, result.verdict])
    reconfigured = None
    if verdict is Verdict.COMPATIBLE_AFTER_RECONFIGURATION:
        reconfigured = value.effective_serializer
    return Judgement(CompatibilityResult(verdict, findings, reconfigured=reconfigured), (key, value))


def _without_parts(result: CompatibilityResult[Any], old: StateDescription, new: StateDescription) -> Judgement:
    """Refuse a migration of entries without known parts: a custom serializer is used for the list or map."""
    finding = Finding(
        "$", "STATE-3", Verdict.INCOMPATIBLE, old.describe(), new.describe(),
        f"the entries of {new.kind} state are its parts, which {type(new.value.new_side()).__name__} does not expose",
        (f"describe {new.kind} state with stateshift's own {new.kind} serializer", KEEP_OLD_TYPE),
    )  # fmt: skip
    return Judgement(CompatibilityResult.incompatible(finding, *result.findings))


def stored_child(
    stored: Callable[[], TypeSerializer[Any]] | None, name: str
) -> Callable[[], TypeSerializer[Any]] | None:
    """Return a loader for a part of the serializer stored beside the savepoint; None if there is none."""
    if stored is None:
        return None
    load = stored

    def child() -> TypeSerializer[Any]:
        serializer: TypeSerializer[Any] = getattr(load(), name)
        return serializer

    return child


def _converted(judged: Judgement, converter: Converter, old: SerializerDescription) -> Judgement:
    """Use a converter for the value part; findings of the rules are kept, as reasons for a migration.

    Their flags are removed: they name losses in a conversion by the rules, while the converter gets the whole old
    value.
    """
    *others, value = judged.parts
    if value.bare.verdict < Verdict.REQUIRES_MIGRATION:
        words = value.old.describe(), value.new.describe()
        once = about_converter(converter, old, "$" + value.step, words)
        if once.verdict is not Verdict.REQUIRES_MIGRATION:
            return attrs.evolve(judged, result=judged.result.preceded_by(once))
        judged = attrs.evolve(judged, result=attrs.evolve(judged.result, findings=(once, *judged.result.findings)))
    elif converter.name in old.done and not tells_all(value.old):
        called = about_converter(converter, old, "$" + value.step, (value.old.describe(), value.new.describe()))
        ways = ("name the job that wrote this savepoint, after the migration",)
        again = attrs.evolve(called, verdict=Verdict.INCOMPATIBLE, ways_out=ways)
        return Judgement(CompatibilityResult.incompatible(again, *judged.result.findings))
    way_out = (f"converter {converter.name} decides",)

    def lowered(finding: Finding) -> Finding:
        is_about = finding.path.is_within("$" + value.step) and finding.rule not in {"STATE-4", "STATE-5"}
        if finding.verdict < Verdict.REQUIRES_MIGRATION or not is_about:
            return finding
        return attrs.evolve(finding, verdict=Verdict.REQUIRES_MIGRATION, ways_out=way_out, flags=())

    own: CompatibilityResult[Any] = CompatibilityResult.requires_migration(
        fallback=value.result.fallback, conversion=_lifted(value, converter)
    )
    verdict = worst([own.verdict, *(part.result.verdict for part in others)])
    findings = tuple(map(lowered, judged.result.findings))
    return Judgement(CompatibilityResult(verdict, findings), (*others, attrs.evolve(value, result=own)))


@attrs.frozen
class _UnderStamp:
    """Converts the value behind the time stamp of a value with TTL, and keeps the stamp."""

    function: Callable[[Any], Any]

    def __call__(self, stamped: Any) -> Any:
        return attrs.evolve(stamped, value=self.function(stamped.value))


def _lifted(part: Part, converter: Converter) -> Callable[[Any], Any]:
    """Adapt a converter of bare values to the time stamps of either side."""
    function = converter.function
    if part.had_stamps:
        return _UnderStamp(function) if part.gets_stamps else Stripped(function)
    return Stamped(function) if part.gets_stamps else function


def _with_stamps(judged: Judgement, new: StateDescription) -> Judgement:
    """Extend the findings on added or removed time stamps with facts of the whole state (rules STATE-4 and STATE-5)."""
    parts = {"$" + part.step: part for part in judged.parts}

    def told(finding: Finding) -> Finding:
        part = parts.get(finding.path)
        if finding.rule == "STATE-4" and part is not None and part.nullable and not part.stamps_nulls:
            reason = (
                f"{finding.reason}; a null that the type cannot encode gets no time stamp, and Flink does not list it"
            )
            return attrs.evolve(finding, reason=reason, flags=(Flag.LOSSY,))
        if finding.rule == "STATE-5" and part is not None and new.kind.is_keyed:
            lived = new.former_time_to_live
            if lived is None:  # expired values come back, and cannot be identified
                return attrs.evolve(finding, flags=(*finding.flags, Flag.UNVERIFIED))
            reason = (
                "time to live is switched off; what has expired, "
                f"{length_text(lived)} after its last access, is left out and counted"
            )
            return attrs.evolve(finding, reason=reason, ways_out=_OFF_WAYS)
        return finding

    findings = tuple(map(told, judged.result.findings))
    return attrs.evolve(judged, result=attrs.evolve(judged.result, findings=findings))


def _with_lost_readers(judged: Judgement) -> Judgement:
    """Add to a refusal that the old class is gone, as then a converter, which the rules propose, does not suffice.

    If the class exists, no reader is looked for (rule READ-7).
    """
    gone = tuple(part for part in judged.parts if part.is_rewritten and is_gone(part.old))
    lost = with_readers(attrs.evolve(judged, parts=gone)).result.findings if gone else judged.result.findings
    return attrs.evolve(judged, result=attrs.evolve(judged.result, findings=lost))


def with_readers(judged: Judgement) -> Judgement:
    """Find the reader of each rewritten part; a migration without one is refused (rules READ-3, READ-4, READ-6)."""
    result, found, missing = judged.result, [], []
    verdict = result.verdict
    for part in judged.parts:
        if not part.is_rewritten and not part.is_unframed:
            found.append(part)
            continue
        try:
            with_reader = part.find_reader()
        except OldReaderUnavailable as error:
            missing.append(
                Finding(
                    "$" + part.step, "READ-4", Verdict.INCOMPATIBLE, part.old.describe(), part.new.describe(),
                    "nothing can read the stored values: " + "; ".join(error.reasons),
                    error.ways_out,
                )
            )  # fmt: skip
            found.append(part)
            continue
        by_snapshot = with_reader.reader is not None and with_reader.reader.source is ReaderSource.SNAPSHOT
        found.append(part if by_snapshot and not part.is_rewritten else with_reader)
        if with_reader.reader is not None and with_reader.reader.source is ReaderSource.FALLBACK:
            verdict = max(verdict, Verdict.REQUIRES_MIGRATION_WITH_FALLBACK)
    if missing:
        return Judgement(CompatibilityResult.incompatible(*missing, *result.findings), tuple(found))
    return Judgement(attrs.evolve(result, verdict=verdict), tuple(found))
