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

    def __str__(self) -> str:
        """Return the sign that Flink prints: +I, -U, +U or -D."""
        return ("+I", "-U", "+U", "-D")[self.value]


@lasting
class Row(Generic[*Columns]):
    """A row of values: `Row(7, "seven")`, or with names `Row(id=7, title="seven")`.

    Values are read by position (`row[0]`) and, if the row has names, by name (`row["title"]`, `row.title`). A savepoint
    holds no names, so a reader without a job returns rows without names. Rows are equal if their kinds and values are,
    whatever their names; in PyFlink, names count, too. `Row("id", "title")` called with values is a row of these names.

    The methods are PyFlink's. A column that is called like one of them is read by `row["as_dict"]`. All else begins
    with an underscore: `_kind`, `_names`, `_asdict()`, `_with_kind(RowKind.DELETE)`.
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

    @staticmethod
    def of_kind(row_kind: RowKind, *args: Any, **kwargs: Any) -> Row[*tuple[Any, ...]]:
        """Return a row of a kind; the other arguments are those of the class."""
        row: Row[*tuple[Any, ...]] = Row(*args, **kwargs)
        row.set_row_kind(row_kind)
        return row

    def get_row_kind(self) -> RowKind:
        """Return the kind."""
        return self._kind

    def set_row_kind(self, row_kind: RowKind) -> None:
        """Change the kind."""
        self._kind = row_kind

    def set_field_names(self, field_names: Sequence[str]) -> None:
        """Name the columns, by position; their number is that of the values."""
        if len(field_names) != len(self._values):
            raise ValueError(f"{len(field_names)} names are given for the {len(self._values)} columns of a row")
        self._names = tuple(field_names)

    def get_fields_by_names(self, names: Sequence[str]) -> list[Any]:
        """Return the values of some columns, in this order; all of them if the row has no names.

        Raises:
            KeyError: The row has other names.
        """
        return [self[name] for name in names] if self._names else list(self._values)

    def as_dict(self, recursive: bool = False) -> dict[str, Any]:  # noqa: FBT001, FBT002 - as in PyFlink
        """Return the values by name.

        Args:
            recursive: Whether rows within values, lists and dicts become dicts, too.

        Raises:
            TypeError: The row has no names.
        """
        if not self._names:
            raise TypeError("a row without names cannot become a dict")
        return {name: _plain(value) if recursive else value for name, value in self._asdict().items()}

    def __call__(self, *args: Any) -> Row[*tuple[Any, ...]]:
        if len(args) > len(self._values):
            raise ValueError(f"{len(args)} values are given for the {len(self._values)} columns of {self!r}")
        return Row._of(args, self._values[: len(args)], self._kind)

    def __contains__(self, item: object) -> bool:
        return item in (self._names or self._values)

    def __setitem__(self, place: int | slice | str, value: Any) -> None:
        values = list(self._values)
        values[self._place(place) if isinstance(place, str) else place] = value
        self._values = tuple(values)

    def __len__(self) -> int:
        return len(self._values)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._values)

    def __getitem__(self, place: int | slice | str) -> Any:
        return self._values[self._place(place) if isinstance(place, str) else place]

    def _place(self, name: str) -> int:
        try:
            return self._names.index(name)
        except ValueError:
            raise KeyError(name) from None

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
        kind = "" if self._kind is RowKind.INSERT else f"._with_kind({type(self._kind).__name__}.{self._kind.name})"
        return f"{type(self).__name__}({values}){kind}"

    def __getstate__(self) -> tuple[tuple[Any, ...], tuple[str, ...], RowKind]:
        return self._values, self._names, self._kind

    def __setstate__(self, state: tuple[tuple[Any, ...], tuple[str, ...], RowKind]) -> None:
        self._values, self._names, self._kind = state


def _plain(value: Any) -> Any:
    """Return a value whose rows are dicts."""
    if isinstance(value, Row):
        return value.as_dict(recursive=True)
    if isinstance(value, list):
        return [_plain(item) for item in value]
    return {key: _plain(item) for key, item in value.items()} if isinstance(value, dict) else value


def _restored(values: tuple[Any, ...], names: tuple[str, ...], kind: RowKind) -> Row[*tuple[Any, ...]]:
    """Return a row from a pickle of version 0.1, which names this function."""
    return Row._of(values, names, kind)  # noqa: SLF001 - its own module
