"""What the entries of a savepoint are: how many, how large, how old, of which keys and values, by state.

This module has only the figures; `state.profiles` finds them in one pass. All figures are exact, except for the
heaviest keys of key groups with very many keys, which say how much can be missing.

The distributions have fixed buckets: the bucket of a number is the number of its binary digits. So bucket 0 has the
zeros, bucket 1 the ones, bucket 2 those from 2 to 3, bucket 11 those from 1024 to 2047.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs

from ..serializers.displayed import Displayed
from ..serializers.errors import unless_redacted
from ..serializers.wording import many, repr_of
from .plain_data import fields_of, plain

if TYPE_CHECKING:
    from datetime import datetime

    from .spread import Share, Spread

_MOST_SHOWN = 5
"""How many states a `repr` names."""


@attrs.frozen
class Distribution:
    """The distribution of whole numbers that are not negative, such as sizes.

    Attributes:
        count: How many numbers there are.
        total: Their sum.
        smallest: The smallest; None if there is none.
        largest: The largest; None if there is none.
        buckets: How many of them have no binary digit (0), one (1), two (2 and 3), three (4 to 7), and so on.
    """

    count: int = 0
    total: int = 0
    smallest: int | None = None
    largest: int | None = None
    buckets: tuple[int, ...] = ()

    @property
    def average(self) -> float | None:
        """Their average; None if there is none."""
        return self.total / self.count if self.count else None

    def rows(self) -> tuple[tuple[int, int, int], ...]:
        """Return the buckets from the first to the last that has numbers: its first and last number, and its count."""
        used = [at for at, count in enumerate(self.buckets) if count]
        span = range(used[0], used[-1] + 1) if used else range(0)
        return tuple(((1 << at) >> 1, (1 << at) - 1, self.buckets[at]) for at in span)


@attrs.frozen
class HeavyKey:
    """A key and what is stored under it.

    Attributes:
        key: The key as plain data, as `get` takes it.
        part: Its key group; of a Spark query, its partition.
        entries: The number of stored entries: in map state one for each user key.
        size_bytes: The bytes of these entries.
    """

    key: Any
    part: int
    entries: int
    size_bytes: int


@attrs.frozen
class HeaviestKeys:
    """The keys of a state or an operator with the most bytes.

    Attributes:
        keys: The keys, heaviest first.
        missing_bytes: How many bytes can be missing at most in each size, and how much heavier than the last of the
            keys a key that is not there can be at most; 0: the keys and sizes are exact.
        unknown: Why keys cannot be told apart, or "".
    """

    keys: tuple[HeavyKey, ...] = ()
    missing_bytes: int = 0
    unknown: str = ""


@attrs.frozen
class Spreading:
    """How entries are spread over key groups, subtasks, or partitions of a Spark query.

    Attributes:
        of: `key group`, `subtask` or `partition`.
        count: How many of them there are.
        spread: The distribution of their bytes.
        shares: The bytes of each, in order; of many key groups, of at most 16 ranges of them.
    """

    of: str
    count: int
    spread: Spread
    shares: tuple[Share, ...]


@attrs.frozen
class Ages:
    """The ages of values with TTL: the time from their last access to the reference time, in milliseconds.

    Attributes:
        ages_ms: The distribution of the ages; where Spark stored when a value expires instead, of the time left.
        is_left: Whether it is the time left until a value expires.
        ahead: The number of values that are not in `ages_ms`: their last access is after the reference time; or their
            time is over.
        time_to_live_ms: How long a value lives; None: it is not known.
        expired: The number of values that have expired, and are still stored; None: it is not known.
    """

    ages_ms: Distribution
    is_left: bool = False
    ahead: int = 0
    time_to_live_ms: int | None = None
    expired: int | None = None


@attrs.frozen
class Frequent:
    """A value and how often it occurs: the constant of an enum, or the class of a record."""

    value: Any
    count: int


@attrs.frozen
class FieldProfile:
    """The values of one field.

    Attributes:
        path: The path from the entry: `key`, `namespace`, `user_key` or `value`, and the steps within it: `.name` for a
            field, `[]` for the elements of a list or array, `{key}` and `{}` for the keys and values of a map.
        type: The type of its column.
        count: How many values there are, nulls included: of a field within another one, where that is not null.
        nulls: How many of them are null.
        smallest: The smallest value as plain data; None where it has none: of lists, maps and records.
        largest: The largest value, likewise. Long texts and bytes are cut.
        frequent: The most frequent constants of an enum, or classes of records with subclasses; most frequent first.
        others: How many values are not in `frequent`, of a field that has it.
        lengths: The numbers of elements of lists and maps; else None.
        untold: Why smallest and largest are not told although the values have an order, or "".
    """

    path: str
    type: str
    count: int
    nulls: int
    smallest: Any = None
    largest: Any = None
    frequent: tuple[Frequent, ...] = ()
    others: int = 0
    lengths: Distribution | None = None
    untold: str = ""


@attrs.frozen(kw_only=True)
class StateProfile:
    """The figures of one state.

    Attributes:
        operator_id: The id of the operator; of a Spark query, its number.
        operator: Its uid, name or kind, as in the titles of `inspect`.
        state: The name of the state; of a state that is migrated lazily, of one of its tables.
        kind: The kind of the state.
        type: The type of its values in words.
        entries: The number of stored entries: in map state one for each user key; in operator lists the elements.
        size_bytes: The bytes of these entries with their framing, as `inspect` counts them.
        key_bytes: The bytes of their keys, as stored.
        value_bytes: The bytes of their values, as stored.
        value_sizes: The distribution of the bytes of values.
        lengths: Of list and map state: how many elements or entries a key has (in a namespace); else None.
        heaviest: Its heaviest keys; None: it has none, as operator state.
        spreads: How it is spread over key groups and subtasks; of a Spark query, over partitions. Empty: it has no
            entries, or is operator state.
        ages: The ages of its values; None: it has no TTL.
        fields: The fields of keys and values; empty: see `not_decoded`.
        not_decoded: Why values were not decoded, or not all of them; "" where all were. Sizes hold nevertheless.
        not_counted: Why not even the entries could be counted; then all figures are empty.
    """

    operator_id: str
    operator: str
    state: str
    kind: str
    type: str
    entries: int = 0
    size_bytes: int = 0
    key_bytes: int = 0
    value_bytes: int = 0
    value_sizes: Distribution = Distribution()
    lengths: Distribution | None = None
    heaviest: HeaviestKeys | None = None
    spreads: tuple[Spreading, ...] = ()
    ages: Ages | None = None
    fields: tuple[FieldProfile, ...] = ()
    not_decoded: str = ""
    not_counted: str = ""

    def __repr__(self) -> str:
        counted = f"{many(self.entries, 'entry', 'entries')}, {self.size_bytes:,} bytes"
        return repr_of(self, f"{self.operator}/{self.state} {self.kind}: {counted}")


@attrs.frozen(kw_only=True)
class OperatorProfile:
    """The figures of one operator.

    Attributes:
        operator_id: The id of the operator; of a Spark query, its number.
        operator: Its uid, name or kind, as in the titles of `inspect`.
        states: Its states, the largest first.
        heaviest: The heaviest keys over all its keyed states, timers included; None: it has no keyed state.
        spreads: As of a state, over all of them.
        not_counted: Why its states are not known; then it has none.
    """

    operator_id: str
    operator: str
    states: tuple[StateProfile, ...] = ()
    heaviest: HeaviestKeys | None = None
    spreads: tuple[Spreading, ...] = ()
    not_counted: str = ""

    def __repr__(self) -> str:
        counted = f"{many(self.entries, 'entry', 'entries')} of {many(len(self.states), 'state')}"
        return repr_of(self, f"{self.operator or self.operator_id}: {counted}, {self.size_bytes:,} bytes")

    @property
    def entries(self) -> int:
        """The number of entries of all states."""
        return sum(one.entries for one in self.states)

    @property
    def size_bytes(self) -> int:
        """The bytes of all entries."""
        return sum(one.size_bytes for one in self.states)


@attrs.frozen(kw_only=True)
class Profile(Displayed):
    """The figures of a savepoint.

    Attributes:
        savepoint: The place of the savepoint or checkpoint.
        reference_time: The time to which ages are counted.
        operators: The operators with state, the largest first.
    """

    savepoint: str
    reference_time: datetime
    operators: tuple[OperatorProfile, ...]

    def __repr__(self) -> str:
        largest = (f"{one.operator}/{one.state}: {one.size_bytes:,} bytes" for one in self.states[:_MOST_SHOWN])
        told = f"{many(len(self.states), 'state')}, {self.size_bytes:,} bytes"
        return repr_of(self, f"{self.savepoint}: {told}", *largest)

    @property
    def states(self) -> tuple[StateProfile, ...]:
        """All states, the largest first."""
        return tuple(sorted((one for of in self.operators for one in of.states), key=lambda one: -one.size_bytes))

    @property
    def size_bytes(self) -> int:
        """The bytes of all entries."""
        return sum(one.size_bytes for one in self.operators)


def profile_data(profile: Profile) -> dict[str, Any]:
    """Return a profile as plain data, with the names of docs/reference/cli.md; `--redact` holds in it."""
    return {
        "savepoint": profile.savepoint,
        "reference_time": plain(profile.reference_time),
        "bytes": profile.size_bytes,
        "operators": [_operator_data(one, profile.size_bytes) for one in profile.operators],
    }


def _operator_data(operator: OperatorProfile, whole: int) -> dict[str, Any]:
    return {
        **fields_of(operator, "operator_id operator entries bytes=size_bytes"),
        "share": _share(operator.size_bytes, whole),
        "heaviest_keys": _heaviest_data(operator.heaviest),
        **_spreads_data(operator.spreads),
        "not_counted": operator.not_counted or None,
        "states": [_state_data(one, whole) for one in operator.states],
    }


def _state_data(state: StateProfile, whole: int) -> dict[str, Any]:
    return {
        **fields_of(state, "state kind type entries bytes=size_bytes key_bytes value_bytes"),
        "share": _share(state.size_bytes, whole),
        "value_sizes": distribution_data(state.value_sizes),
        "lengths": distribution_data(state.lengths),
        "heaviest_keys": _heaviest_data(state.heaviest),
        **_spreads_data(state.spreads),
        "ages": _ages_data(state.ages),
        "fields": [_field_data(one) for one in state.fields],
        **fields_of(state, "not_decoded? not_counted?"),
    }


def _share(part: int, whole: int) -> float | None:
    return part / whole if whole else None


def distribution_data(of: Distribution | None) -> dict[str, Any] | None:
    """Return a distribution as plain data; None stays None."""
    if of is None:
        return None
    rows = [{"from": first, "to": last, "count": count} for first, last, count in of.rows()]
    return fields_of(of, "count total smallest largest average") | {"buckets": rows}


def _heaviest_data(heaviest: HeaviestKeys | None) -> dict[str, Any] | None:
    if heaviest is None:
        return None
    keys = [
        {"key": unless_redacted(one.key)} | fields_of(one, "part entries bytes=size_bytes") for one in heaviest.keys
    ]
    return {"keys": keys} | fields_of(heaviest, "missing_bytes unknown?")


def _spreads_data(spreads: tuple[Spreading, ...]) -> dict[str, Any]:
    return {
        "spread": {
            f"{one.of.replace(' ', '_')}s": {
                "count": one.count,
                **fields_of(one.spread, "smallest median largest average skew"),
                "shares": [
                    {"first": share.key_groups.start, "last": share.key_groups.stop - 1}
                    | fields_of(share, "entries bytes=size_bytes")
                    for share in one.shares
                ],
            }
            for one in spreads
        }
    }


def _ages_data(ages: Ages | None) -> dict[str, Any] | None:
    if ages is None:
        return None
    return {"milliseconds": distribution_data(ages.ages_ms)} | fields_of(ages, "is_left ahead time_to_live_ms expired")


def _field_data(field: FieldProfile) -> dict[str, Any]:
    def kept(value: Any) -> Any:
        return None if value is None else unless_redacted(value)

    return {
        **fields_of(field, "path type count nulls"),
        "smallest": kept(field.smallest),
        "largest": kept(field.largest),
        "frequent": [{"value": kept(one.value), "count": one.count} for one in field.frequent],
        "others": field.others,
        "lengths": distribution_data(field.lengths),
        "untold": field.untold or None,
    }
