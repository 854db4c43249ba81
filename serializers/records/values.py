"""`Record`: the value that is read without the user's class, and access to fields of any record-like value."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ..errors import ValueNotConvertible, shown
from ..stored_names import lasting

if TYPE_CHECKING:
    from collections.abc import Iterator


@lasting
class Record:
    """Field name -> value, for a class that need not exist here.

    Fields are read as attributes or as items. All other attributes begin with an underscore, as in a named tuple, so
    that a field may have any name: `_type_name` is the stored class name, `_asdict()` returns the fields in stored
    order.
    """

    __slots__ = ("_fields", "_type_name")

    def __init__(self, type_name: str, fields: Mapping[str, Any]) -> None:
        self._type_name = type_name
        self._fields = dict(fields)

    def _asdict(self) -> dict[str, Any]:
        return dict(self._fields)

    def __getattr__(self, name: str) -> Any:
        if name in {"_fields", "_type_name"}:  # not yet there while unpickling
            raise AttributeError(name)
        try:
            return self._fields[name]
        except KeyError:
            raise AttributeError(f"{self._type_name} has no field {name!r}") from None

    def __getitem__(self, name: str) -> Any:
        return self._fields[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._fields)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Record):
            return NotImplemented
        return self._type_name == other._type_name and self._fields == other._fields

    def __hash__(self) -> int:
        return hash((self._type_name, frozenset(self._fields.items())))

    def __repr__(self) -> str:
        fields = ", ".join(f"{name}={value!r}" for name, value in self._fields.items())
        return f"{self._type_name.rpartition('.')[2]}({fields})"

    def __reduce__(self) -> tuple[Any, ...]:
        return (Record, (self._type_name, self._fields))


def field_of(value: object, name: str, attribute: str) -> Any:
    """Return a field of a `Record` or mapping (by stored name) or of an object (by attribute).

    Raises:
        ValueNotConvertible: The value has no such field.
    """
    if isinstance(value, Record | Mapping):
        try:
            return value[name]
        except KeyError:
            raise ValueNotConvertible(f"{shown(value)} has no field {name!r}") from None
    try:
        return getattr(value, attribute)
    except AttributeError:
        raise ValueNotConvertible(f"{shown(value)} has no attribute {attribute!r}") from None
