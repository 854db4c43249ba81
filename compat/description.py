"""Descriptions of both sides of a check: the operators of a job and the types of their states.

A savepoint, a job in code and a recorded revision each produce a `JobDescription`. What a side does not know is left
empty: a savepoint has snapshots and no serializers.
"""

from __future__ import annotations

import enum
import hashlib
import json
import re
from functools import cached_property
from typing import TYPE_CHECKING, Any

import attrs
import mmh3

from ..serializers.displayed import Displayed
from ..serializers.errors import StateShiftError
from ..serializers.records.serializers import holds_nulls
from ..serializers.snapshot import recorded_to_bytes, require_readable, snapshot_to_bytes
from ..serializers.wording import many, repr_of
from .declarations import Facts, declared_facts, with_facts

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from datetime import timedelta

    from ..serializers.compatibility import Finding
    from ..serializers.serializer import TypeDeserializer, TypeSerializer
    from ..serializers.snapshot import TypeSerializerConfigSnapshot
    from ..serializers.spark_rows.spark_types import StoreSchema
    from .queries.inputs import Input
    from .queries.plan_text import Detail
    from .sql.query import SqlUpgrade


ELEMENT, USER_KEY, MAP_VALUE = "[]", "<key>", "{}"
"""Steps of a path into a state."""


class ValueFraming(enum.StrEnum):
    """What the value bytes of an entry hold: the value, the elements of a list, or a null flag and a map's value."""

    WHOLE = "whole"
    SEPARATED = "separated"
    NULLABLE = "nullable"


@attrs.frozen(kw_only=True)
class KindRow:
    """What makes a kind of state differ from the others.

    Attributes:
        scope: The scope within which names are unique: a keyed and an operator state of one operator may share a name.
        flink: Flink's name of the kind, an option of the state in the header of its stream; "" for timers.
        framing: What the value bytes of its entries hold; None: it has no entries with values.
        pieces: The parts of a value that are stored one by one: their steps, and the names of their serializers in that
            of the whole value. Without pieces the value is stored as a whole.
        descriptor: The name of the class that declares such a state.
        argument: The argument of `Operator` that takes these declarations.
        takes_function: Whether the second argument of the descriptor is a function.
    """

    scope: str = "keyed"
    flink: str
    framing: ValueFraming | None = None
    pieces: tuple[tuple[str, str], ...] = ()
    descriptor: str
    argument: str = "states"
    takes_function: bool = False


class StateKind(enum.StrEnum):
    """The kind of a state, as the program uses it."""

    VALUE = "value"
    LIST = "list"
    MAP = "map"
    REDUCING = "reducing"
    AGGREGATING = "aggregating"
    TIMERS = "timers"
    SPLIT_LIST = "split_list"
    UNION_LIST = "union_list"
    BROADCAST = "broadcast"

    row: KindRow

    @property
    def scope(self) -> str:
        """The scope within which names are unique: a keyed and an operator state of one operator may share a name."""
        return self.row.scope

    @property
    def is_keyed(self) -> bool:
        """Whether the state is stored in the keyed stream, under the operator's key."""
        return self.row.scope == "keyed"

    @property
    def has_values(self) -> bool:
        """Whether the state has values for each key: keyed state other than timers."""
        return self.row.framing is not None

    @property
    def has_user_keys(self) -> bool:
        """Whether an entry is one of a map: its key ends with a user key."""
        return self.row.framing is ValueFraming.NULLABLE

    @property
    def has_elements(self) -> bool:
        """Whether an entry is a list, with a byte between its elements."""
        return self.row.framing is ValueFraming.SEPARATED

    @property
    def root(self) -> str:
        """The path of a value in keyed state, of an element of a list, or of a value of a broadcast map."""
        return "$" if self.is_keyed else "${}" if self is StateKind.BROADCAST else "$[]"

    def item_of(self, serializer: Any) -> Any:
        """Return the serializer of a value, an element or a map's value within that of the whole; None if unknown."""
        return getattr(serializer, self.row.pieces[-1][1], None) if self.row.pieces else serializer


