"""What `init` writes for dates and times: a type hint each."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .table import TIMES

if TYPE_CHECKING:
    from ..type_source import SourceTable

SOURCES: SourceTable = {time.snapshot: time.row.hint for time in TIMES}
