"""The Python functions of a plan: fingerprints, which show whether their code has changed.

A function lies in the plan as Spark will send it to its workers. A copy of it is read, and never called.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from ...compat.fingerprint import UNKNOWN, fingerprint, fingerprint_of_own_code
from ...compat.queries.plan_text import FunctionCode
from ...serializers.errors import cause_text
from .java import function_of, items_of, kind_of, within
from .processors import processor_of

if TYPE_CHECKING:
    from collections.abc import Iterator

_OF_PYTHON = {"PythonUDF", "PythonUDAF", "PythonUDTF"}


def functions_of(plan: Any) -> dict[int, FunctionCode]:
    """Return the code of the Python functions of a plan of Java's, by the id of their results."""
    listed = (one for node in within(plan) for of in items_of(node.expressions()) for one in within(of))
    return {int(one.resultId().id()): _code(one.func()) for one in listed if kind_of(one) in _OF_PYTHON}


def _code(function: Any) -> FunctionCode:
    try:
        with _new_classes():
            code = function_of(function)
        processor = processor_of(code)
        code, name = (code, "") if processor is None else (processor, type(processor).__name__)
        whole = fingerprint(code)
        if not whole.startswith(UNKNOWN):
            return FunctionCode(whole, name=name)
        reason = whole.removeprefix(f"{UNKNOWN}: ").rpartition(" (")[0]
        return FunctionCode(fingerprint_of_own_code(code), reason, name)
    except Exception as error:  # noqa: BLE001 - a function may do anything when it is read; then nothing is claimed
        return FunctionCode("", cause_text(error))


@contextmanager
def _new_classes() -> Iterator[None]:
    """Within the `with` block, a class that travels by value is always created again.

    Else cloudpickle returns the class that was pickled as long as that is alive, which has another `__qualname__`.
    """
    from pyspark.cloudpickle import cloudpickle

    module: Any = cloudpickle
    names = ("_DYNAMIC_CLASS_TRACKER_BY_CLASS", "_DYNAMIC_CLASS_TRACKER_BY_ID")
    before = {name: getattr(module, name) for name in names}
    try:
        for name, known in before.items():
            setattr(module, name, type(known)())
        yield
    finally:
        for name, known in before.items():
            setattr(module, name, known)