StateKind.VALUE.row = KindRow(flink="VALUE", framing=ValueFraming.WHOLE, descriptor="ValueStateDescriptor")
StateKind.LIST.row = KindRow(
    flink="LIST", framing=ValueFraming.SEPARATED, pieces=((ELEMENT, "element"),), descriptor="ListStateDescriptor"
)
StateKind.MAP.row = KindRow(
    flink="MAP", framing=ValueFraming.NULLABLE, pieces=((USER_KEY, "key"), (MAP_VALUE, "value")),
    descriptor="MapStateDescriptor",
)  # fmt: skip
StateKind.REDUCING.row = KindRow(
    flink="REDUCING", framing=ValueFraming.WHOLE, descriptor="ReducingStateDescriptor", takes_function=True
)
StateKind.AGGREGATING.row = KindRow(
    flink="AGGREGATING", framing=ValueFraming.WHOLE, descriptor="AggregatingStateDescriptor", takes_function=True
)
StateKind.TIMERS.row = KindRow(flink="", descriptor="TimerServiceDescriptor", argument="timers")
StateKind.SPLIT_LIST.row = KindRow(
    scope="operator", flink="SPLIT_DISTRIBUTE", descriptor="ListStateDescriptor", argument="list_states"
)
StateKind.UNION_LIST.row = KindRow(
    scope="operator", flink="UNION", descriptor="ListStateDescriptor", argument="union_list_states"
)
StateKind.BROADCAST.row = KindRow(
    scope="broadcast", flink="BROADCAST", descriptor="MapStateDescriptor", argument="broadcast_states"
)


def function_name(function: Callable[..., Any]) -> str:
    """Return the module and qualified name of a function or of a callable object's class."""
    kind = function if hasattr(function, "__qualname__") else type(function)
    module = getattr(kind, "__module__", None) or "builtins"  # methods of built-in types have no module
    return f"{module}.{kind.__qualname__}"


@attrs.frozen
class Converter:
    """A function from an old object to a new one, with its name in plans and lineage.

    It is called with the whole value, with one element of list state, or with one value of map state; with TTL, without
    the time stamp. If the stored type already is the new one, the user has to say that it was not called before
    (STATE-8).
    """

    name: str
    function: Callable[[Any], Any] = attrs.field(eq=False, repr=False)

    @classmethod
    def of(cls, function: Callable[[Any], Any]) -> Converter:
        """Return a converter named by the function's module and qualified name."""
        return cls(function_name(function), function)


@attrs.frozen
class StateTransform:
    """A function from a key's state of one kind to its state of another kind (rule STATE-2).

    It is called once for each key (and namespace) with everything that is stored: the value, the list, or the dict, as
    a generic reader returns them. It returns the same for the new kind, in the new types; for None, an empty list or an
    empty dict, nothing is written for the key, and it is counted as dropped. If both states have TTL, its argument and
    result contain `TtlValue` objects with the time stamps.

    Create it with `from_value`, `from_list`, `from_map`, `from_reducing` or `from_aggregating`, which name the stored
    kind.

    Attributes:
        old_kind: The kind of the stored state; the transform is not used for other kinds.
        name: The name of the function in plans and lineage.
        findings: What is to be said of it in place of STATE-2, if it follows from plans of Flink SQL; it may then also
            stay within one kind of state.
    """

    old_kind: StateKind
    name: str
    function: Callable[[Any], Any] = attrs.field(eq=False, repr=False)
    findings: tuple[Finding, ...] = ()

    @classmethod
    def from_value(cls, function: Callable[[Any], Any]) -> StateTransform:
        """Return a transform from value state."""
        return cls._named(StateKind.VALUE, function)

    @classmethod
    def from_list(cls, function: Callable[[list[Any]], Any]) -> StateTransform:
        """Return a transform from list state: the function takes the list."""
        return cls._named(StateKind.LIST, function)

    @classmethod
    def from_map(cls, function: Callable[[dict[Any, Any]], Any]) -> StateTransform:
        """Return a transform from map state: the function takes the dict."""
        return cls._named(StateKind.MAP, function)

    @classmethod
    def from_reducing(cls, function: Callable[[Any], Any]) -> StateTransform:
        """Return a transform from reducing state: the function takes the reduced value."""
        return cls._named(StateKind.REDUCING, function)

    @classmethod
    def from_aggregating(cls, function: Callable[[Any], Any]) -> StateTransform:
        """Return a transform from aggregating state: the function takes the accumulator."""
        return cls._named(StateKind.AGGREGATING, function)

    @classmethod
    def _named(cls, old_kind: StateKind, function: Callable[[Any], Any]) -> StateTransform:
        return cls(old_kind, Converter.of(function).name, function)


