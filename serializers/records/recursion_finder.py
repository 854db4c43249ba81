"""Finding of records that contain themselves, while their serializers are made, by Tarjan's algorithm.

Records that refer to each other form a cycle. Its outermost record gets the others; inside, all are references.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import attrs

if TYPE_CHECKING:
    from ..serializer import TypeSerializer
    from .serializers import DescribedRecordSerializer

K = TypeVar("K", bound=Hashable)
Others = tuple["DescribedRecordSerializer[Any]", ...]


@attrs.define
class Circles(Generic[K]):
    """Makes the serializers of records that may contain themselves.

    Attributes:
        make: Makes the serializer of one record, and calls `serializer` for its parts.
        close: Makes the final serializer of a record from its own and those of the other records of its cycle, of which
            it is the outermost one; None instead of the others: it does not contain itself.
        refer: Makes a reference to a record, by its key.
    """

    make: Callable[[K], DescribedRecordSerializer[Any]]
    close: Callable[[K, DescribedRecordSerializer[Any], Others | None], TypeSerializer[Any]]
    refer: Callable[[K], TypeSerializer[Any]]
    _open: list[K] = attrs.field(factory=list, init=False)
    _order: dict[K, int] = attrs.field(factory=dict, init=False)
    _lowest: dict[K, int] = attrs.field(factory=dict, init=False)
    _waiting: dict[K, DescribedRecordSerializer[Any]] = attrs.field(factory=dict, init=False)
    _referred: set[K] = attrs.field(factory=set, init=False)

    def serializer(self, key: K) -> TypeSerializer[Any]:
        """Return the serializer of a record, or a reference to it within its own cycle."""
        if key in self._order:
            self._reach(self._order[key])
            self._referred.add(key)
            return self.refer(key)
        order = self._order[key] = self._lowest[key] = len(self._order)
        self._open.append(key)
        made = self.make(key)
        self._open.pop()
        if self._lowest[key] < order:
            self._reach(self._lowest[key])
            self._waiting[key] = made
            self._referred.add(key)
            return self.refer(key)
        return self._closed(key, made)

    def _reach(self, order: int) -> None:
        inner = self._open[-1]
        self._lowest[inner] = min(self._lowest[inner], order)

    def _closed(self, key: K, made: DescribedRecordSerializer[Any]) -> TypeSerializer[Any]:
        circle = [one for one in self._waiting if self._order[one] > self._order[key]]
        others = tuple(self._waiting.pop(one) for one in circle)
        is_circle = key in self._referred
        for one in (key, *circle):
            del self._order[one], self._lowest[one]
            self._referred.discard(one)
        return self.close(key, made, others if is_circle else None)
