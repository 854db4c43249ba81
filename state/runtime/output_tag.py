"""Side outputs: further outputs of a function, besides its main one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs

from ...serializers.errors import DeclarationError, shown

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable


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
        """Emit what a function returned: a generator or another iterable, or None."""
        if results is None:
            return
        collect = self.collect
        for result in results:
            if type(result) is tuple and len(result) == 2 and isinstance(result[0], OutputTag):
                self.collect_side(*result, timestamp)
            else:
                collect(result, timestamp)
