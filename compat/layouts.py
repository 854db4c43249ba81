"""State that one side has as PyFlink's process mode keeps it, and the other as its thread mode or Flink itself does.

The same state of a function is stored in three layouts, of which PyFlink and Flink each find their own alone:

    process mode   python-state-NAME, lists and maps of bytes that coders made   keys: a row of one column
    thread mode    NAME, of Java's types, rows and tuples as pickles             keys: a row of one column
    Flink's own    NAME, of the types as they are declared                       keys: as they are declared

States are paired whatever the layout. What a key has is then read as one layout has it, and written as the other does
(PYF-3): a transform that follows from both sides. The key becomes a row of one column, or is that column, where keys
may be rewritten. Bytes of which nothing is known are taken for what the new side declares, as in PYF-1.
"""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, Any

import attrs

from ..serializers.compatibility import CompatibilityResult, Finding, Flag, Verdict
from ..serializers.containers.arrays import BytePrimitiveArraySerializerSnapshot, BytesSerializer
from ..serializers.containers.lists import ListSerializer, MapSerializer
from ..serializers.containers.ttl import TtlSerializer, TtlValue
from ..serializers.containers.wrappers import TtlAwareSerializerSnapshot, without_ttl_awareness
from ..serializers.errors import CorruptSavepoint, DeclarationError, ValueNotConvertible, at_step, shown
from ..serializers.flink.namespaces import TimerSerializerSnapshot, VoidNamespaceSerializer
from ..serializers.pickled.serializers import PickledSnapshot, PickleSerializer
from ..serializers.pickled.values import PickledValue
from ..serializers.pyflink import coder_for, java_type
from ..serializers.pyflink.byte_keys import ByteArrayWrapperSerializerSnapshot
from ..serializers.pyflink.contents import (
    ContentSerializer,
    ContentSnapshot,
    ConvertEach,
    PyFlinkBytes,
    PyFlinkElements,
    PyFlinkKey,
    PyFlinkPickle,
)
from ..serializers.rows.values import Row
from ..serializers.snapshot import snapshot_to_bytes
from ..serializers.views import DataInputView, DataOutputView
from ..serializers.ways_out import by_migration
from .description import (
    ELEMENT,
    MAP_VALUE,
    USER_KEY,
    Converter,
    JobDescription,
    OperatorDescription,
    StateDescription,
    StateKind,
    StateTransform,
)
from .lazy_tables import state_in, table_of
from .parts import ask, exposes_pieces
from .pyflink_names import PREFIX, column_of, has_row

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ..serializers.serializer import TypeSerializer
    from ..serializers.snapshot import TypeSerializerConfigSnapshot

    Snapshot = TypeSerializerConfigSnapshot[Any]
    Convert = Callable[[Any], Any]

_WITH_USERS, _OF_WINDOWS = "_user-timers", "_window-timers"
_NO_WINDOW = VoidNamespaceSerializer().snapshot_configuration().describe()
_RULE, _BYTES_RULE, _OTHER_FAMILY = "PYF-3", "PYF-1", "FAM-4"


def across_layouts(old: JobDescription, new: JobDescription) -> tuple[JobDescription, JobDescription]:
    """Return both sides with the states paired that one has in another layout than the other, and how they change.

    Args:
        old: The stored state, with what is known of PyFlink's bytes.
        new: The side that takes it over; a probe has no types of PyFlink's states, and is left as it is.
    """
    theirs = {one.operator_id: one for one in new.operators}
    changed = {}
    for was in old.operators:
        becomes = theirs.get(was.operator_id)
        if becomes is not None and (found := _across(was, becomes)) is not None:
            changed[was.operator_id] = found
    if not changed:
        return old, new
    olds, news = (
        tuple(changed[one.operator_id][side] if one.operator_id in changed else one for one in of.operators)
        for side, of in enumerate((old, new))
    )
    return attrs.evolve(old, operators=olds), attrs.evolve(new, operators=news)


def changes_keys(old: JobDescription, new: JobDescription) -> bool:
    """Whether one side has the keys of an operator in rows of one column, as PyFlink has them, and the other plain."""
    theirs = {one.operator_id: one for one in new.operators}
    return any(_key(one, theirs[one.operator_id]) is not None for one in old.operators if one.operator_id in theirs)


