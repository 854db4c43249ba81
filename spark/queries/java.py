"""Plans as objects of Java, which Spark has and its JSON does not show: trees, sequences, private fields."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator


def kind_of(java: Any) -> str:
    """Return the name of an object's class, without the package."""
    return str(java.getClass().getSimpleName())


def items_of(sequence: Any) -> Iterator[Any]:
    """Yield what a sequence of Scala has."""
    return (sequence.apply(at) for at in range(sequence.size()))


def within(tree: Any) -> Iterator[Any]:
    """Yield a plan or an expression, and all below it, from the top."""
    yield tree
    for child in items_of(tree.children()):
        yield from within(child)


def private(java: Any, name: str) -> Any:
    """Return a private field."""
    field = java.getClass().getDeclaredField(name)
    field.setAccessible(True)
    return field.get(java)


def function_of(python: Any) -> Any:
    """Return a Python function of a plan: a copy of that of this process, which PySpark pickled for its workers."""
    from pyspark import cloudpickle

    return cloudpickle.loads(bytes(python.command().unsafeArray()))[0]
