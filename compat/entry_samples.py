"""Entries before and after a migration: what a plan makes of a few of them.

This module has only the data; `state.migration.samples` and `state.migration.queries.samples` find them, by the same
conversion as the migration's. Values and keys are JSON, as an export has them (`serializers.json_forms`); with
`--redact` each of them is the text `<redacted>`.
"""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, Any

import attrs

from ..serializers.compatibility import Path
from ..serializers.displayed import Displayed
from ..serializers.wording import many, repr_of
from .plain_data import plain
from .plan import StateAction

if TYPE_CHECKING:
    from collections.abc import Iterator


class Fate(enum.StrEnum):
    """What becomes of an entry.

    SAME: key and value are as before; its bytes may be others. CHANGED: its value is another one, or has other fields
    or another type; or its key is another one. DROPPED: it is left out. FAILED: it does not fit, and ends the
    migration. QUARANTINED: it does not fit, and is put aside.
    """

    SAME = "same"
    CHANGED = "changed"
    DROPPED = "dropped"
    FAILED = "failed"
    QUARANTINED = "quarantined"


class Dropped(enum.StrEnum):
    """Why an entry is left out.

    STATE: its state is. EXPIRED: it has expired, and loses its time stamp. EMPTY: the function that makes another kind
    of state of it returned nothing. SUPERSEDED: its state is migrated lazily, and has a later value of the key.
    """

    STATE = "state"
    EXPIRED = "expired"
    EMPTY = "empty"
    SUPERSEDED = "superseded"


class Did(enum.StrEnum):
    """What is done at a path of a value.

    CONVERTED: the value is another one. WIDENED: it is the same value in another type. DEFAULTED: the field is new, and
    gets its default. DROPPED: the field is left out. RENAMED: the field had another name. STAMPED: the value gets the
    time stamp of time to live. UNSTAMPED: it loses that.
    """

    CONVERTED = "converted"
    WIDENED = "widened"
    DEFAULTED = "defaulted"
    DROPPED = "dropped"
    RENAMED = "renamed"
    STAMPED = "stamped"
    UNSTAMPED = "unstamped"


@attrs.frozen(kw_only=True)
class EntryChange:
    """What is done at one path of an entry.

    Attributes:
        path: The path in the new value, or where that has none, in the old one: `$.lines[].price`; `$<key>` is the key.
        did: What is done there.
        old: The first old value there; None where there is none.
        new: The first new value there; None where there is none.
        count: At how many places of this entry it is done: elements of lists and maps have one path.
        old_path: The path in the old value, if it is another one; else "".
        by: The name of the converter that made the new value; else "".
        rule: The rule behind it, such as `REC-2`, if a finding of the check is about the path; else "".
    """

    path: Path = attrs.field(converter=Path)
    did: Did
    old: Any = None
    new: Any = None
    count: int = 1
    old_path: str = ""
    by: str = ""
    rule: str = ""


@attrs.frozen(kw_only=True)
class EntryFailure:
    """Why an entry does not fit, as the migration reports it.

    Attributes:
        path: The path within the value.
        rule: The rule, or "".
        reason: The text of the error.
    """

    path: Path = attrs.field(converter=Path)
    rule: str
    reason: str


@attrs.frozen(kw_only=True)
class SampledEntry:
    """An entry, before and after.

    An entry is a value, a list, an entry of a map, a timer, or an element of an operator's list. Where the entries of a
    key are converted together, as if a state becomes another kind of state, it is all that the state has of the key.

    Attributes:
        fate: What becomes of it.
        key: The key; None of an operator's state, which has none.
        new_key: The new key, if keys are rewritten; else that of before; None: there is no new entry.
        namespace: The namespace, such as a window; None: there is none.
        user_key: The key within the map; None: it is no entry of a map.
        new_user_key: The new one; None: there is none.
        subtask: The subtask that has the element of an operator's state; None of keyed state.
        timestamp_ms: The time at which a timer fires, in milliseconds since 1970; None: it is no timer.
        old: The old value; None also for a timer.
        new: The new value; None: there is none.
        old_stamp_ms: The time of the last access to the old value, in milliseconds since 1970, if it has time to live.
        new_stamp_ms: The same of the new value.
        old_size_bytes: The size of the stored value.
        new_size_bytes: The size of the new value; 0: there is none.
        changes: What is done, by path.
        dropped: Why it is left out; None: it is not.
        failure: Why it does not fit; None: it does.
        not_shown: Why its values cannot be shown, or "": then they are None.
    """

    fate: Fate
    key: Any = None
    new_key: Any = None
    namespace: Any = None
    user_key: Any = None
    new_user_key: Any = None
    subtask: int | None = None
    timestamp_ms: int | None = None
    old: Any = None
    new: Any = None
    old_stamp_ms: int | None = None
    new_stamp_ms: int | None = None
    old_size_bytes: int = 0
    new_size_bytes: int = 0
    changes: tuple[EntryChange, ...] = ()
    dropped: Dropped | None = None
    failure: EntryFailure | None = None
    not_shown: str = ""


@attrs.frozen(kw_only=True)
class SampledState:
    """Entries of one state that changes.

    Attributes:
        operator_id: The id of the operator; of a Spark query its number.
        operator: The title of the operator: its uid, or else its id.
        state: The stored name of the state.
        new_state: The new name; "": there is no new state.
        kind: The stored kind.
        new_kind: The new kind; "": there is no new state.
        action: What the plan does with its entries, as in a plan file: `convert`, `rekey`, `drop`, `new`.
        entries: The entries; none of a new state.
        is_all: Whether there are no other entries (of the chosen keys).
        not_shown: Why entries cannot be shown, or "".
        may_be_merged: Whether entries of keys that become equal are merged: they are shown as they are before that.
    """

    operator_id: str
    operator: str
    state: str
    new_state: str
    kind: str
    new_kind: str
    action: str
    entries: tuple[SampledEntry, ...] = ()
    is_all: bool = True
    not_shown: str = ""
    may_be_merged: bool = False

    @classmethod
    def of_one_side(
        cls, operator_id: str, operator: str, state: str, kind: str, action: StateAction, **found: Any
    ) -> SampledState:
        """Return a state that only one side has: a dropped one, or a new one."""
        is_new = action is StateAction.NEW
        return cls(
            operator_id=operator_id,
            operator=operator,
            state=state,
            new_state=state if is_new else "",
            kind=str(kind),
            new_kind=str(kind) if is_new else "",
            action=str(action),
            **found,
        )

    @property
    def title(self) -> str:
        """The operator and the state."""
        return f"{self.operator}/{self.state}"


@attrs.frozen(kw_only=True)
class EntrySamples(Displayed):
    """Entries of the states that a migration changes, before and after.

    Attributes:
        states: The states that change, in the order of the plan.
        unchanged: The number of states whose entries stay as they are; they are left out.
        keys: The keys that were asked for, as they were written; none: the first entries were taken.
        skipped: What is told of operators that cannot have these keys, or of which everything was read.
    """

    states: tuple[SampledState, ...]
    unchanged: int = 0
    keys: tuple[str, ...] = ()
    skipped: tuple[str, ...] = ()

    def __repr__(self) -> str:
        return repr_of(
            self, f"{many(sum(1 for _ in self.entries), 'entry', 'entries')} of {many(len(self.states), 'state')}"
        )

    @property
    def entries(self) -> Iterator[SampledEntry]:
        """All entries."""
        return (entry for state in self.states for entry in state.entries)

    def to_data(self) -> dict[str, Any]:
        """Return them as plain data: all attributes by name; its field names are stable."""
        data: dict[str, Any] = plain(self)
        return data