def _across(
    was: OperatorDescription, becomes: OperatorDescription
) -> tuple[OperatorDescription, OperatorDescription] | None:
    key = _key(was, becomes)
    olds, news = list(was.states), list(becomes.states)
    places: dict[tuple[str, str], list[int]] = {}
    for at, state in enumerate(olds):
        places.setdefault((state.kind.scope, state_in(state.name)), []).append(at)
    names = {(state.kind.scope, state.name) for state in news}
    sides = _Sides(has_row(was), has_row(becomes))
    is_found = False
    for place, declared in enumerate(news):
        is_named = declared.name.startswith(PREFIX)  # without a coder it is declared as it is stored
        if (
            declared.value.serializer is None
            or declared.kind is StateKind.TIMERS
            or is_named is not _has_coder(declared)
        ):
            continue
        here, there = ((declared.kind.scope, name) for name in (declared.name, _elsewhere(declared.name)))
        found = places.get(here, []) or ([] if there in names else places.get(there, []))
        for at in found:
            if not olds[at].is_dropped and sides.are_apart(olds[at], declared):
                is_found = True
                olds[at], news[place] = sides.paired(olds[at], declared)
    if key is None and not is_found:
        return None
    sides_in_process = any(map(_is_of_process, was.states)), any(map(_has_coder, becomes.states))
    olds = [_with_queue(one, *sides_in_process) for one in olds]
    return attrs.evolve(was, states=tuple(olds)), attrs.evolve(becomes, states=tuple(news), key=key or becomes.key)


def _with_queue(state: StateDescription, was_process: bool, becomes_process: bool) -> StateDescription:  # noqa: FBT001
    """Return a queue of timers of windows with its name in the other layout: in process mode, that of functions."""
    snapshot = state.value.snapshot
    if state.kind is not StateKind.TIMERS or was_process is becomes_process or state.is_dropped:
        return state
    if not isinstance(snapshot, TimerSerializerSnapshot) or snapshot.nested[1].describe() == _NO_WINDOW:
        return state
    before, after = (_WITH_USERS, _OF_WINDOWS) if was_process else (_OF_WINDOWS, _WITH_USERS)
    if not state.name.endswith(before):
        return state
    name = state.name.removesuffix(before) + after
    return attrs.evolve(state, name=name, stored_name=state.stored_name or state.name)


def _elsewhere(name: str) -> str:
    """Return the name that a state has in the other layouts."""
    return name.removeprefix(PREFIX) if name.startswith(PREFIX) else PREFIX + name


def _is_of_process(state: StateDescription) -> bool:
    """Whether a stored state is one of process mode."""
    is_named = (state.stored_name or state.name).startswith(PREFIX)
    return is_named and isinstance(_stored(state), BytePrimitiveArraySerializerSnapshot)


def _has_coder(state: StateDescription) -> bool:
    """Whether a state is declared as one of process mode, whose bytes a coder makes."""
    return isinstance(_declared(state), PyFlinkBytes | PyFlinkElements)


def _stored(state: StateDescription) -> Snapshot:
    """Return the snapshot of a value, an element, or a map's value, without its time stamp."""
    whole = without_ttl_awareness(state.value.snapshot)
    item = whole.children()[-1] if state.kind.row.pieces and whole.children() else whole
    return item.children()[-1] if item.kind == "ttl" else item


def _declared(state: StateDescription) -> Any:
    """Return the serializer of a value, an element, or a map's value, without its time stamp."""
    item = state.kind.item_of(state.value.new_side())
    return item.value if isinstance(item, TtlSerializer) else item


def _content(serializer: Any) -> Any:
    return serializer.content if isinstance(serializer, ContentSerializer) else serializer


def _stored_content(snapshot: Snapshot) -> Snapshot:
    return snapshot.content if isinstance(snapshot, ContentSnapshot) and snapshot.content is not None else snapshot


# Keys


@attrs.frozen
class _OfRow:
    """Returns the key in a row of one column."""

    convert: Convert | None

    def __call__(self, row: Any) -> Any:
        return row[0] if self.convert is None else self.convert(row[0])


@attrs.frozen
class _AsRow:
    """Returns a row of one column, the key."""

    convert: Convert | None

    def __call__(self, key: Any) -> Any:
        return Row(key if self.convert is None else self.convert(key))


def _key(was: OperatorDescription, becomes: OperatorDescription) -> Any:
    """Return the declaration of the new key with the conversion that follows from the layouts; None: there is none."""
    old, new = was.key, becomes.key
    if old is None or new is None or new.serializer is None or new.converter is not None:
        return None
    stored, given = column_of(old.snapshot), column_of(new.snapshot)
    if (stored is None) is (given is None):
        return None
    serializer: Any = new.serializer
    asked = serializer if given is None else serializer.columns[0].serializer
    result = ask(asked, old.snapshot if stored is None else stored, "$<key>")
    if result.is_incompatible() or result.obstacles:
        return None
    of = _OfRow(result.conversion) if given is None else _AsRow(result.conversion)
    name = "the column of the row" if given is None else "a row of the key"
    return attrs.evolve(new, converter=Converter(name, of))