@attrs.frozen
class SerializerDescription:
    """One side's knowledge of one serializer.

    Attributes:
        snapshot: The versioned description; it is always known.
        serializer: The serializer itself, if the side is a job in code.
        stored: Loads the serializer stored beside an old snapshot, if there is one that the caller trusts (READ-2).
        fallback: Reads the old bytes if neither snapshot nor stored serializer can: the whole value, one element of
            list state, or one value of map state; with TTL, the bytes behind the time stamp (READ-3). Only the new side
            has one.
        converter: Converts old values to new ones. Only the new side has one.
        trust: Qualified names of the pickled classes whose values may be unpickled, set by the caller on the old side.
        unread: The reason why this release cannot read stored values although the snapshot may be restored, or "".
        declared: Declarations beyond the snapshot, if the side is a record of code (`declared_facts`).
        sha256: The digest of the snapshot's bytes as recorded, in hexadecimal; "" if the side is not a record.
        is_unconverted: Whether the user says that values are not converted yet, if the type does not show it (STATE-8).
        done: One-time changes according to the lineage: names of converters, and of column orders (`one_time_changes`).
    """

    snapshot: TypeSerializerConfigSnapshot[Any]
    serializer: TypeSerializer[Any] | None = None
    stored: Callable[[], TypeSerializer[Any]] | None = attrs.field(default=None, eq=False)
    fallback: TypeDeserializer[Any] | None = attrs.field(default=None, eq=False)
    converter: Converter | None = None
    trust: tuple[str, ...] = ()
    unread: str = ""
    declared: Facts | None = attrs.field(default=None, eq=False, repr=False)
    sha256: str = attrs.field(default="", eq=False, repr=False)
    is_unconverted: bool = False
    done: frozenset[str] = attrs.field(default=frozenset(), eq=False)

    @classmethod
    def of(
        cls,
        serializer: TypeSerializer[Any],
        *,
        fallback: TypeDeserializer[Any] | None = None,
        converter: Converter | None = None,
    ) -> SerializerDescription:
        """Describe a serializer object; raises `DeclarationError` if its type is nested too deeply to be stored."""
        snapshot = serializer.snapshot_configuration()
        require_readable(snapshot)
        return cls(snapshot, serializer, fallback=fallback, converter=converter)

    def new_side(self) -> TypeSerializer[Any]:
        """Return the serializer to ask if this is the new side; for a savepoint, it is restored from the snapshot.

        Raises:
            OldReaderUnavailable: Only a snapshot is known, and this release cannot read its values.
        """
        return self.serializer if self.serializer is not None else self._restored

    @cached_property
    def _restored(self) -> TypeSerializer[Any]:
        restored = self.snapshot.restore_serializer()
        return with_facts(restored, self.declared) if self.declared else restored

    @cached_property
    def told(self) -> TypeSerializerConfigSnapshot[Any]:
        """The snapshot for the new side, with declarations that its bytes lack, such as names of columns."""
        if self.serializer is not None or not self.declared:
            return self.snapshot
        try:
            return self.new_side().snapshot_configuration()
        except StateShiftError:
            return self.snapshot

    @property
    def knows_code(self) -> bool:
        """Whether the side is code, or a record of code with declarations beyond the snapshot."""
        return self.serializer is not None or bool(self.declared)

    @cached_property
    def knows_nulls(self) -> bool:
        """Whether the side declares which parts may be null: it is code, or a record of code that includes this."""
        said = (facts.get("knows_nulls") for facts in (self.declared or {}).values())
        return self.serializer is not None or any(said)

    @property
    def what_code_says(self) -> Facts:
        """The declarations beyond the snapshot, if the side is code or a record of code."""
        if self.serializer is not None:
            return declared_facts(self.serializer)
        return self.declared or {}

    @cached_property
    def identity(self) -> tuple[str, str]:
        """The identity of the type in checks: the digest of the snapshot's bytes, and further declarations as JSON."""
        # A record keeps the digest of the bytes in its file: this release may write them in a later version (SNAP-5).
        sha256 = self.sha256 or hashlib.sha256(recorded_to_bytes(self.snapshot)).hexdigest()
        said = self.what_code_says
        return sha256, json.dumps(said, sort_keys=True) if said else "{}"

    @cached_property
    def is_flink(self) -> bool:
        """Whether Flink knows the snapshot and all nested ones."""
        return self.snapshot.is_flink

    def is_one_with(self, other: SerializerDescription) -> bool:
        """Whether a check can find no difference: all attributes are equal, even those that `==` ignores."""
        apart = (self.stored, other.stored), (self.fallback, other.fallback)
        return (
            all(a is b for a, b in apart)
            and self.done == other.done
            and (self.declared == other.declared and self.sha256 == other.sha256 and self == other)
        )

    def repeats(self, old: SerializerDescription) -> bool:
        """Whether this side has only a snapshot, equal to the stored one, so that no serializer has to be asked.

        A stored side that is code is an exception: it may write nulls that the snapshot does not mention. So are types
        with a meaning that no snapshot holds.
        """
        if self.knows_code or holds_nulls(old.told) or not tells_all(old.snapshot):
            return False
        return snapshot_to_bytes(self.snapshot) == snapshot_to_bytes(old.snapshot)

    def describe(self) -> str:
        """Return the name of the type for messages."""
        return self.snapshot.describe()

    def __repr__(self) -> str:
        return repr_of(self, self.describe())


