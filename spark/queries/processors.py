"""Times to live of transformWithState: neither a plan nor a checkpoint shows them, only the processor's `init`.

The processor lies in the plan as Spark will send it to its workers. A copy of it is told to declare its variables to a
handle that notes them; no state is touched.
"""

from __future__ import annotations

from types import FunctionType
from typing import TYPE_CHECKING, Any

import attrs

from ...compat.queries.kinds import TIME_TO_LIVE
from .java import function_of, kind_of, within

if TYPE_CHECKING:
    from collections.abc import Iterator

_NODES = {"TransformWithStateInPySpark", "TransformWithStateInPandas"}  # the second in Spark 4.0
UNSEEN = "times to live, which the processor did not declare to the check,"


@attrs.define
class _Handle:
    """Stands for Spark's handle in `init`; every variable is empty."""

    declared: dict[str, str] = attrs.field(factory=dict)

    def getValueState(self, name: str, schema: Any, ttlDurationMs: int | None = None) -> None:  # noqa: N802, N803 - Spark's
        self._declare(name, ttlDurationMs)

    getListState = getValueState  # noqa: N815 - Spark's

    def getMapState(self, name: str, key: Any, value: Any, ttlDurationMs: int | None = None) -> None:  # noqa: N802, N803 - Spark's
        self._declare(name, ttlDurationMs)

    def deleteIfExists(self, name: str) -> None:  # noqa: N802 - Spark's
        """A variable of an older query is deleted; it has no time to live."""

    def _declare(self, name: str, ttl_ms: int | None) -> None:
        if ttl_ms:
            self.declared[TIME_TO_LIVE + name] = f"{ttl_ms} ms"


def times_to_live(plan: Any) -> Iterator[dict[str, str] | None]:
    """Yield for each transformWithState of a plan of Java's the times to live; None where they cannot be seen."""
    return (_declared(one.functionExpr()) for one in within(plan) if kind_of(one) in _NODES)


def processor_of(code: Any) -> Any:
    """Return the processor that PySpark's function for transformWithState calls; None: it is another function.

    Since Spark 4.1 it is a method; before, it is a function in functions, one of which has the processor.
    """
    from pyspark.sql.streaming.stateful_processor import StatefulProcessor

    functions = [code] if isinstance(code, FunctionType) and code.__module__.startswith("pyspark.") else []
    for function in functions:  # grows
        for cell in function.__closure__ or ():
            if isinstance(cell.cell_contents, StatefulProcessor):
                return cell.cell_contents
            if isinstance(cell.cell_contents, FunctionType) and cell.cell_contents not in functions:
                functions.append(cell.cell_contents)
    return getattr(getattr(code, "__self__", None), "_stateful_processor", None)


def _declared(function: Any) -> dict[str, str] | None:
    handle = _Handle()
    try:
        processor_of(function_of(function.func())).init(handle)
    except Exception:  # noqa: BLE001 - a processor may do anything in `init`; then nothing is claimed
        return None
    return handle.declared
