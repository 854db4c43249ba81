"""Side outputs: further outputs of a function, besides its main one."""

from __future__ import annotations

from collections.abc import Generator
from typing import TYPE_CHECKING, Any

import attrs

from ...serializers.errors import DeclarationError, shown

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator


@attrs.frozen
class OutputTag:
    """The name of a side output. A function writes to it by `yield tag, value`.

    Attributes:
        tag_id: The name; tags of the same name are equal.
        type_info: A type hint of the values, or None.
    """

    tag_id: str = attrs.field()
    type_info: Any = attrs.field(default=None, eq=False)

    @tag_id.validator
    def _checked(self, _: Any, tag_id: Any) -> None:
        if not isinstance(tag_id, str) or not tag_id:
            raise DeclarationError(f"the name of a side output must be a non-empty string, not {shown(tag_id)}")


@attrs.define
class Output:
    """Where the results of an operator go, each with its time stamp (None: it has none).

    Attributes:
        collect: Takes a result of the main output.
        collect_side: Takes a result of a side output.
    """

    collect: Callable[[Any, int | None], None]
    collect_side: Callable[[OutputTag, Any, int | None], None]

    def emit(self, results: Iterable[Any] | None, timestamp: int | None) -> None:
        """Emit what a function returned: a generator or another iterable, or None.

        Raises:
            DeclarationError: It is none of these.
        """
        if results is None:
            return
        try:
            results = iter(results)
        except TypeError as error:
            raise DeclarationError(
                f"a function returned {shown(results)}, which is no iterable of results",
                advice="yield each result, or return a list of them",
            ) from error
        collect = self.collect
        for result in results:
            if type(result) is tuple and len(result) == 2 and isinstance(result[0], OutputTag):
                self.collect_side(*result, timestamp)
            else:
                collect(result, timestamp)


class CheckedOutput(Output):
    """An output that refuses results which would be lost or taken apart; it takes longer, and is for tests."""

    def emit(self, results: Iterable[Any] | None, timestamp: int | None) -> None:
        if isinstance(results, str | bytes):
            raise DeclarationError(
                f"a function returned {shown(results)}, whose characters would be the results",
                advice="yield it, or return a list of results",
            )
        super().emit(_without_return(results) if isinstance(results, Generator) else results, timestamp)


def _without_return(results: Generator[Any, Any, Any]) -> Iterator[Any]:
    """Yield what a generator yields."""
    returned = yield from results
    if returned is not None:
        raise DeclarationError(
            f"a function that yields its results also returned {shown(returned)}, which nobody gets",
            advice="yield it",
        )
