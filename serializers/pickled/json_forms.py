"""JSON forms of pickled values: unopened, or with the content of the pickle where their class is trusted.

    $pickle  class that the state declares, and the pickle in hexadecimal
    $object  class, and attributes by name, or arguments by position, or both

No user class is instantiated, so no user module is imported and no user code runs. Code within a pickle never runs.
"""

from __future__ import annotations

import math
from collections import deque
from typing import TYPE_CHECKING, Any

import attrs

from ..errors import StateShiftError, ValueNotConvertible
from ..primitives.numeric import decimal_of
from .serializers import PickledSnapshot
from .unfolding import Unfolding
from .unpickling import Unmade, trusted_names, unmade

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ..json_forms import JsonFormTable, Tagger
    from .values import PickledValue

_DEEPEST = 150  # levels of the value; the JSON writer allows a thousand levels of JSON


def _pickle(_: PickledSnapshot) -> Tagger:
    return tagged_pickle


def tagged_pickle(value: PickledValue) -> dict[str, Any]:
    """Return a pickled value as JSON; opened where the enclosing `with trusting(…)` trusts its class.

    Raises:
        UntrustedCode: The class is trusted, and the pickle names something else that is not.
        CorruptSavepoint: The data is not a pickle.
        StateShiftError: JSON cannot represent the value: it contains itself, or is far larger as a tree.
    """
    trusted = trusted_names() or frozenset()
    if value.by_value or value.class_name not in trusted:
        return {"$pickle": {"class": value.class_name, "bytes": value.data.hex()}}
    opened = value.open({name: unmade(name) for name in trusted})
    try:
        tagged = _Tree(Unfolding.of_pickle(len(value.data))).tagged(opened)
    except (RecursionError, ValueNotConvertible) as error:
        raise StateShiftError(
            f"a pickled {value.class_name} contains itself, is nested too deep, or shares its parts so often that it"
            " is far larger as JSON than it is stored",
            advice="do not open it: export without --trust",
        ) from error
    return {"$pickle": {"class": value.class_name, "value": tagged}}


@attrs.frozen
class _Tree:
    """Converts one opened pickle to JSON.

    Attributes:
        unfolding: Counts the parts of the value: JSON repeats a shared part each time.
    """

    unfolding: Unfolding

    def tagged(self, value: Any, depth: int = 0) -> Any:
        self.unfolding.count(value)
        if depth > _DEEPEST:
            raise RecursionError
        match value:
            case None | bool() | str():
                return value
            case int():
                return value if abs(value) < 1 << 63 else {"$bigint": format(decimal_of(value), "f")}
            case float():
                return value if math.isfinite(value) else {"$double": repr(value)}
            case bytes():
                return {"$bytes": value.hex()}
            case Unmade():
                return {"$object": self._object(value, depth + 1)}
            case list() | deque():
                return self._all(value, depth)
            case tuple():
                return {"$tuple": self._all(value, depth)}
            case set() | frozenset():
                return {"$set": sorted(self._all(value, depth), key=repr)}
            case dict():
                return {"$map": [self._all(pair, depth) for pair in value.items()]}
            case _:
                return {"$opaque": repr(value)}

    def _all(self, values: Iterable[Any], depth: int) -> list[Any]:
        return [self.tagged(value, depth + 1) for value in values]

    def _object(self, value: Unmade, depth: int) -> dict[str, Any]:
        parts = value.state if isinstance(value.state, tuple) else (value.state,)
        attributes = {
            name: self.tagged(item, depth) for part in parts if isinstance(part, dict) for name, item in part.items()
        }
        arguments = [*value.arguments, *(part for part in parts if part is not None and not isinstance(part, dict))]
        told: dict[str, Any] = {"class": str(getattr(type(value), "stored_name", ""))}
        told |= {"arguments": self._all(arguments, depth)} if arguments else {}
        return told | ({"attributes": attributes} if attributes else {})


JSON_FORMS: JsonFormTable = {PickledSnapshot: _pickle}