# States


@attrs.frozen
class _Sides:
    """Where each side has its keys: in a row of one column, as PyFlink has them, or plain."""

    was_row: bool
    becomes_row: bool

    def are_apart(self, old: StateDescription, new: StateDescription) -> bool:
        """Whether a state is in different layouts, and not taken over by the rules of its types alone."""
        is_transformed = new.transform is not None and (_is_of_process(old) or _has_coder(new))
        if is_transformed or _is_of_process(old) is not _has_coder(new):
            return True
        if _is_of_process(old) or self.was_row is self.becomes_row or not new.kind.has_values:
            return False
        return old.kind is not new.kind or ask(new.value.new_side(), old.value.told, "$").is_incompatible()

    def paired(self, old: StateDescription, new: StateDescription) -> tuple[StateDescription, StateDescription]:
        """Return both sides of a state with equal names, and with how its values change."""
        told, findings = _told(old, new)
        name = table_of(new.name, told.name)
        if told.name != name:
            told = attrs.evolve(told, name=name, stored_name=told.stored_name or told.name)
        if not new.kind.has_values or not exposes_pieces(new.kind, new.value.new_side()):
            return told, new
        before = _layout(is_process=_is_of_process(old), has_row=self.was_row)
        after = _layout(is_process=_has_coder(new), has_row=self.becomes_row)
        first = Finding(
            "$<state>", _RULE, Verdict.REQUIRES_MIGRATION, before, after,
            "in one layout the state of the other is not found: PyFlink and Flink start empty in silence",
            (by_migration("each value is read as in the one, and written as in the other"),
             "go on in the execution mode, or with the program, that wrote it"),
        )  # fmt: skip
        function = "the change of layout" if new.value.converter is None else new.value.converter.name
        if given := new.transform:
            function = given.name
            words = f"{given.old_kind} state, {told.describe()}", f"{new.kind} state, {new.describe()}"
            reason = f"the transform {function} converts all that a key has"
            transformed = Finding("$<state>", "STATE-2", Verdict.REQUIRES_MIGRATION, *words, reason, (by_migration(),))
            findings = (transformed, *findings)
        change, others = _change(told, new)
        firsts = (first,) if before != after else ()
        transform = StateTransform(told.kind, function, change, (*firsts, *findings, *others))
        return told, attrs.evolve(new, transform=transform)


def _layout(*, is_process: bool, has_row: bool) -> str:
    return "PyFlink's process mode" if is_process else "PyFlink's thread mode" if has_row else "Flink's own types"


def _told(old: StateDescription, new: StateDescription) -> tuple[StateDescription, tuple[Finding, ...]]:
    """Return the stored state, bytes of which nothing is known taken for what is declared, and what is found on it."""
    try:
        told = _taken(old, new)
    except DeclarationError as error:
        words = old.describe(), new.describe()
        ways = ("declare a type that PyFlink has", "name the job that wrote the savepoint, which says what is stored")
        return old, (Finding("$", _RULE, Verdict.INCOMPATIBLE, *words, error.what, ways),)
    if told is old:
        return old, ()
    way = "name the job that wrote the savepoint, which says it"
    reason, flags = "the savepoint does not say what is in these bytes", (Flag.UNVERIFIED, Flag.MAY_FAIL_PER_VALUE)
    if new.transform is not None:
        reason += ", and a transform takes them by the types they have"
        return old, (Finding("$", _BYTES_RULE, Verdict.INCOMPATIBLE, old.describe(), new.describe(), reason, (way,)),)
    words = old.describe(), told.describe()
    return told, (Finding("$", _BYTES_RULE, Verdict.COMPATIBLE, *words, reason, (way,), flags),)


