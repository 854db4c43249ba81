"""The pieces of a description: its operators, their states, and what the types of these consist of."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...serializers.wording import many
from ..type_tree import type_tree
from . import pieces
from .pieces import Line, Node, Operator, Subject
from .rendering import piece

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from markupsafe import Markup

    from ..description import JobDescription, OperatorDescription, SerializerDescription


def description_pieces(
    description: JobDescription, word: str = "state", headline: str = "", facts: Iterable[tuple[str, str]] = ()
) -> list[Markup]:
    """Return what is shown of a description.

    Args:
        description: The description.
        word: What is described, in a word.
        headline: It in a sentence; by default its origin.
        facts: What there is to know of it as a whole.
    """
    states = many(sum(len(operator.states) for operator in description.operators), "state")
    counted = f"{many(len(description.operators), 'operator')} with {states}"
    operators = [_operator(operator, f"o{at}") for at, operator in enumerate(description.operators)]
    return [
        pieces.verdict(word, headline or description.origin, [*facts, ("has", counted)]),
        pieces.operators(operators) if operators else piece("nothing", "There is no state in it."),
    ]


def _operator(operator: OperatorDescription, anchor: str) -> Operator:
    subjects = [
        Subject(
            anchor=f"{anchor}-{at}", name=state.name, word=str(state.kind), old=state.describe(),
            new=state.describe(), trees=tuple(_trees([("key", state.key), ("", state.value)])),
        )
        for at, state in enumerate(operator.states)
    ]  # fmt: skip
    if operator.key is not None:
        told = operator.key.describe()
        trees = tuple(_trees([("", operator.key)]))
        subjects.insert(0, Subject(anchor=f"{anchor}-k", name="key", word="key", old=told, new=told, trees=trees))
    return Operator(
        anchor=anchor,
        title=operator.uid or operator.operator_id,
        word=many(len(operator.states), "state"),
        facts=tuple(_facts(operator)),
        lines=(Line(f"not all of its state can be read: {operator.unreadable}", "red"),) if operator.unreadable else (),
        changed=tuple(subjects),
    )


def _facts(operator: OperatorDescription) -> Iterator[str]:
    if operator.uid:
        yield operator.operator_id
    if operator.name and operator.name != operator.uid:
        yield operator.name
    if operator.parallelism:
        yield f"parallelism {operator.parallelism:,}"
    if operator.max_parallelism:
        yield f"max parallelism {operator.max_parallelism:,}"


def _trees(parts: Iterable[tuple[str, SerializerDescription | None]]) -> Iterator[Node]:
    for name, part in parts:
        if part is not None:
            yield Node.made(type_tree(part.snapshot, part.snapshot, name=name))
