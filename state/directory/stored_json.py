"""JSON files of a state directory: each one ends with a seal, a digest of what it says.

A file that an earlier release wrote has no seal; what it says is checked against its shape all the same.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from ...compat.json_files import SEAL, parse_checked, seal_of
from ...compat.plain_data import structured
from ...serializers.errors import CorruptFile, located

if TYPE_CHECKING:
    from ..storage.files import Folder

PUT_BACK = "put back what was deleted or replaced in the folder; or start a new query from a savepoint"
"""What to do where a state directory is damaged."""


def write_json(folder: Folder, name: str, facts: dict[str, Any]) -> None:
    """Write a sealed file."""
    read = json.loads(json.dumps(facts))  # what the seal is computed of when the file is read
    folder.write(name, json.dumps({**read, SEAL: seal_of(read)}, indent=1).encode())


def read_json(folder: Folder, name: str, kind: Any) -> Any:
    """Return the content of a file.

    Args:
        folder: Its folder.
        name: Its name.
        kind: The type of the result; see `structured`.

    Raises:
        SavepointNotFound: It is missing.
        CorruptFile: It is damaged, or was altered.
    """
    with located(file=f"{folder.place}/{name}"):
        return structured(kind, unsealed(parse_checked(folder.read(name)))[0], "the file")


def is_sealed(folder: Folder, name: str) -> bool:
    """Whether a file has a seal; raises as `read_json`."""
    with located(file=f"{folder.place}/{name}"):
        return unsealed(parse_checked(folder.read(name)))[1]


def unsealed(facts: Any) -> tuple[dict[str, Any], bool]:
    """Return the content without its seal, and whether there was one.

    Raises:
        CorruptFile: It is no object, or does not match its seal.
    """
    if not isinstance(facts, dict):
        raise CorruptFile("the file is no JSON object", advice=PUT_BACK)
    inner = {name: value for name, value in facts.items() if name != SEAL}
    if SEAL in facts and facts[SEAL] != seal_of(inner):
        raise CorruptFile("the file does not match its seal: it was damaged or altered", advice=PUT_BACK)
    return inner, SEAL in facts
