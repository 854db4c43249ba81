"""The table `[tool.stateshift]` of the nearest `pyproject.toml`."""

from __future__ import annotations

import tomllib
from typing import TYPE_CHECKING, Any

import attrs

from ..serializers.errors import DeclarationError, located

if TYPE_CHECKING:
    from pathlib import Path

FILE = "pyproject.toml"
HISTORY = "state_history"
"""The folder of what is recorded of the project, by default."""
OPTION_ROOTS = ("state", "execution", "parallelism", "pipeline")
"""The words with which Flink's options begin that have an effect; no other setting does."""


@attrs.frozen
class ProjectSettings:
    """The settings of a project.

    Attributes:
        folder: The folder of the file.
        values: The table.
    """

    folder: Path
    values: dict[str, Any]


def find_settings(start: Path) -> ProjectSettings | None:
    """Return the settings of the nearest `pyproject.toml`, in a folder or above it, that has any; else None.

    Raises:
        DeclarationError: A file cannot be read.
    """
    for folder in (start, *start.parents):
        if (folder / FILE).is_file() and (values := _read(folder / FILE)) is not None:
            return ProjectSettings(folder, values)
    return None


def parse_settings(text: str) -> dict[str, Any] | None:
    """Return the table in the text of a file; None if it has none.

    Raises:
        DeclarationError: The text is not valid TOML, or the table is not a table.
    """
    try:
        found = tomllib.loads(text).get("tool", {}).get("stateshift")
    except (ValueError, AttributeError, RecursionError) as error:
        raise DeclarationError(f"not valid TOML: {error}") from error
    if found is not None and not isinstance(found, dict):
        raise DeclarationError("[tool.stateshift] is not a table")
    return found


def _read(file: Path) -> dict[str, Any] | None:
    with located(file=str(file)):
        try:
            return parse_settings(file.read_text(encoding="utf-8"))
        except UnicodeDecodeError as error:
            raise DeclarationError(f"not valid TOML: {error}") from error
        except OSError as error:
            raise DeclarationError(f"it cannot be read: {error.strerror}") from error