def tells_all(snapshot: TypeSerializerConfigSnapshot[Any]) -> bool:
    """Whether equal bytes of the snapshot mean equal types: of all that is nested, too."""
    return snapshot.tells_all and all(map(tells_all, snapshot.children()))


@attrs.frozen
class StateDescription:
    """One state of one operator.

    Attributes:
        name: The name in the program and the savepoint.
        kind: The kind of the state.
        value: The serializer in the state's metadata. As in Flink, list state has the *list* serializer and map state
            the *map* serializer; an operator's list state has the serializer of the elements.
        key: The key serializer of broadcast state.
        namespace: The namespace serializer of keyed state; None if the side does not know it.
        stored_name: The name in the savepoint, if the state is to be renamed.
        is_dropped: Whether it is to be left out of the new savepoint.
        former_time_to_live: How long stored values lived after their last access, declared by a new side without TTL,
            as savepoints do not store it. A migration leaves out expired values (STATE-5).
        transform: Converts a stored state of another kind. Only the new side has one.
    """

    name: str
    kind: StateKind
    value: SerializerDescription
    key: SerializerDescription | None = None
    namespace: SerializerDescription | None = None
    stored_name: str = ""
    is_dropped: bool = False
    former_time_to_live: timedelta | None = None
    transform: StateTransform | None = None

    def serializers(self) -> Iterator[SerializerDescription]:
        """Yield all serializers in the state's metadata."""
        yield from (part for part in (self.namespace, self.key, self.value) if part is not None)

    @property
    def likeness(self) -> tuple[object, ...]:
        """Everything that a check uses, except the name."""
        parts = self.kind, self.value, self.key, self.namespace
        return (*parts, self.stored_name, self.is_dropped, self.former_time_to_live, self.transform)

    def describe(self) -> str:
        """Return the name of the type for messages; broadcast state is a map."""
        if self.key is None:
            return self.value.describe()
        return f"map<{self.key.describe()}, {self.value.describe()}>"

    def __repr__(self) -> str:
        return repr_of(self, f"{self.name} {self.kind}: {self.describe()}")


