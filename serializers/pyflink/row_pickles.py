"""Pickles of PyFlink's rows and of tuples, which stand in thread mode for state of these types.

Values within are those of Python's library. A row is a call of a function of PyFlink, which is not imported: it is read
as a row of ours, and written by that name.

Source: `PickleDataConverter` in `pyflink.fn_execution.embedded.converters` of PyFlink 2.3, and its savepoints.
"""

from __future__ import annotations

import io
import pickle
from typing import TYPE_CHECKING, Any

from ..pickled.unpickler import Names, open_pickle
from ..rows.values import Row, RowKind

if TYPE_CHECKING:
    from ..snapshot import TypeSerializerConfigSnapshot

_MODULE, _PROTOCOL = "pyflink.common.types", 4
_HELD = frozenset(
    {"boolean", "byte", "short", "int", "long", "double", "PyFlink string", "PyFlink decimal", "PyFlink date"}
    | {"PyFlink time", "PyFlink timestamp"}
)
_HOLDING = frozenset({"row", "tuple", "list", "map", "array"})


def _create_row(fields: Any, values: Any, row_kind: RowKind = RowKind.INSERT) -> Row[*tuple[Any, ...]]:
    return Row._of(values, fields or (), row_kind)  # noqa: SLF001 - rows of any names


def is_held(snapshot: TypeSerializerConfigSnapshot[Any]) -> bool:
    """Whether all values of a coder are in pickles what they are elsewhere: none of PyFlink's or a job's classes.

    A float is not: there it has 64 bits, and so more of a value than its coder writes.
    """
    children = snapshot.children()
    if snapshot.kind in _HOLDING and children:
        return all(map(is_held, children))
    return snapshot.describe() in _HELD


def opened(data: bytes) -> Any:
    """Return the value of a pickle.

    Raises:
        UntrustedCode: It names anything but PyFlink's row and what holds values in Python's library.
        CorruptSavepoint: It is no pickle.
    """
    known = {f"{_MODULE}._create_row": _create_row, f"{_MODULE}.RowKind": RowKind}
    return open_pickle(data, Names("pyflink.common.Row", known))


class _Pickler(pickle._Pickler):  # noqa: SLF001 - the documented class, in C, only writes names that it can import
    def reducer_override(self, value: Any) -> Any:
        if type(value) is Row:
            names = list(value._names) or None  # noqa: SLF001 - as PyFlink's own pickles have them
            return _create_row, (names, tuple(value), value.get_row_kind())
        if type(value) is RowKind:
            return RowKind, (value.value,)
        return value.__name__ if value is _create_row or value is RowKind else NotImplemented

    def save_global(self, thing: Any, name: str | None = None) -> None:
        if thing is not _create_row and thing is not RowKind:
            super().save_global(thing, name)  # type: ignore[misc]
            return
        self.save(_MODULE)  # type: ignore[attr-defined]
        self.save(name)  # type: ignore[attr-defined]
        self.write(pickle.STACK_GLOBAL)  # type: ignore[attr-defined]
        self.memoize(thing)  # type: ignore[attr-defined]


def pickled(value: Any) -> bytes:
    """Return the pickle of a value, as PyFlink writes it."""
    target = io.BytesIO()
    _Pickler(target, _PROTOCOL).dump(value)
    return target.getvalue()
