"""What a compiled plan says of a query: its operators, their keys and states, and what each column is computed from."""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, Any

import attrs

from ...serializers.compatibility import Flag
from ..description import StateKind

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ...serializers.sql.logical_types import LogicalType
    from ..description import JobDescription


@attrs.frozen
class AggregatePart:
    """A field of what is kept for an aggregate whose values others may give.

    Attributes:
        function: The aggregate function.
        over: Its arguments and its filter, in words that are equal where the same values come into it.
        index: The number of the field.
    """

    function: str
    over: str
    index: int


@attrs.frozen
class Column:
    """A column of rows.

    Attributes:
        name: Its name.
        type: Its type.
        computed: What it is computed from, in words that are equal where the values are.
        begins: The value with which it may begin later than the state, in a tuple; None: it may not.
        part: Of which aggregate it is a field, if others may give it.
    """

    name: str
    type: LogicalType
    computed: str
    begins: tuple[Any] | None = None
    part: AggregatePart | None = None


class Removal(enum.Enum):
    """How an operator finds the stored row that an input takes back or replaces."""

    NEVER = "its input only inserts rows"
    BY_KEY = "rows are found by their key"
    BY_ROW = "rows are found by all of their columns"
    ACCUMULATED = "values are accumulated"
    TAKEN_OFF = "values are accumulated, and they or their results are taken back later"


class Namespace(enum.Enum):
    """What the values of a state belong to, beside a key."""

    VOID = enum.auto()
    SLICE = enum.auto()
    """The end of a slice of a window, in milliseconds."""
    TIME_WINDOW = enum.auto()


class ValueForm(enum.Enum):
    """What the values of a state are."""

    ROW = enum.auto()
    ROWS = enum.auto()
    """A list of rows."""
    FLAGGED_ROWS = enum.auto()
    """A list of rows, each with a flag."""
    NUMBERED_KEYS = enum.auto()
    """A list of rows that are keys, each with the numbers of the rows that have it."""
    SORTED_COUNTS = enum.auto()
    """A map of rows that are keys and of how many rows have each, in an order that is stored as code of Java."""
    COUNT = enum.auto()
    FLAG = enum.auto()
    TIME = enum.auto()
    VIEW = enum.auto()
    """A view of an accumulator, as Flink stored it: it is taken over by name, or not at all."""


@attrs.frozen(kw_only=True)
class SqlState:
    """A state of an operator.

    Attributes:
        name: Its name in savepoints.
        kind: Its kind.
        form: What its values are.
        columns: The columns of a row, if values are rows.
        user_key: The columns of the keys of a map; none: they are times or numbers.
        has_number: Whether a number stands behind each value: that of the matches, on the outer side of a join, or the
            place within a rank.
        ttl_ms: How long values live, in milliseconds, with a time stamp before each; 0: for ever, without one.
        ttl_of_job: Whether no plan says it, but the running job: then it is as it is stored.
        computed: What a view is computed from, in words.
        removal: How stored rows are found again.
        namespace: What values belong to, beside a key.
        is_side: Whether it is a side of a join: its layout follows from the unique keys of its rows.
        most: How many rows a Top-N keeps for a key; 0: all.
        order: By which columns rows or keys are ordered: the number of each, whether it ascends, and whether nulls are
            last.
    """

    name: str
    kind: StateKind = StateKind.VALUE
    form: ValueForm = ValueForm.ROW
    columns: tuple[Column, ...] = ()
    user_key: tuple[Column, ...] = ()
    has_number: bool = False
    ttl_ms: int = 0
    ttl_of_job: bool = False
    computed: str = ""
    removal: Removal = Removal.BY_ROW
    namespace: Namespace = Namespace.VOID
    is_side: bool = False
    most: int = 0
    order: tuple[tuple[int, bool, bool], ...] = ()

    @property
    def shape(self) -> tuple[object, ...]:
        """What cannot change: its kind, the form of its values, and whether it has keys and numbers."""
        return self.kind, self.form, bool(self.user_key), self.has_number, self.namespace

    @property
    def order_words(self) -> str:
        """The order of its rows or keys, in words."""
        ways = ((self.columns[place], ascends, last) for place, ascends, last in self.order)
        return ", ".join(
            f"{of.type.describe()} {'ASC' if ascends else 'DESC'} NULLS {'LAST' if last else 'FIRST'}"
            for of, ascends, last in ways
        )

    @property
    def layout(self) -> str:
        """How a side of a join keeps its rows, in words."""
        if self.form is ValueForm.COUNT:
            return "rows without a unique key"
        if self.kind is StateKind.MAP:
            return f"rows by {', '.join(one.computed for one in self.user_key)}"
        return "one row of each key"


