"""From the plan of a state to the recipe of its values."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...serializers.optional import OptionalSerializer
from ...serializers.recipe import recipe_of
from ...serializers.ttl import stripped_recipe
from .compiler import compile_value
from .framing import ValueFraming, value_framing

if TYPE_CHECKING:
    from ...serializers.recipe import Recipe
    from ..plan import Recoding, StatePlan
    from .program import Program


def program_of(plan: StatePlan) -> Program | None:
    """Give the op list that rewrites the values of a keyed state; None where only objects can tell.

    That is so where code of the user's has a say, and where user keys change, which must be seen to stay apart.
    """
    recoding, framing = plan.value, value_framing(plan.kind)
    if plan.transform is not None or plan.user_key is not None or recoding is None:
        return None
    if framing is ValueFraming.NULLABLE and isinstance(recoding.reader, OptionalSerializer):
        return None  # a null behind the entry's own flag is told by that flag afterwards
    recipe = _recipe(recoding)
    if recipe is None:
        return None
    return compile_value(recipe, framing, nullable=recoding.nullable and recoding.null_stamp_ms is None)


def _recipe(recoding: Recoding) -> Recipe | None:
    if recoding.converter:
        return None
    reader, conversion, writer = recoding.reader, recoding.conversion, recoding.writer
    bare = stripped_recipe(reader, conversion, writer, recoding.expired_until_ms)
    if bare is not None or recoding.expired_until_ms is not None:
        return bare
    return recipe_of(reader, conversion, writer)