def _taken(old: StateDescription, new: StateDescription) -> StateDescription:
    """Return stored state whose bytes are taken for what is declared; raises `DeclarationError` without a coder."""
    whole, content = without_ttl_awareness(old.value.snapshot), _content(_declared(new))
    known: Any = None
    key: Any = None
    if type(_stored(old)) is BytePrimitiveArraySerializerSnapshot:
        if _is_of_process(old):
            known = (PyFlinkElements if new.kind is StateKind.LIST else PyFlinkBytes)(coder_for(content))
        elif content.snapshot_configuration().kind in {"row", "tuple"}:
            known = PyFlinkPickle(coder_for(content))
    serializer: Any = new.value.new_side()
    if old.kind is StateKind.BROADCAST:
        if old.key is not None and type(old.key.snapshot) is ByteArrayWrapperSerializerSnapshot and new.key is not None:
            key = PyFlinkKey(coder_for(_content(new.key.new_side())))
            old = attrs.evolve(old, key=attrs.evolve(old.key, snapshot=key.snapshot_configuration()))
    elif old.kind is StateKind.MAP and type(whole.children()[0]) is ByteArrayWrapperSerializerSnapshot:
        key = PyFlinkKey(coder_for(_content(serializer.key))) if isinstance(serializer, MapSerializer) else None
    return old if known is None and key is None else _with(old, known, key)


def _with(old: StateDescription, known: Any, key: Any) -> StateDescription:
    whole = without_ttl_awareness(old.value.snapshot)
    pieces = [one.restore_serializer() for one in whole.children()] if old.kind.row.pieces else []
    item: Any = (pieces or [whole.restore_serializer()])[-1]
    if known is not None:
        item = TtlSerializer(known) if isinstance(item, TtlSerializer) else known
    if old.kind is StateKind.LIST:
        item = ListSerializer(item)
    elif old.kind is StateKind.MAP:
        item = MapSerializer(pieces[0] if key is None else key, item)
    snapshot: Any = item.snapshot_configuration()
    if snapshot_to_bytes(snapshot) != snapshot_to_bytes(whole):
        return old
    stored = old.value.snapshot
    if isinstance(stored, TtlAwareSerializerSnapshot):
        snapshot = attrs.evolve(stored, inner=snapshot)
    return attrs.evolve(old, value=attrs.evolve(old.value, snapshot=snapshot))


# Values


class _Shape(enum.Enum):
    """What a key has, for the function."""

    SINGLE = enum.auto()
    LIST = enum.auto()
    MAP = enum.auto()


def _shape(kind: StateKind, *, is_single: bool) -> _Shape:
    if kind is StateKind.MAP:
        return _Shape.MAP
    return _Shape.LIST if kind is StateKind.LIST and not is_single else _Shape.SINGLE


@attrs.frozen
class _Form:
    """How what a key has is stored.

    Attributes:
        shape: What the key has.
        in_parts: Whether it is a list of bytes, as in process mode.
    """

    shape: _Shape
    in_parts: bool

    def read(self, stored: Any) -> Any:
        """Return what a key has, for the function."""
        if not self.in_parts or self.shape is _Shape.MAP:
            return stored
        return _only(stored) if self.shape is _Shape.SINGLE else list(_flat(stored))

    def write(self, value: Any) -> Any:
        """Return it as it is stored."""
        if not self.in_parts or self.shape is _Shape.MAP:
            return value
        if self.shape is _Shape.LIST:
            return _in_parts(value)
        return [] if value is None else [value]


@attrs.frozen
class _Values:
    """Converts the values of a key.

    Attributes:
        shape: What the key has.
        item: Converts each value; None: it stays.
        key: Converts each key of a map; None: it stays.
    """

    shape: _Shape
    item: Convert | None
    key: Convert | None

    def __call__(self, value: Any) -> Any:
        if self.shape is _Shape.MAP:
            with at_step(MAP_VALUE):
                return {key if self.key is None else self.key(key): self._converted(one) for key, one in value.items()}
        if self.shape is _Shape.LIST:
            with at_step(ELEMENT):
                return [self._converted(one) for one in value]
        return self._converted(value)

    def _converted(self, value: Any) -> Any:
        if isinstance(value, TtlValue):
            return TtlValue(value.last_access_ms, self._converted(value.value))
        return value if value is None or self.item is None else self.item(value)


@attrs.frozen
class _Change:
    """Reads what a key has as one layout has it, and returns it as another does.

    Attributes:
        before: How it is stored.
        after: How it is to be.
        convert: Converts what the function has; None: it stays.
    """

    before: _Form
    after: _Form
    convert: Convert | None = None

    def __call__(self, stored: Any) -> Any:
        value = self.before.read(stored)
        return self.after.write(value if self.convert is None else self.convert(value))


def _only(stored: list[Any]) -> Any:
    if len(stored) != 1:
        raise CorruptSavepoint(f"a key has {len(stored)} values in a state of one")
    return stored[0]