@attrs.frozen(kw_only=True)
class SqlOperator:
    """An operator of a plan that has state.

    Attributes:
        node: The number of its node.
        kind: The kind of the node.
        line: The line of the node in the plan.
        keys: The columns of its key.
        states: Its states, where they are known.
        rows: Which rows come in: tables, filters, joins, groups.
        work: What else decides what it does with them, in words.
        unknown: Why its states are not known, or "".
        uids: The uids that Flink gives to its transformations.
        is_followed: Whether an operator behind it keeps what comes of the rows that it sends.
    """

    node: int
    kind: str
    line: int
    keys: tuple[Column, ...] = ()
    states: tuple[SqlState, ...] = ()
    rows: tuple[str, ...] = ()
    work: str = ""
    unknown: str = ""
    uids: tuple[str, ...] = ()
    is_followed: bool = False

    @property
    def title(self) -> str:
        """The operator in messages."""
        return f"{self.node}_{self.kind}"

    @property
    def key_texts(self) -> tuple[str, ...]:
        """What its keys are computed from."""
        return tuple(one.computed for one in self.keys)

    @property
    def key_set(self) -> tuple[str, ...]:
        """What its keys are computed from, in whatever order they stand."""
        return tuple(sorted(self.key_texts))

    @property
    def is_keyed(self) -> bool:
        """Whether it keeps rows by key, or may do so: connectors alone do not."""
        return bool(self.keys or self.states or self.unknown)

    @property
    def is_of_table(self) -> bool:
        """Whether it is a sink that keeps no rows: that of another table is another one, with state of its own."""
        return self.kind == "sink" and not self.is_keyed

    @property
    def identity(self) -> tuple[object, ...]:
        """All that is known of what it computes."""
        states = tuple(
            (one.name, one.shape, one.most, tuple(c.computed for c in one.columns), one.computed) for one in self.states
        )
        return self.kind, self.key_texts, self.rows, self.work, states


@attrs.frozen
class SqlQuery:
    """What a plan says.

    Attributes:
        origin: The plan, for messages.
        flink_version: The release that compiled it.
        operators: The operators with state, sources and sinks among them.
        sinks: Which rows each sink gets, by its table.
        tables: The options of each table: digests of their values, which may be credentials.
        functions: The functions that are not Flink's own.
    """

    origin: str
    flink_version: str
    operators: tuple[SqlOperator, ...]
    sinks: Mapping[str, tuple[str, ...]] = attrs.field(factory=dict)
    tables: Mapping[str, Mapping[str, str]] = attrs.field(factory=dict, repr=False)
    functions: tuple[str, ...] = ()


@attrs.frozen
class SqlUpgrade:
    """A new query that is to take over state.

    Attributes:
        new: What its plan says.
        old: What the plan says with which the state was written; None: that is not known.
        allows_partial: Whether aggregates may begin now where others go on.
        allows_stale: Whether rows that were sent may stay where the new query would not have sent them.
        template: A savepoint of the new query, which has what this release does not write; None: there is none.
        keeps_newest: Whether of stored rows that get one unique key the newest stays, where it is known.
    """

    new: SqlQuery
    old: SqlQuery | None = None
    allows_partial: bool = False
    allows_stale: bool = False
    template: JobDescription | None = attrs.field(default=None, repr=False)
    keeps_newest: bool = False

    def asks(self) -> frozenset[Flag]:
        """Return what is refused until the caller allows it."""
        allowed = {Flag.PARTIAL: self.allows_partial, Flag.STALE: self.allows_stale}
        return frozenset(flag for flag, is_allowed in allowed.items() if not is_allowed)
