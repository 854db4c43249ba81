"""What is known of the columns of both queries: renames that follow from it, and changes that types do not show.

A recording or the old code says what each stored column is computed from. A column that is computed from the same
elsewhere is taken from there. One of the same name that is computed from something else is never copied in silence.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING

import attrs

from ....serializers.compatibility import Verdict
from ..judging import facts_changed
from ..plan_operators import JOIN, TRANSFORM
from ..processors import TIME_TO_LIVE
from ..rules import holds_all

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from ..query import QueryOperator
    from ..spark_types import SparkType
    from .conversion import FieldChanges

_CAST = re.compile(r"cast\(([^()]*) as [a-z]+(?:\([\d,]+\))?\)")
_OF_COLUMNS, _NUMBERS_OF_JOINS = "SPK-10", "keyToNumValues"


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


def path_of_values(store: str, kind: str) -> str:
    """Return what the paths of a store's values begin with; both sides of a join have rows of their own."""
    if kind != JOIN:
        return "value"
    side, _, rest = store.partition("-")
    return f"{side}.{'number' if rest == _NUMBERS_OF_JOINS else 'value'}"


def meaning_of(was: QueryOperator, becomes: QueryOperator, said: FieldChanges, accept: Collection[str]) -> Meaning:
    """Compare what two operators compute, as far as it is known of both.

    Args:
        was: The old operator.
        becomes: The new operator.
        said: What is said of its rows.
        accept: The rules whose findings are accepted.
    """
    if not (was.is_planned and becomes.is_planned):
        return Meaning(said)
    renames: dict[str, str] = {}
    problems: list[str] = []
    meant: list[str] = []
    for store, now in becomes.columns.items():
        values = path_of_values(store, was.kind)
        for named, of, told in _columns(store, was, becomes, now):
            path, source = (re.sub("^value", values, one) for one in (named, of))
            if path in said.renames or path in said.fills or path in said.converters:
                continue
            if was.kind.startswith(TRANSFORM) and not path.startswith("key."):
                continue  # variables pair by name, and their values come from the code of the processor
            if source:
                renames[path] = source
            elif told and _OF_COLUMNS not in accept:
                problems.append(
                    f"{path}: {told}: say what stored rows have in it, or that the stored value is the same"
                )
    for finding in facts_changed(was, becomes):
        if finding.verdict is not Verdict.INCOMPATIBLE:
            continue  # the code of a function, which a migration does not ask for
        name = finding.path.removeprefix("$<").removesuffix(">")
        is_asked = name.startswith(TIME_TO_LIVE) and not (finding.old and finding.new)  # types show it, too
        if finding.rule not in accept and not is_asked and name.removeprefix(TIME_TO_LIVE) not in said.ttls:
            words = f"{finding.old or 'none'} -> {finding.new or 'none'}"
            meant.append(f"{name}: {words}: {finding.reason} [{finding.rule}]")
    return Meaning(attrs.evolve(said, renames=renames | dict(said.renames)), tuple(problems), tuple(meant))


def _columns(
    store: str, was: QueryOperator, becomes: QueryOperator, now: Mapping[str, str]
) -> Iterator[tuple[str, str, str]]:
    """Yield the columns of a store of which something follows: the path, the old path or "", what is wrong or ""."""
    texts = was.columns.get(store, {})
    stored = {alike: path for path, alike in _numbered(texts)}
    old, new = (_types(store, one) for one in (was, becomes))
    for path, alike in _numbered(now):
        source = stored.get(alike, "")
        if source and path.partition(".")[0] == source.partition(".")[0]:
            yield path, source, ""
        elif path in texts and path in old and path in new:
            is_wider = holds_all(new[path], old[path]) and _without_casts(now[path]) == texts[path]
            if not is_wider:
                yield path, "", f"it was {texts[path]}, and is {now[path]} now"


def _numbered(texts: Mapping[str, str]) -> Iterator[tuple[str, tuple[str, str, int]]]:
    """Yield each path with its part, its text, and how many before it have the same: the buffers of one aggregate."""
    seen = Counter[tuple[str, str]]()
    for path, text in texts.items():
        what = path.partition(".")[0], text
        yield path, (*what, seen[what])
        seen[what] += 1


def _types(store: str, of: QueryOperator) -> dict[str, SparkType]:
    schema = of.stores.get(store)
    if schema is None:
        return {}
    return {
        f"{part}.{name}": field.type
        for part, struct in (("key", schema.key), ("value", schema.value))
        for name, field in zip(struct.names, struct.fields, strict=True)
    }


def _without_casts(text: str) -> str:
    """Return a text as it is where its columns are widened first."""
    while (plain := _CAST.sub(r"\1", text)) != text:
        text = plain
    return text