@attrs.frozen
class Computation:
    """What an operator computes, beyond the types of its state: a plan, a recording or old code says it.

    Attributes:
        number: The number of the operator in its query: Spark counts stateful operators from 0, and pairs them by it.
        kind: The kind of the operator, as the author of the query calls it.
        stores: The types of its stores, by name, as Spark lays them out: also of those that follow from a state.
        columns: What each column of a store is computed from, by the path of the column in an entry: `key.k`,
            `value.sum`; empty where it is not known.
        facts: What decides which rows come in and how long they are kept, by a name for people: filters, a time-out.
        unseen: What the plan does not show: the code of functions.
        source: From where columns and facts are known, in words; "": they are not.
        modes: The time mode and the output mode of transformWithState.
        details: What decides what stands in columns, or which rows there are, and is not in the texts: the code of
            functions, by what uses it.
    """

    number: int
    kind: str
    stores: Mapping[str, StoreSchema] = attrs.field(factory=dict)
    columns: Mapping[str, Mapping[str, str]] = attrs.field(factory=dict)
    facts: Mapping[str, str] = attrs.field(factory=dict)
    unseen: tuple[str, ...] = ()
    source: str = ""
    modes: Mapping[str, str] = attrs.field(factory=dict)
    details: Mapping[str, tuple[Detail, ...]] = attrs.field(factory=dict)

    @property
    def title(self) -> str:
        """The operator in messages."""
        return f"{self.number} ({self.kind})"

    def __repr__(self) -> str:
        return repr_of(self, self.title)

    @property
    def is_known(self) -> bool:
        """Whether columns and facts are known: of a checkpoint alone they are not."""
        return bool(self.source)

    @property
    def keys(self) -> tuple[tuple[str, str], ...]:
        """Names and types of the keys of its first store, by which operators of one kind are told apart."""
        for _, schema in sorted(self.stores.items()):
            return tuple((field.name, field.type.describe()) for field in schema.key.fields)
        return ()


@attrs.frozen
class OperatorDescription:
    """One operator of a job.

    Attributes:
        operator_id: The id, as 32 hexadecimal digits; operators of the two sides are matched by it.
        uid: The uid in the job, or "" if the side does not know it.
        name: The display name, for people only.
        key: The key serializer, if the operator has keyed state.
        states: All states of all kinds.
        parallelism: The number of subtasks, or 0 if the side does not know it.
        max_parallelism: The number of key groups, or 0 if the side does not know it.
        unreadable: The reason why the states of this operator are not all known, or "".
        keeps: Names of other state that is neither judged nor changed: "raw keyed state", "coordinator state".
        stored_id: The id in the savepoint, if the operator is to get another id.
        is_reframed: Whether its keyed state is stored in a native format, which a migration converts to the canonical
            one.
        bound: The reason why its keys have to stay in their key groups, or "".
        has_custom_raw_keyed_state: Whether it has raw keyed state of its own, which Flink restores only for operators
            that declare it.
        computation: What it computes, and where it stands in its query; None for an operator of a job.
        findings: What two compiled plans say of it, on the new side, beside the types of its states.
    """

    operator_id: str
    uid: str = ""
    name: str = ""
    key: SerializerDescription | None = None
    states: tuple[StateDescription, ...] = ()
    parallelism: int = 0
    max_parallelism: int = 0
    unreadable: str = ""
    keeps: tuple[str, ...] = ()
    stored_id: str = ""
    is_reframed: bool = False
    bound: str = ""
    has_custom_raw_keyed_state: bool = False
    computation: Computation | None = None
    findings: tuple[Finding, ...] = ()

    def __repr__(self) -> str:
        key = "" if self.key is None else f", key {self.key.describe()}"
        return repr_of(self, f"{self.uid or self.operator_id}: {many(len(self.states), 'state')}{key}")

    @property
    def declares_key_groups(self) -> bool:
        """Whether the number of key groups is one that a job declares; a savepoint knows its parallelism, too."""
        return bool(self.max_parallelism) and not self.parallelism

    @cached_property
    def is_flink_restorable(self) -> bool | None:
        """Whether Flink knows every snapshot; if not, it refuses the whole operator. None if this is not known."""
        if self.unreadable:
            return None
        parts = [part for state in self.states for part in state.serializers()]
        return all(part.is_flink for part in [*parts, *([self.key] if self.key else [])])