def _flat(stored: list[Any]) -> Iterator[Any]:
    for part in stored:
        if isinstance(part, TtlValue):
            yield from (TtlValue(part.last_access_ms, one) for one in part.value)
        else:
            yield from part


def _in_parts(elements: list[Any]) -> list[Any]:
    """Return elements as process mode keeps them: together, or each with its time stamp."""
    if any(isinstance(one, TtlValue) for one in elements):
        return [TtlValue(one.last_access_ms, [one.value]) for one in elements]
    return [elements] if elements else []


def _change(old: StateDescription, new: StateDescription) -> tuple[Any, tuple[Finding, ...]]:
    """Return what converts what a key has, and what is found on its values."""
    stored, declared = _stored(old), _declared(new)
    is_single = isinstance(stored, ContentSnapshot) and stored.reader is PyFlinkBytes
    before = _Form(_shape(old.kind, is_single=is_single), _is_of_process(old))
    after = _Form(_shape(new.kind, is_single=isinstance(declared, PyFlinkBytes)), _has_coder(new))
    taken = after.shape if new.transform is None else _shape(new.transform.old_kind, is_single=False)
    if before.shape is not taken:
        reason = "the two states are of different kinds for the function, whatever the layout"
        return _Change(before, after), (Finding(
            "$<state>", "STATE-1", Verdict.INCOMPATIBLE, old.describe(), new.describe(), reason,
            ("keep the kind of the state", "declare the new state under another name: the old one is kept"),
        ),)  # fmt: skip
    if new.transform is not None:
        return _Change(before, after, new.transform.function), ()
    step = {_Shape.MAP: MAP_VALUE, _Shape.LIST: ELEMENT, _Shape.SINGLE: ""}[before.shape]
    item, findings = _conversion(_content(declared), _stored_content(stored), step, new.value.converter)
    key = None
    if before.shape is _Shape.MAP:
        serializer: Any = new.value.new_side()
        user_key = without_ttl_awareness(old.value.snapshot).children()[0]
        key, more = _conversion(_content(serializer.key), _stored_content(user_key), USER_KEY)
        findings = (*more, *findings)
    return _Change(before, after, _Values(before.shape, item, key)), findings


@attrs.frozen
class _Exact:
    """Keeps a value that a narrower type holds exactly, as thread mode kept a wider one."""

    serializer: TypeSerializer[Any]

    def __call__(self, value: Any) -> Any:
        target = DataOutputView()
        self.serializer.serialize(value, target)
        if self.serializer.deserialize(DataInputView(target.getvalue())) != value:
            raise ValueNotConvertible(
                f"{shown(value)} is not exactly a {self.serializer.describe()}",
                advice="declare the wider type that thread mode has kept; or a converter that rounds",
            )
        return value


@attrs.frozen
class _AsPickle:
    """Takes bytes for a pickle, unopened."""

    class_name: str

    def __call__(self, data: bytes) -> PickledValue:
        return PickledValue(self.class_name, data)


def _pickle_bytes(value: PickledValue) -> bytes:
    return value.data


def _conversion(
    new: Any, old: Snapshot, step: str, converter: Converter | None = None
) -> tuple[Convert | None, tuple[Finding, ...]]:
    """Return how a value becomes one of the new type (None: it stays), and what is found on it."""
    if converter is not None:
        function = converter.function
        return function.convert if isinstance(function, ConvertEach) else function, ()
    if isinstance(new, PickleSerializer) and type(old) is BytePrimitiveArraySerializerSnapshot:
        return _AsPickle(new.fingerprint.name), ()
    if type(new) is BytesSerializer and isinstance(old, PickledSnapshot):
        return _pickle_bytes, ()
    result: CompatibilityResult[Any] = ask(new, old, "$" + step)
    if result.is_incompatible() and _is_kept_as(new, old):
        return _Exact(new), ()
    if result.is_incompatible() and _is_kept_as(old.restore_serializer(), new.snapshot_configuration()):
        return None, ()
    findings = tuple(
        one.below(step) for one in result.findings if one.rule != _OTHER_FAMILY or result.is_incompatible()
    )
    return result.conversion, findings


def _is_kept_as(narrow: Any, wide: Snapshot) -> bool:
    """Whether thread mode keeps a type as another one."""
    try:
        kept = java_type(narrow)
    except DeclarationError:
        return False
    return snapshot_to_bytes(kept.snapshot_configuration()) == snapshot_to_bytes(wide)
