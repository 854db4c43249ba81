"""Parser of the repartition options of the command line: `N`, `UID=N`, `STATE=MODULE:FUNCTION`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs

from ...compat.repartition import Merge, Repartition
from ...serializers.errors import DeclarationError
from ...serializers.ways_out import Option, WayOut
from ..job import load_function

if TYPE_CHECKING:
    from collections.abc import Iterable

_MOST_DIGITS = 18


def parse_repartition(*, max_parallelism: Iterable[str] = (), merge: Iterable[str] = ()) -> Repartition:
    """Parse the options of a migration that rewrites keys.

    Args:
        max_parallelism: `N` for every operator of the job, `UID=N` for a single operator.
        merge: `STATE=MODULE:FUNCTION`, or `UID/STATE=…` where a name alone is not unique.

    Raises:
        DeclarationError: A string does not have this form.
        JobNotFound: The module or the function does not exist.
    """
    numbers = dict(map(_number, max_parallelism))
    return Repartition(max_parallelism=numbers, merge=dict(map(_merge, merge)))


def _number(text: str) -> tuple[str, int]:
    uid, _, number = text.rpartition("=")
    if not number.isdecimal() or len(number) > _MOST_DIGITS or text.startswith("="):
        raise DeclarationError.before_writing(
            f"{text!r} is not a number of key groups",
            advice="write N, or UID=N for one operator",
        )
    return uid, int(number)


def _merge(text: str) -> tuple[str, Merge]:
    state, _, place = text.partition("=")
    module_name, _, name = place.rpartition(":")
    if not (state and module_name and name):
        raise DeclarationError.before_writing(
            f"{text!r} is not of the form STATE=MODULE:FUNCTION",
            advice=WayOut.telling("write, such as", Option.MERGE, "total", "operator:add"),
        )
    return state, _loaded(place)


def _loaded(place: str) -> Merge:
    return Merge(place, load_function(place, advice="name a function of two values"))


@attrs.frozen
class NotLoaded:
    """A placeholder for a merge function that is named in a file, until `with_merges_loaded` imports it.

    Attributes:
        place: `MODULE:FUNCTION`.
    """

    place: str

    def __call__(self, first: Any, second: Any) -> Any:
        """Raise `DeclarationError`; see `with_merges_loaded`."""
        raise DeclarationError(f"the merge function {self.place} was not loaded")


def with_merges_loaded(repartition: Repartition | None) -> Repartition | None:
    """Import the merge functions of which only the names are known.

    Raises:
        JobNotFound: A module or function does not exist.
    """
    if repartition is None:
        return None
    loaded = {
        state: _loaded(merge.name) if isinstance(merge.function, NotLoaded) else merge
        for state, merge in repartition.merge
    }
    return attrs.evolve(repartition, max_parallelism=dict(repartition.max_parallelism), merge=loaded)
