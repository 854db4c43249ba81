"""`Row`: values by position, with a kind, and with names where a job declares them."""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, Any, Generic, TypeVarTuple, overload

from ..stored_names import lasting

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

Columns = TypeVarTuple("Columns")


@lasting
class RowKind(enum.Enum):
    """The kind of a row in a changelog; rows of state are nearly always INSERT."""

    INSERT = 0
    UPDATE_BEFORE = 1
    UPDATE_AFTER = 2
    DELETE = 3


@lasting
class Row(Generic[*Columns]):
    """A row of values: `Row(7, "seven")`, or with names `Row(id=7, title="seven")`.

    Values are read by position (`row[0]`) and, if the row has names, by name (`row["title"]`, `row.title`). A savepoint
    holds no names, so a reader without a job returns rows without names. Rows are equal if their kinds and values are,
    whatever their names. All other attributes begin with an underscore, so that a column may have any name: `_kind`,
    `_names`, `_asdict()`, `_with_kind(RowKind.DELETE)`.
    """

    __slots__ = ("_kind", "_names", "_values")

    @overload
    def __init__(self, *values: *Columns) -> None: ...

    @overload
    def __init__(self: Row[*tuple[Any, ...]], **named: Any) -> None: ...

    def __init__(self, *values: Any, **named: Any) -> None:  # type: ignore[misc]  # the overloads are typed
        if values and named:
            raise TypeError("a row has values by position or by name, but both were given")
        self._values: tuple[Any, ...] = values or tuple(named.values())
        self._names: tuple[str, ...] = tuple(named)
        self._kind = RowKind.INSERT

    @classmethod
    def _of(
        cls, values: Sequence[Any], names: Sequence[str] = (), kind: RowKind = RowKind.INSERT
    ) -> Row[*tuple[Any, ...]]:
        """Make a row whose columns have any names: they need not be Python identifiers."""
        row = cls.__new__(cls)
        row._values, row._names, row._kind = tuple(values), tuple(names), kind  # noqa: SLF001 - its own class
        return row

    def _with_kind(self, kind: RowKind) -> Row[*Columns]:
        """Return the same values with another kind."""
        return Row._of(self._values, self._names, kind)

    def _asdict(self) -> dict[str, Any]:
        """Return the values by name; empty if the row has no names."""
        return dict(zip(self._names, self._values, strict=bool(self._names)))

    def __len__(self) -> int:
        return len(self._values)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._values)

    def __getitem__(self, place: int | str) -> Any:
        if isinstance(place, int):
            return self._values[place]
        try:
            return self._values[self._names.index(place)]
        except ValueError:
            raise KeyError(place) from None

    def __getattr__(self, name: str) -> Any:
        if name in Row.__slots__ or name not in self._names:  # the slots are not yet there while unpickling
            raise AttributeError(f"the row has no column {name!r}")
        return self[name]

    def __eq__(self, other: object) -> bool:
        return self._identity() == other._identity() if isinstance(other, Row) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._identity())

    def _identity(self) -> tuple[RowKind, tuple[Any, ...]]:
        return self._kind, self._values

    def __repr__(self) -> str:
        named = self._names or [""] * len(self._values)
        values = ", ".join(
            f"{name}={value!r}" if name else repr(value) for name, value in zip(named, self._values, strict=True)
        )
        kind = "" if self._kind is RowKind.INSERT else f"._with_kind({self._kind})"
        return f"{type(self).__name__}({values}){kind}"

    def __getstate__(self) -> tuple[tuple[Any, ...], tuple[str, ...], RowKind]:
        return self._values, self._names, self._kind

    def __setstate__(self, state: tuple[tuple[Any, ...], tuple[str, ...], RowKind]) -> None:
        self._values, self._names, self._kind = state


def _restored(values: tuple[Any, ...], names: tuple[str, ...], kind: RowKind) -> Row[*tuple[Any, ...]]:
    """Return a row from a pickle of version 0.1, which names this function."""
    return Row._of(values, names, kind)  # noqa: SLF001 - its own module
