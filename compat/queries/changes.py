"""`FieldChanges`: what types do not say of the changes of an operator's rows, as their author says it."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

import attrs

from ...serializers.errors import DeclarationError, shown
from ...serializers.spark_rows.pairing import Answers
from ..fingerprint import fingerprint

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    import pyarrow as pa

    Convert = Callable[[pa.Array], pa.Array]


@attrs.frozen
class FieldChanges:
    """What types do not say of the changes of an operator's rows.

    Attributes:
        renames: The old paths of fields by their new paths.
        fills: The values of new fields by path; None is null, and a `Backfill` has them by key.
        merges: How the values of keys that become equal are merged: `sum`, `min` or `max` by path.
        ttls: Times to live of what variables have stored, by variable: milliseconds from the last committed batch, or
            with a sign, by how much later or earlier than now each entry expires.
        drops: Variables that the new query does not have, and whose entries are dropped.
        converters: Functions by the path of a new field: each takes the old values of the field as an Arrow array, and
            returns as many new ones. Of a field without an old one it takes the old struct that the field is to be in.
    """

    renames: Mapping[str, str] = attrs.field(factory=dict)
    fills: Mapping[str, Any] = attrs.field(factory=dict)
    merges: Mapping[str, str] = attrs.field(factory=dict)
    ttls: Mapping[str, str] = attrs.field(factory=dict)
    converters: Mapping[str, Convert] = attrs.field(factory=dict)
    drops: Collection[str] = ()

    def digest(self) -> list[Any]:
        """Return a digest of these changes, equal in every process."""
        functions = {path: fingerprint(function) for path, function in self.converters.items()}
        said = (self.renames, self.fills, self.merges, self.ttls, functions, dict.fromkeys(self.drops))
        return [repr(sorted(one.items())) for one in said]

    @property
    def backfills(self) -> Mapping[str, Backfill]:
        """The fields whose values come from a DataFrame."""
        return {path: value for path, value in self.fills.items() if isinstance(value, Backfill)}

    @property
    def answers(self) -> Answers:
        """The answers to what the pairing of fields asks."""
        return Answers(self.renames, {*self.fills}, {*self.converters})

    def paths(self) -> set[str]:
        """Return the paths of all fields that these changes name."""
        return {*self.renames, *self.fills, *self.merges, *self.converters}


@attrs.frozen(slots=False, eq=False)
class Backfill:
    """Values by key: what stored rows have in a new field.

    Attributes:
        frame: A DataFrame of Spark or pandas, or a table of Arrow, with a column for each field of the new key, by its
            name, and one for the value. It is held in memory, and never printed.
        column: The column of the values.
        is_complete: Whether a key of the state without a row is an error; else it gets null.
    """

    frame: Any = attrs.field(repr=False)
    column: str
    is_complete: bool = attrs.field(default=True, kw_only=True)

    @cached_property
    def table(self) -> pa.Table:
        """The rows, in Arrow."""
        import pyarrow as pa  # it comes with an extra

        if isinstance(self.frame, pa.Table):
            return self.frame
        if hasattr(self.frame, "toArrow"):
            return self.frame.toArrow()
        try:
            return pa.Table.from_pandas(self.frame, preserve_index=False)
        except (AttributeError, TypeError) as error:
            raise DeclarationError.before_writing(
                f"{shown(self.frame)} is no DataFrame of Spark or pandas, and no table of Arrow",
                advice="pass one with the columns of the key and one of values",
            ) from error
