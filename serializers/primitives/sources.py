"""What `init` writes for primitives: a type hint each."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .table import PRIMITIVES

if TYPE_CHECKING:
    from ..type_source import SourceTable

SOURCES: SourceTable = {scalar.snapshot: scalar.row.hint for scalar in PRIMITIVES}

JAVA_PRIMITIVES = frozenset(scalar.snapshot for scalar in PRIMITIVES if scalar.row.array)
"""The types that are mostly Java primitives, which cannot be null."""
