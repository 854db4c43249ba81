"""What is known of the columns of both queries: renames that follow from it, and changes that types do not show.

A recording or the old code says what each stored column is computed from. A column that is computed from the same
elsewhere is taken from there. One of the same name that is computed from something else is never copied in silence.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import attrs

from ....serializers.compatibility import Verdict
from ..columns import is_within, origins, path_of_values
from ..judging import facts_changed
from ..plan_operators import TRANSFORM
from ..processors import TIME_TO_LIVE

if TYPE_CHECKING:
    from collections.abc import Collection

    from ..query import QueryOperator
    from .conversion import FieldChanges

_OF_COLUMNS = "SPK-10"


@attrs.frozen
class Meaning:
    """What follows of what is known of an operator.

    Attributes:
        changes: What is said of its rows, and the renames that follow.
        problems: The fields of which something must be said, a line each.
        meant: What else is another, and must be accepted.
    """

    changes: FieldChanges
    problems: tuple[str, ...] = ()
    meant: tuple[str, ...] = ()


def meaning_of(was: QueryOperator, becomes: QueryOperator, said: FieldChanges, accept: Collection[str]) -> Meaning:
    """Compare what two operators compute, as far as it is known of both.

    Args:
        was: The old operator.
        becomes: The new operator.
        said: What is said of its rows.
        accept: The rules whose findings are accepted.
    """
    renames: dict[str, str] = {}
    problems: list[str] = []
    meant: list[str] = []
    from_where = {*said.renames, *said.fills, *said.converters}  # how values are merged does not say it
    for store in becomes.stores:
        values = path_of_values(store, was.kind)
        for one in origins(store, was, becomes):
            path, source = (re.sub("^value", values, each) for each in (one.path, one.source))
            if is_within(path, from_where):
                continue
            if was.kind.startswith(TRANSFORM) and not path.startswith("key."):
                continue  # variables pair by name, and their values come from the code of the processor
            told = f"{path}: it was {one.was}, and is {one.now} now"
            if source:
                renames[path] = source
            elif _OF_COLUMNS in accept:
                renames[path] = path
            elif one.is_of_key:
                meant.append(f"{told} [{_OF_COLUMNS}]")
            else:
                problems.append(f"{told}: say what stored rows have in it, or that the stored value is the same")
    are_known = was.is_planned and becomes.is_planned
    for finding in facts_changed(was, becomes) if are_known else ():
        if finding.verdict is not Verdict.INCOMPATIBLE:
            continue  # the code of a function, which a migration does not ask for
        name = finding.path.removeprefix("$<").removesuffix(">")
        is_asked = name.startswith(TIME_TO_LIVE) and not (finding.old and finding.new)  # types show it, too
        if finding.rule not in accept and not is_asked and name.removeprefix(TIME_TO_LIVE) not in said.ttls:
            words = f"{finding.old or 'none'} -> {finding.new or 'none'}"
            meant.append(f"{name}: {words}: {finding.reason} [{finding.rule}]")
    return Meaning(attrs.evolve(said, renames=renames | dict(said.renames)), tuple(problems), tuple(meant))
