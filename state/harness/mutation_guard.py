"""Finds values that a function changes after it handed them to a state, or after it read them from one.

On the heap such an object is the state itself, so the change is in the state, too: unseen, and also in a snapshot that
is being written. The guard keeps a hash of the bytes of what a key has after each access, and compares it at the next.
It makes each access slow, and is for tests.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from hashlib import blake2b
from typing import TYPE_CHECKING, Any

import attrs

from ...compat.description import StateKind
from ...serializers.errors import StateShiftError, shown
from ..entry_keys import encode
from ..runtime.functions import AggregateFunction
from ..runtime.states import AggregatingState, ListState, MapState, ReducingState, ValueState

if TYPE_CHECKING:
    from ..backends.keyed_backend import KeyedStateBackend
    from ..runtime.descriptors import StateDescriptor


class StateMutated(StateShiftError, RuntimeError):
    """A value of a state was changed without the state."""

    advice = "change a copy, and update the state with it: dataclasses.replace, attrs.evolve, list(…), dict(…)"


class MutationGuard:
    """A backend whose handles notice values that are changed outside of them; all else is the backend's.

    `swept` is not: what is removed behind the handles would look changed.

    Args:
        backend: Keeps the state.
    """

    def __init__(self, backend: KeyedStateBackend) -> None:
        self._backend = backend
        self._guarded: dict[str, Any] = {}
        self.swept: dict[str, Callable[[int], bool]] = {}

    def __getattr__(self, name: str) -> Any:
        return getattr(self._backend, name)

    def get_or_create_keyed_state(self, descriptor: StateDescriptor) -> Any:
        of_accumulator: Any = descriptor
        if descriptor.kind is StateKind.AGGREGATING:
            of_accumulator = attrs.evolve(of_accumulator, agg_function=_Unfinished(of_accumulator.agg_function))
        handle = self._backend.get_or_create_keyed_state(of_accumulator)
        if descriptor.name not in self._guarded:
            self._guarded[descriptor.name] = _HANDLES[descriptor.kind](handle, of_accumulator, self._backend)
        return self._guarded[descriptor.name]


@attrs.frozen
class _Unfinished(AggregateFunction[Any, Any, Any]):
    """An aggregate function whose result is the accumulator."""

    function: AggregateFunction[Any, Any, Any]

    def create_accumulator(self) -> Any:
        return self.function.create_accumulator()

    def add(self, value: Any, accumulator: Any) -> Any:
        return self.function.add(value, accumulator)

    def get_result(self, accumulator: Any) -> Any:
        return accumulator

    def merge(self, acc_a: Any, acc_b: Any) -> Any:
        return self.function.merge(acc_a, acc_b)


class _Guard:
    """The part of a guarded handle that compares what the current key has with what it had after the last access.

    Args:
        handle: The backend's handle.
        descriptor: The descriptor that the backend has.
        backend: Has the current key.
    """

    def __init__(self, handle: Any, descriptor: Any, backend: KeyedStateBackend) -> None:
        self._handle, self._descriptor, self._backend = handle, descriptor, backend
        self._serializer = descriptor.state_serializer()
        self._namespace = b""
        self._hashes: dict[tuple[bytes, bytes], bytes] = {}

    def set_current_namespace(self, namespace: Any) -> None:
        self._namespace = encode(self._descriptor.namespace, namespace)
        self._handle.set_current_namespace(namespace)

    def guarded(self, method: str, arguments: tuple[Any, ...]) -> Any:
        """Call a method of the handle; raises `StateMutated`."""
        place = encode(self._backend.key, self._backend.current_key), self._namespace
        if self._hashes.get(place, b"") not in {b"", self._hash()}:
            raise StateMutated(
                f"a value of the state {self._descriptor.name!r} was changed after it was handed over or read",
                key=shown(self._backend.current_key),
            )
        result = getattr(self._handle, method)(*arguments)
        if isinstance(result, Iterator):
            result = list(result)
        if method == "merge_namespaces":
            self._hashes.clear()
        else:
            self._hashes[place] = self._hash()
        is_accumulator = self._descriptor.kind is StateKind.AGGREGATING and result is not None
        return self._descriptor.agg_function.function.get_result(result) if is_accumulator else result

    def _hash(self) -> bytes:
        """Return the hash of what the current key has; b"" where it has nothing."""
        found = _CONTENT[self._descriptor.kind](self._handle)
        return b"" if found is None else blake2b(encode(self._serializer, found), digest_size=16).digest()


_CONTENT: dict[StateKind, Callable[[Any], Any]] = {
    StateKind.VALUE: lambda state: state.value(),
    StateKind.LIST: lambda state: list(state.get()),
    StateKind.MAP: lambda state: dict(state.items()),
    StateKind.REDUCING: lambda state: state.get(),
    StateKind.AGGREGATING: lambda state: state.get(),
}


def _guarded_handle(kind: Any) -> type[Any]:
    """Return the class of guarded handles of a kind: each method is called through the guard."""

    def through_guard(method: str) -> Callable[..., Any]:
        return lambda self, *arguments: self.guarded(method, arguments)

    methods = {name: through_guard(name) for name in kind.__abstractmethods__ - {"set_current_namespace"}}
    return type(f"Guarded{kind.__name__}", (_Guard, kind), methods)


_HANDLES = {
    one.kind: _guarded_handle(one) for one in (ValueState, ListState, MapState, ReducingState, AggregatingState)
}
