"""The states of a backend as its header lists them: restored ones, and those that a program has registered."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...serializers.errors import DeclarationError
from ..savepoint.keyed_stream import KeyedStreamHeader
from ..savepoint.meta_info import NAMESPACE_SERIALIZER
from ..savepoint.new_streams import keyed_info
from ..savepoint.state_kinds import keyed_kind

if TYPE_CHECKING:
    from ...compat.description import StateDescription
    from ...serializers.serializer import TypeSerializer
    from ..savepoint.meta_info import StateMetaInfo


class RegisteredStates:
    """The states of a backend by name, in the order in which they came.

    Args:
        key: The serializer of the keys.
    """

    def __init__(self, key: TypeSerializer[Any]) -> None:
        self._key = key
        self._infos: dict[str, StateMetaInfo] = {}
        self._registered: set[str] = set()

    def restore(self, header: KeyedStreamHeader) -> None:
        """Add the states of a stored header; those that are known stay as they are."""
        for info in header.states:
            self._infos.setdefault(info.name, info)

    def register(self, description: StateDescription) -> None:
        """Add a state of the program; it replaces a restored one, whose bytes it can read.

        Raises:
            DeclarationError: The program has registered another state of this name; the message names both.
        """
        name, info = description.name, keyed_info(description)
        known = self._infos.get(name)
        if known is not None and name in self._registered and known != info:
            raise DeclarationError(
                f"the state {name!r} is {_described(known)} already, and cannot be {_described(info)}, too",
                advice="give each state of an operator a name of its own",
                state=name,
            )
        self._infos[name] = info
        self._registered.add(name)

    def header(self) -> KeyedStreamHeader:
        """Return the header with all states."""
        return KeyedStreamHeader(self._key.snapshot_configuration(), tuple(self._infos.values()))

    def __getitem__(self, name: str) -> StateMetaInfo:
        return self._infos[name]


def _described(info: StateMetaInfo) -> str:
    spaces, text = info.snapshot(NAMESPACE_SERIALIZER), f"{keyed_kind(info)} state of {info.value.describe()}"
    return text if spaces is None else f"{text} in namespaces of {spaces.describe()}"