@attrs.frozen
class JobDescription(Displayed):
    """All operators of a savepoint, a job or a recorded revision.

    Attributes:
        origin: The origin of the description, for messages: "savepoint /data/sp-1", "job accounts:job".
        operators: In any order.
        is_probe: Whether it describes a savepoint used in place of a job: it need not have every state of the job.
        stored_by: The major release of the Flink that wrote the savepoint, "1" or "2"; "" for a job.
        sources: The streaming sources of a query, in the order of Spark's offsets; of a checkpoint their numbers or
            names.
        settings: The settings under which a query is planned.
        spark: The version of Spark that planned it; "" of a checkpoint.
        inputs: What a query reads, with all that decides its rows; None: it was recorded by a release that did not look
            at it, nor at the code of functions, and that counted a source that stands twice once.
        upgrade: What compiled plans of Flink SQL say of it; a check pairs both sides by them.
        former: The job that wrote the state which this one is to take over: it says what PyFlink's bytes hold.
    """

    origin: str
    operators: tuple[OperatorDescription, ...] = ()
    is_probe: bool = False
    stored_by: str = ""
    sources: tuple[str, ...] = ()
    settings: Mapping[str, str] = attrs.field(factory=dict, repr=False)
    spark: str = ""
    inputs: tuple[Input, ...] | None = None
    upgrade: SqlUpgrade | None = None
    former: JobDescription | None = attrs.field(default=None, repr=False)

    def __repr__(self) -> str:
        states = many(sum(len(operator.states) for operator in self.operators), "state")
        return repr_of(self, f"{self.origin}: {many(len(self.operators), 'operator')}, {states}")

    @property
    def computations(self) -> tuple[Computation, ...]:
        """What the operators of a query compute."""
        return tuple(one.computation for one in self.operators if one.computation is not None)

    def computing(self, change: Callable[[Computation], Computation]) -> JobDescription:
        """Return the description of a query whose operators compute something else."""
        operators = (
            one if one.computation is None else attrs.evolve(one, computation=change(one.computation))
            for one in self.operators
        )
        return attrs.evolve(self, operators=tuple(operators))

    def operator_of(self, computation: Computation | None) -> OperatorDescription | None:
        """Return the operator that computes something; None: there is none."""
        found = (one for one in self.operators if computation is not None and one.computation is computation)
        return next(found, None)

    def trusting(self, names: Iterable[str]) -> JobDescription:
        """Return the description with pickled classes marked as trusted, so that their values may be unpickled.

        Args:
            names: Qualified names of pickled classes: `shop.Account`; `by-value:shop.Account` also trusts the code in a
                pickle.
        """
        trust = tuple(dict.fromkeys(names))
        operators = (
            attrs.evolve(
                operator,
                states=tuple(
                    attrs.evolve(state, value=attrs.evolve(state.value, trust=trust)) for state in operator.states
                ),
            )
            for operator in self.operators
        )
        return attrs.evolve(self, operators=tuple(operators)) if trust else self

    def as_probe(self) -> JobDescription:
        """Return the description of a savepoint as the new side of a check."""
        return attrs.evolve(self, is_probe=True)


OPERATOR_ID = re.compile("[0-9a-f]{32}")


def uid_order(uid: str, operator_id: str = "") -> tuple[object, ...]:
    """Return what operators are sorted by: those with a uid first; by its number where it begins with one.

    The uids of Flink SQL do: `3_join` stands before `10_join`.

    Args:
        uid: The uid, or "".
        operator_id: The id, for operators without a uid.
    """
    digits = uid.partition("_")[0]
    number = digits.lstrip("0") if digits.isascii() and digits.isdecimal() else ""
    return not uid, not number, len(number), number, uid, operator_id


def operator_id_of_uid(uid: str) -> bytes:
    """Return Flink's operator id of a uid, 16 bytes: murmur3 (x64, 128 bits, seed 0) of its UTF-8."""
    return mmh3.mmh3_x64_128_digest(uid.encode("utf-8", "surrogatepass"), 0)


def operator_id_of(name: str) -> bytes:
    """Return the id, 16 bytes, of an operator that is named by its uid, or by its id in 32 hexadecimal digits."""
    return bytes.fromhex(name) if OPERATOR_ID.fullmatch(name) else operator_id_of_uid(name)
