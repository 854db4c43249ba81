"""What `check` compares: the operators of a job and the types of their states.

A savepoint, a job in code and a recorded revision each give a `JobDescription`. What a side does not know stays empty:
a savepoint knows snapshots and no serializers.
"""

from __future__ import annotations

import enum
import hashlib
import json
from functools import cached_property
from typing import TYPE_CHECKING, Any

import attrs

from ..serializers.declared import Facts, declared_facts, with_facts
from ..serializers.errors import StateShiftError
from ..serializers.records.serializers import holds_nulls
from ..serializers.snapshot import snapshot_to_bytes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from datetime import timedelta

    from ..serializers.serializer import TypeDeserializer, TypeSerializer
    from ..serializers.snapshot import TypeSerializerConfigSnapshot


class StateKind(enum.StrEnum):
    """What a state is to the program that uses it."""

    VALUE = "value"
    LIST = "list"
    MAP = "map"
    REDUCING = "reducing"
    AGGREGATING = "aggregating"
    TIMERS = "timers"
    SPLIT_LIST = "split_list"
    UNION_LIST = "union_list"
    BROADCAST = "broadcast"

    @property
    def is_keyed(self) -> bool:
        """Whether the state lies in the keyed stream, under the operator's key."""
        return self not in {StateKind.SPLIT_LIST, StateKind.UNION_LIST, StateKind.BROADCAST}

    @property
    def room(self) -> str:
        """Within which names are unique: an operator may have a keyed and an operator state of one name."""
        if self.is_keyed:
            return "keyed"
        return "broadcast" if self is StateKind.BROADCAST else "operator"


def function_name(function: Callable[..., Any]) -> str:
    """Name a function, or an object that is called as one, by module and qualified name."""
    kind = function if hasattr(function, "__qualname__") else type(function)
    module = getattr(kind, "__module__", None) or "builtins"  # a method of a built-in type has none
    return f"{module}.{kind.__qualname__}"


@attrs.frozen
class Converter:
    """A function from old object to new object, under the name that plans and lineage tell.

    It is called with the whole value, with one element of list state, with one value of map state; with ttl, without
    the stamp. Where the stored type is the new one already, a person says whether it was called before (STATE-8).
    """

    name: str
    function: Callable[[Any], Any] = attrs.field(eq=False, repr=False)

    @classmethod
    def of(cls, function: Callable[[Any], Any]) -> Converter:
        """Name a function by its module and qualified name."""
        return cls(function_name(function), function)


@attrs.frozen
class StateTransform:
    """A function from what a key has in a state of one kind to what it has in one of another (rule STATE-2).

    It is called once for each key (and namespace) with all that is stored: the value, the list, or the dict, as a
    generic reader gives them. It gives the same of the new kind, in the new types; None, an empty list or an empty dict
    where nothing is left of the key, which is counted as dropped. Where both states have ttl, what it sees and gives
    are `TtlValue`, with the stamps.

    Made by `from_value`, `from_list`, `from_map`, `from_reducing` and `from_aggregating`, which name the stored kind.

    Attributes:
        old_kind: The kind of the stored state; where another is stored, the transform is not used.
        name: What plans and lineage call the function.
    """

    old_kind: StateKind
    name: str
    function: Callable[[Any], Any] = attrs.field(eq=False, repr=False)

    @classmethod
    def from_value(cls, function: Callable[[Any], Any]) -> StateTransform:
        """From value state."""
        return cls._named(StateKind.VALUE, function)

    @classmethod
    def from_list(cls, function: Callable[[list[Any]], Any]) -> StateTransform:
        """From list state: the function takes the list."""
        return cls._named(StateKind.LIST, function)

    @classmethod
    def from_map(cls, function: Callable[[dict[Any, Any]], Any]) -> StateTransform:
        """From map state: the function takes the dict."""
        return cls._named(StateKind.MAP, function)

    @classmethod
    def from_reducing(cls, function: Callable[[Any], Any]) -> StateTransform:
        """From reducing state: the function takes the reduced value."""
        return cls._named(StateKind.REDUCING, function)

    @classmethod
    def from_aggregating(cls, function: Callable[[Any], Any]) -> StateTransform:
        """From aggregating state: the function takes the accumulator."""
        return cls._named(StateKind.AGGREGATING, function)

    @classmethod
    def _named(cls, old_kind: StateKind, function: Callable[[Any], Any]) -> StateTransform:
        return cls(old_kind, Converter.of(function).name, function)


