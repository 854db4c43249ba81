"""Pickled values as JSON: unopened, or, where their class is trusted, with what their pickles say of them.

    $pickle  class that the state declares, and the pickle in hexadecimal
    $object  class, and attributes by name, or arguments by position, or both

No object of the user's is made, so nothing is imported and no code of theirs runs. Code within a pickle is never run.
"""

from __future__ import annotations

import math
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from ...serializers.errors import StateShiftError
from ...serializers.unpickling import Unmade, trusted_names, unmade

if TYPE_CHECKING:
    from ...serializers.pickled_values import PickledValue


def tagged_pickle(value: PickledValue) -> dict[str, Any]:
    """Give a pickled value as JSON; opened where the `with trusting(…)` around says so.

    Raises:
        UntrustedCode: The class is trusted, and the pickle names something else that is not.
        CorruptSavepoint: It is no pickle.
    """
    trusted = trusted_names() or frozenset()
    if value.by_value or value.class_name not in trusted:
        return {"$pickle": {"class": value.class_name, "bytes": value.data.hex()}}
    opened = value.open({name: unmade(name) for name in trusted})
    try:
        tagged: dict[str, Any] = {"$pickle": {"class": value.class_name, "value": _tagged(opened)}}
    except RecursionError as error:
        raise StateShiftError(f"a pickled {value.class_name} contains itself, which JSON cannot say") from error
    return tagged


def _tagged(value: Any) -> Any:
    match value:
        case None | bool() | str():
            return value
        case int():
            return value if abs(value) < 1 << 63 else {"$bigint": format(Decimal(value), "f")}
        case float():
            return value if math.isfinite(value) else {"$double": repr(value)}
        case bytes():
            return {"$bytes": value.hex()}
        case Unmade():
            return {"$object": _object(value)}
        case list():
            return [_tagged(item) for item in value]
        case tuple():
            return {"$tuple": [_tagged(item) for item in value]}
        case set() | frozenset():
            return {"$set": sorted((_tagged(item) for item in value), key=repr)}
        case dict():
            return {"$map": [[_tagged(key), _tagged(item)] for key, item in value.items()]}
        case _:
            return {"$opaque": repr(value)}


def _object(value: Unmade) -> dict[str, Any]:
    parts = value.state if isinstance(value.state, tuple) else (value.state,)
    attributes = {name: _tagged(item) for part in parts if isinstance(part, dict) for name, item in part.items()}
    arguments = [*value.arguments, *(part for part in parts if part is not None and not isinstance(part, dict))]
    told: dict[str, Any] = {"class": str(getattr(type(value), "stored_name", ""))}
    told |= {"arguments": [_tagged(item) for item in arguments]} if arguments else {}
    return told | ({"attributes": attributes} if attributes else {})
