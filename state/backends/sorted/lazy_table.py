"""A table over several: of a state that is migrated lazily, in a sorted store."""

from __future__ import annotations

from heapq import merge
from itertools import starmap
from operator import itemgetter
from typing import TYPE_CHECKING, Any

import attrs

from ..lazy_forms import OldForm, marked

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from ....serializers.snapshot import TypeSerializerConfigSnapshot
    from ...formats.flink.meta_info import StateMetaInfo
    from ...rocksdb.database import Items
    from ..lazy_forms import Layout
    from .write_cache import SortedStore, SortedTable, SortedView

    Source = Callable[[str, bytes, bytes], Iterator[Items]]
    """Yields the entries of a table in a range of keys, some at a time."""

_AT_ONCE = 512


@attrs.frozen
class Forms:
    """The tables of a state at one moment.

    Attributes:
        present: The name of the present table.
        old: The other ones, which may have entries.
    """

    present: str
    old: tuple[OldForm, ...]

    def items(self, source: Source, start: bytes, stop: bytes) -> Iterator[Items]:
        """Yield the entries of all tables in the present form, in the order of their keys."""
        streams = [_each(source(self.present, start, stop))]
        streams += [_each(starmap(form.items, source(form.name, start, stop))) for form in self.old]
        keys: list[bytes] = []
        values: list[bytes] = []
        for key, value in merge(*streams, key=itemgetter(0)):
            if keys and keys[-1] == key:
                continue  # it was written, and so moved, while the tables were read; the present one comes first
            if len(keys) >= _AT_ONCE:
                yield tuple(keys), tuple(values)
                keys, values = [], []
            keys.append(key)
            values.append(value)
        if keys:
            yield tuple(keys), tuple(values)


def _each(batches: Iterator[Items]) -> Iterator[tuple[bytes, bytes]]:
    return (entry for batch in batches for entry in zip(*batch, strict=True))


class LazyTable:
    """What a program sees as the table of a state that is migrated lazily.

    What is written goes to the present table, and the old copy is removed at once. So each key is in one table only.

    Args:
        store: Has the tables.
        infos: The descriptions of all tables of the store, which are kept up to date.
        info: The description of the state in its present form.
        layout: Its tables.
        key: The snapshot of the keys.
        max_parallelism: The number of key groups.
        bounds: The first key of all entries, and a key after all of them.
        is_alone: Whether no other subtask has key groups of the operator.

    Attributes:
        info: The description of the state in its present form.
    """

    def __init__(
        self,
        store: SortedStore,
        infos: dict[str, StateMetaInfo],
        info: StateMetaInfo,
        layout: Layout,
        key: TypeSerializerConfigSnapshot[Any],
        max_parallelism: int,
        bounds: tuple[bytes, bytes],
        *,
        is_alone: bool,
    ) -> None:
        self.info = info
        self._table: SortedTable
        self._cursor: bytes
        self._store, self._infos, self._bounds, self._key = store, infos, bounds, (key, max_parallelism)
        self._declared = layout.declared
        self._is_alone = is_alone
        here = {name: plan for name, plan in layout.plans.items() if name in infos}
        for name in (name for name, plan in here.items() if plan is None and name != info.name):
            infos[name] = marked(info, name, layout.declared)  # it may be the present form by another description
        self._begin(layout.present, [OldForm(infos[name], plan, *self._key) for name, plan in here.items()])

    @property
    def is_over(self) -> bool:
        """Whether all entries are in the table with the name of the state, in the present form."""
        return not self._old and self._present == self.info.name

    @property
    def left(self) -> int:
        """The number of entries that are still in an old form; they are counted now."""
        old = (form.name for form in self._old if not form.is_present)
        return sum(len(keys) for name in old for keys, _ in self._items(name, *self._bounds))

    def forms(self) -> Forms:
        """Return the tables as they are now, for another thread."""
        return Forms(self._present, tuple(form.copy() for form in self._old))

    def get(self, key: bytes) -> bytes | None:
        """Return the value of a key in its present form; None where it has none."""
        found = self._table.get(key)
        if found is None:
            for form in self._old:
                old = self._store.table(form.name).get(key)
                if old is not None:
                    _, values = form.items((key,), (old,))
                    return values[0] if values else None
        return found

    def write(self, changes: Mapping[bytes, bytes | None]) -> None:
        """Set the values of some keys; None removes a key, which may be missing."""
        self._table.write(changes)
        gone = dict.fromkeys(changes)
        for form in self._old:
            self._store.table(form.name).write(gone)

    def items(self, start: bytes, stop: bytes) -> Iterator[Items]:
        """Yield the entries from `start` to before `stop` in the order of their keys, some at a time."""
        return Forms(self._present, tuple(self._old)).items(self._items, start, stop)

    def move(self, most: int) -> int:
        """Move entries from the other tables to the present one; return their number.

        It is less than `most` only if none are left. Tables that are empty then are dropped, once nothing reads them.
        """
        moved = at = 0
        while at < len(self._old):
            form = self._old[at]
            keys, values = next(self._items(form.name, self._cursor, self._bounds[1]), ((), ()))
            if not keys:
                at += not self._finish(form)
                self._cursor = self._bounds[0]
                continue
            if moved >= most:
                break
            keys, values = keys[: most - moved], values[: most - moved]
            self._table.write(dict(zip(*form.items(keys, values), strict=True)))
            self._store.table(form.name).write(dict.fromkeys(keys))
            self._cursor = keys[-1] + b"\0"
            moved += len(keys)
        return moved

    def _begin(self, present: str, old: list[OldForm]) -> None:
        """Make a table the present one."""
        self._present, self._old, self._cursor = present, old, self._bounds[0]
        self._infos[present] = self.info if present == self.info.name else marked(self.info, present, self._declared)
        self._table = self._store.table(present)

    def _finish(self, form: OldForm) -> bool:
        """Drop an old table, which is empty, if it can be; after the last one, the state's name may be free."""
        if not self._store.drop(form.name):
            return False
        del self._infos[form.name]
        self._old.remove(form)
        if self._is_alone and not self._old and self._present != self.info.name:
            self._begin(self.info.name, [OldForm(self._infos[self._present], None, *self._key)])
        return True

    def _items(self, name: str, start: bytes, stop: bytes) -> Iterator[Items]:
        return self._store.table(name).items(start, stop)


@attrs.frozen
class LazyView:
    """The tables of a store at one moment, each state whole and in its present form.

    Attributes:
        families: The names of the states.
    """

    families: frozenset[str]
    _view: SortedView
    _lazy: Mapping[str, Forms]

    def items(self, family: str, start: bytes | None = None, stop: bytes | None = None) -> Iterator[Items]:
        """Yield the entries of a state in a range of keys, in order; None: without a limit."""
        forms = self._lazy.get(family)
        if forms is None:
            return self._view.items(family, start, stop)
        return forms.items(self._view.items, start, stop)  # type: ignore[arg-type]  # views take None

    def release(self) -> None:
        """Release what the store kept for this view."""
        self._view.release()