@attrs.frozen
class SerializerDescription:
    """What one side knows of one serializer.

    Attributes:
        snapshot: The versioned description; always there.
        serializer: The serializer itself, where the side is a job in code.
        stored: Loads the serializer stored beside an old snapshot, where there is one that the caller trusts (READ-2).
        fallback: Reads the old bytes where snapshot and stored serializer cannot: the whole value, one element of list
            state, one value of map state; with ttl, what lies behind the stamp (READ-3). Given by the new side.
        converter: Decides what old values become. Given by the new side.
        trust: Qualified names of pickled classes whose values may be opened. Given with the old side, by the caller.
        unread: Why this release cannot read stored values although the snapshot may be restored, or "".
        declared: What code said beyond the snapshot, where the side is a record of it (`declared_facts`).
        sha256: Of the snapshot's bytes as they were recorded, in hexadecimal; "" where the side is no record.
        is_unconverted: Whether a person says that it was not converted yet, where its type does not tell (STATE-8).
        done: What its lineage says was done to it: names of converters, and of orders of columns (`done_once`).
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
        """Describe a serializer at hand."""
        return cls(serializer.snapshot_configuration(), serializer, fallback=fallback, converter=converter)

    def new_side(self) -> TypeSerializer[Any]:
        """The serializer to ask when this is the new side; a savepoint's is restored from its snapshot.

        Raises:
            OldReaderUnavailable: Only a snapshot is known, and this release reads no such values.
        """
        return self.serializer if self.serializer is not None else self._restored

    @cached_property
    def _restored(self) -> TypeSerializer[Any]:
        restored = self.snapshot.restore_serializer()
        return with_facts(restored, self.declared) if self.declared else restored

    @cached_property
    def told(self) -> TypeSerializerConfigSnapshot[Any]:
        """The snapshot as the new side is asked about it: with what code says that no bytes do, as names of columns."""
        if self.serializer is not None or not self.declared:
            return self.snapshot
        try:
            return self.new_side().snapshot_configuration()
        except StateShiftError:
            return self.snapshot

    @property
    def knows_code(self) -> bool:
        """Whether the side is code, or a record of code that says more than its snapshot."""
        return self.serializer is not None or bool(self.declared)

    @cached_property
    def knows_nulls(self) -> bool:
        """Whether the side says which parts may be null: it is code, or a record of it that has kept that."""
        said = (facts.get("knows_nulls") for facts in (self.declared or {}).values())
        return self.serializer is not None or any(said)

    @property
    def what_code_says(self) -> Facts:
        """What code says beyond the snapshot, where the side is code, or a record of it."""
        if self.serializer is not None:
            return declared_facts(self.serializer)
        return self.declared or {}

    @cached_property
    def identity(self) -> tuple[str, str]:
        """What a check goes by: the digest of the snapshot's bytes, and what code says beyond them, as JSON."""
        # Of a record, that of the bytes in the file: this release may write the same in a later version (SNAP-5).
        sha256 = self.sha256 or hashlib.sha256(snapshot_to_bytes(self.snapshot)).hexdigest()
        said = self.what_code_says
        return sha256, json.dumps(said, sort_keys=True) if said else "{}"

    @cached_property
    def is_flink(self) -> bool:
        """Whether Flink knows the snapshot and all nested ones."""
        return self.snapshot.is_flink

    def is_one_with(self, other: SerializerDescription) -> bool:
        """Whether a check can find no difference: they are equal, and so is what does not count for that."""
        apart = (self.stored, other.stored), (self.fallback, other.fallback)
        return (
            all(a is b for a, b in apart)
            and self.done == other.done
            and (self.declared == other.declared and self.sha256 == other.sha256 and self == other)
        )

    def repeats(self, old: SerializerDescription) -> bool:
        """Whether this side knows only a snapshot, and it is the stored one: nobody is there to ask, nor need be.

        Where the stored side is code, it may write nulls of which the snapshot says nothing.
        """
        if self.knows_code or holds_nulls(old.told):
            return False
        return snapshot_to_bytes(self.snapshot) == snapshot_to_bytes(old.snapshot)

    def describe(self) -> str:
        """Name the type in words."""
        return self.snapshot.describe()


