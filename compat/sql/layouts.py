"""Stored rows that another layout keeps: of a join whose rows get or lose a unique key, of a Top-N that keeps fewer.

Flink keeps a side of a join in one of three ways, by the unique keys of its rows:

    none                        map of row and number of equal rows
    one                         map of unique key and row
    one within the join key     the only row

All that a key has is read, and written in the other way. Two rows with one unique key end the migration, or the newest
stays, where the time stamps of a time to live say which one that is. Rules SQL-19 and SQL-20.
Source: specs of SQL operators, B; `JoinInputSideSpec`, `AppendOnlyTopNFunction`, `UpdatableTopNFunction` of Flink 2.3.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs

from ...serializers.containers.ttl import TtlValue
from ...serializers.errors import ValuesCollide, shown
from ...serializers.rows.values import RowKind
from ...serializers.sql.binary_rows import room_of_null
from ...serializers.sql.values import RowData
from ...serializers.ways_out import Option, WayOut
from ..description import StateKind
from .query import Removal, ValueForm

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from .query import SqlOperator, SqlState

_SORTED = frozenset(
    {
        "TINYINT", "SMALLINT", "INTEGER", "BIGINT", "DECIMAL", "BOOLEAN", "CHAR", "VARCHAR", "BINARY", "VARBINARY",
        "DATE", "TIME_WITHOUT_TIME_ZONE", "TIMESTAMP_WITHOUT_TIME_ZONE", "TIMESTAMP_WITH_LOCAL_TIME_ZONE",
    }
)  # fmt: skip
"""The types whose values have the same order here as in Flink: strings that of their bytes."""
_KEEP_KEY = "keep the unique key as it was"


@attrs.frozen
class KeptRow:
    """A stored row.

    Attributes:
        row: The row.
        key: The key of its entry; None: it has none.
        count: How often the row is there.
        number: What stands behind it: that of its matches, or its place within a rank; None: nothing does.
        stamp: When it was last touched, in milliseconds; None: it has no time to live.
    """

    row: RowData
    key: RowData | None = None
    count: int = 1
    number: int | None = None
    stamp: int | None = None


KEEP_NEWEST = WayOut.telling("have the newest of such rows stay:", Option.KEEP_NEWEST)


@attrs.frozen
class Newest:
    """Whether of stored rows with one unique key the newest stays.

    Attributes:
        is_asked: Whether the caller has said so.
        lacks: Why it is not known which one is the newest, or what becomes of the others; "": it is known.
    """

    is_asked: bool = False
    lacks: str = ""

    @property
    def stays(self) -> bool:
        """Whether it stays; else such rows end the migration."""
        return self.is_asked and not self.lacks

    @classmethod
    def of(cls, state: SqlState, was: SqlOperator, becomes: SqlOperator, *, is_asked: bool) -> Newest:
        """Return what is known of a stored side of a join, where two rows of it may get one unique key.

        A row has the time of the last input that was equal to it, or, where rows are taken back or matches are counted,
        that of such an input: only the first says which row is the newest.

        Args:
            state: The stored side.
            was: The old join.
            becomes: The new one.
            is_asked: Whether the caller has said that it stays.
        """
        if not state.ttl_ms:
            return cls(is_asked, "rows have a time stamp only with a time to live")
        if state.removal is not Removal.NEVER:
            return cls(is_asked, "the input takes rows back, and the time stamp of a row may be that of one taken back")
        if any(one.has_number for one in was.states):
            return cls(is_asked, "the join counts matches, and would count those of rows that are left out")
        if becomes.is_followed:
            return cls(is_asked, "an operator behind the join keeps what came of rows that would be left out")
        return cls(is_asked)


@attrs.frozen
class RowsAnew:
    """Writes the rows of a key as another state keeps them.

    Attributes:
        was: The stored state.
        becomes: The new one.
        rows: Makes the new row of a stored one; None: it stays.
        keys: Makes the new key of an entry of a stored one, where entries stay; None: it stays.
        newest: Whether of rows with one unique key the newest stays.
    """

    was: SqlState
    becomes: SqlState
    rows: Callable[[Any], Any] | None = None
    keys: Callable[[Any], Any] | None = None
    newest: Newest = Newest()

    @property
    def title(self) -> str:
        """What it does, in plans and reports."""
        if is_trimmed(self.was, self.becomes):
            return f"best {self.becomes.most} rows of {self.was.most}"
        return f"{self.was.layout} -> {self.becomes.layout}"

    def __call__(self, stored: Any) -> Any:
        """Return the new value, or the new map.

        Raises:
            ValuesCollide: There is no room for all rows: two have one key.
        """
        kept = list(self._read(stored))
        if is_trimmed(self.was, self.becomes):
            kept = self._best(kept)
        kept = [attrs.evolve(one, row=one.row if self.rows is None else self.rows(one.row)) for one in kept]
        return self._write(kept)

    def _read(self, stored: Any) -> Iterator[KeptRow]:
        entries: Any = stored.items() if self.was.kind is StateKind.MAP else [(None, stored)]
        for key, value in entries:
            stamp = number = None
            held = value
            if isinstance(held, TtlValue):
                stamp, held = held.last_access_ms, held.value
            if self.was.has_number:
                held, number = held
            if self.was.form is ValueForm.COUNT:
                yield KeptRow(key, None, held, number, stamp)
                continue
            for row in held if self.was.form is ValueForm.ROWS else (held,):
                yield KeptRow(row, key, 1, number, stamp)

    def _best(self, kept: list[KeptRow]) -> list[KeptRow]:
        """Return the rows that the new Top-N keeps; of equal ones those that came first."""
        kept.sort(key=lambda one: one.number or 0)
        for place, ascends, has_nulls_last in reversed(self.was.order):
            nulls = [one for one in kept if one.row[place] is None]
            others = [one for one in kept if one.row[place] is not None]
            others.sort(key=lambda one: _in_order(one.row[place]), reverse=not ascends)
            kept = others + nulls if has_nulls_last else nulls + others
        return kept[: self.becomes.most]

    def _write(self, kept: list[KeptRow]) -> Any:
        if self.becomes.form is ValueForm.COUNT:
            return self._counted(kept)
        if self.becomes.form is ValueForm.ROWS:
            return self._listed(kept)
        groups: dict[Any, list[KeptRow]] = {}
        for one in kept:
            groups.setdefault(self._key(one), []).append(one)
        only = {key: self._only(rows) for key, rows in groups.items()}
        items = {key: self._item(one, one.row) for key, one in only.items()}
        return items if self.becomes.kind is StateKind.MAP else next(iter(items.values()), None)

    def _only(self, rows: list[KeptRow]) -> KeptRow:
        """Return the row that stays of those with one unique key."""
        *others, one = rows
        if self.newest.stays:
            last = max(row.stamp or 0 for row in rows)
            one, *others = (row for row in rows if row.stamp == last)
            others = [row for row in others if row.row != one.row]
        if not others and (one.count == 1 or self.newest.stays):
            return one
        if self.newest.stays:
            told = f"{shown(one.row)} and {shown(others[0].row)} have one, and one time stamp: neither is the newest"
        elif one.count != 1:
            told = f"the row {shown(one.row)} is there {one.count} times"
        else:
            told = f"the row {shown(one.row)} is not the only one with it"
        ways: list[str | WayOut] = [_KEEP_KEY, "have the old query take such rows back, and make another savepoint"]
        if not self.newest.is_asked and not self.newest.lacks:
            ways.insert(0, KEEP_NEWEST)
        raise ValuesCollide(
            f"the new query says that rows have a unique key, and {told}", advice=tuple(ways), rule="SQL-20"
        )

    def _key(self, one: KeptRow) -> RowData | None:
        if self.becomes.kind is not StateKind.MAP:
            return None
        if is_trimmed(self.was, self.becomes):
            return self._kept_key(one)
        fields = [one.row[self.becomes.columns.index(column)] for column in self.becomes.user_key]
        return RowData._read(fields, RowKind.INSERT)  # noqa: SLF001 - a row as it is read

    def _kept_key(self, one: KeptRow) -> RowData | None:
        return one.key if self.keys is None else self.keys(one.key)

    def _listed(self, kept: Iterable[KeptRow]) -> Mapping[Any, Any]:
        lists: dict[Any, list[KeptRow]] = {}
        for one in kept:
            lists.setdefault(self._kept_key(one), []).append(one)
        return {key: self._item(rows[0], [one.row for one in rows]) for key, rows in lists.items()}

    def _counted(self, kept: Iterable[KeptRow]) -> Mapping[Any, Any]:
        found: dict[RowData, KeptRow] = {}
        for one in kept:
            there = found.get(one.row)
            if there is not None and there.number != one.number:
                raise ValuesCollide(
                    f"two rows become {shown(one.row)}, and have {there.number} and {one.number} matches",
                    advice="keep the columns of the old query",
                    rule="SQL-20",
                )
            if there is not None:
                stamp = None if one.stamp is None or there.stamp is None else max(one.stamp, there.stamp)
                one = attrs.evolve(one, count=one.count + there.count, stamp=stamp)  # noqa: PLW2901 - both of them
            found[one.row] = one
        return {row: self._item(one, one.count) for row, one in found.items()}

    def _item(self, one: KeptRow, held: Any) -> Any:
        item = (held, one.number) if self.becomes.has_number else held
        return item if one.stamp is None else TtlValue(one.stamp, item)


def _in_order(value: Any) -> Any:
    return value.encode() if isinstance(value, str) else value


def why_not(was: SqlState, becomes: SqlState) -> str:
    """Return why rows of a state cannot be kept as another one keeps them; "": they can."""
    fixed = [(one.has_number, one.namespace, bool(one.ttl_ms)) for one in (was, becomes)]
    if fixed[0] != fixed[1]:
        return "what stands beside the rows differs, too"
    if is_trimmed(was, becomes):
        unknown = [was.columns[place].type.root for place, *_ in was.order]
        unknown = [root for root in unknown if root not in _SORTED]
        return f"the order of {unknown[0]} is not known here" if unknown else ""
    wide = [one.name for one in becomes.user_key if one.type.is_nullable and room_of_null(one.type)]
    if becomes.form is ValueForm.ROW and wide:
        return f"a null in the unique key ({wide[0]}) has two forms, and which one Flink looks up is not known"
    return ""


def is_trimmed(was: SqlState, becomes: SqlState) -> bool:
    """Whether a Top-N keeps fewer rows than those which are stored."""
    return was.shape == becomes.shape and 0 < becomes.most < was.most


def keeps_otherwise(was: SqlState, becomes: SqlState) -> bool:
    """Whether a side of a join keeps its rows in another way: their unique key is another one."""
    if not (was.is_side and becomes.is_side):
        return False
    layouts = [(one.kind, one.form) for one in (was, becomes)]
    keys = [{column.computed for column in one.user_key} for one in (was, becomes)]
    return layouts[0] != layouts[1] or (becomes.form is ValueForm.ROW and keys[0] != keys[1])