@attrs.frozen
class StateDescription:
    """One state of one operator.

    Attributes:
        name: As the program and the savepoint name it.
        kind: What it is to the program.
        value: The serializer in the state's metadata. As in Flink, that of list state is the *list* serializer and
            that of map state the *map* serializer; that of an operator's list state is the element's.
        key: The key serializer of broadcast state.
        namespace: The namespace serializer of keyed state; None where a side does not know it.
        stored_name: What the savepoint calls it, where it is to have another name from now on.
        is_dropped: Whether it is to be left out of the new savepoint.
        former_time_to_live: How long stored values live after their last access, where the new side, which has no TTL,
            tells it: no savepoint does. A migration leaves out what has expired (STATE-5).
        transform: Makes it of a stored state of another kind. Given by the new side.
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
        """All serializers of the state's metadata."""
        yield from (part for part in (self.namespace, self.key, self.value) if part is not None)

    @property
    def likeness(self) -> tuple[object, ...]:
        """All that a check asks about, without the name."""
        parts = self.kind, self.value, self.key, self.namespace
        return (*parts, self.stored_name, self.is_dropped, self.former_time_to_live, self.transform)

    def describe(self) -> str:
        """Name the type in words; of broadcast state as a map."""
        if self.key is None:
            return self.value.describe()
        return f"map<{self.key.describe()}, {self.value.describe()}>"


@attrs.frozen
class OperatorDescription:
    """One operator.

    Attributes:
        operator_id: 32 hexadecimal digits; operators of the two sides are matched by it.
        uid: As given in the job, or "" where the side does not know it.
        name: For people only.
        key: The key serializer, where the operator has keyed state.
        states: All states of all kinds.
        parallelism: Number of subtasks, or 0 where the side does not know it.
        max_parallelism: Number of key groups, or 0.
        unreadable: Why the states of this operator cannot all be told, or "".
        keeps: Other state in words, which is neither judged nor changed: "raw keyed state", "coordinator state".
        stored_id: What the savepoint knows it by, where it is to have another id from now on.
        is_reframed: Whether its keyed state lies in a native format, which a migration turns into the canonical one.
        bound: Why its keys have to stay where they are, or "".
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

    @cached_property
    def is_flink_restorable(self) -> bool | None:
        """Whether Flink knows every snapshot: it refuses the whole operator over one. None: cannot be told."""
        if self.unreadable:
            return None
        parts = [part for state in self.states for part in state.serializers()]
        return all(part.is_flink for part in [*parts, *([self.key] if self.key else [])])


@attrs.frozen
class JobDescription:
    """All operators of a savepoint, a job or a recorded revision.

    Attributes:
        origin: Where the description comes from, as messages tell it: "savepoint /data/sp-1", "job accounts:job".
        operators: In any order.
        is_probe: Whether it is that of a savepoint which stands for a job: a state that is not in it says nothing.
        stored_by: Major release of the Flink whose savepoint it is of, "1" or "2"; "" for a job.
    """

    origin: str
    operators: tuple[OperatorDescription, ...] = ()
    is_probe: bool = False
    stored_by: str = ""

    def trusting(self, names: Iterable[str]) -> JobDescription:
        """Give the description of stored state whose pickled values may be opened.

        Args:
            names: Qualified names of pickled classes: `shop.Account`; `by-value:shop.Account` also for code within.
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
        """Give the description of a savepoint as the new side of a check."""
        return attrs.evolve(self, is_probe=True)
