"""The pieces of a history: the line of its revisions, the newest first, with what each changed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from ...serializers.wording import many
from ..difference import compare
from . import pieces
from .difference import operators_of
from .pieces import Line, Subject
from .rendering import piece

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from markupsafe import Markup

    from ..description import JobDescription
    from ..gate.history import History, RecordedRevision


@attrs.frozen
class Revision:
    """A revision as it is shown.

    Attributes:
        anchor: Its id on the page.
        name: Its name.
        id: Its id in the history.
        created: The day on which it was recorded.
        message: The message of its author.
        words: What its badges say: whether it is a head, and whether state must be migrated from its parent.
        follows: The revisions that it follows: names, and ids on the page.
        lines: Sentences on it.
        subjects: The keys and states that it changed.
    """

    anchor: str
    name: str
    id: str
    created: str
    message: str
    words: tuple[str, ...]
    follows: tuple[tuple[str, str], ...]
    lines: tuple[Line, ...]
    subjects: tuple[Subject, ...]


def history_pieces(history: History, title: str = "", queries: Iterable[tuple[str, str]] = ()) -> list[Markup]:
    """Return what a page on a history shows.

    Args:
        history: The history.
        title: It in a sentence; by default how many revisions it has.
        queries: The described queries of Spark: names, and files.
    """
    shown = [_revision(history, one, f"r{at}") for at, one in enumerate(history.revisions)]
    heads = ", ".join(one.name for one in history.heads) or "none"
    listed = [Line(f"{name}: {file}") for name, file in queries]
    parts = [
        pieces.verdict("history", title or many(len(shown), "revision"), [("head" if shown else "heads", heads)]),
        piece("section", "Revisions, the newest first", piece("revisions", list(reversed(shown)))) if shown else None,
        piece("section", "Queries", piece("notes", listed)) if listed else None,
    ]
    return [one for one in parts if one is not None]


def _revision(history: History, revision: RecordedRevision, anchor: str) -> Revision:
    places = {one.id: (one, f"r{at}") for at, one in enumerate(history.revisions)}
    parents = [places[parent] for parent in revision.parents]
    words = ["head"] if revision in history.heads else []
    lines, subjects = [Line(f"note: {note}", "yellow") for note in revision.notes], list[Subject]()
    described = revision.description
    if not parents:
        lines += _first(described)
    for at, (parent, _) in enumerate(parents):
        difference = compare(parent.description, described)
        words += [str(difference.forwards)] if difference.forwards is not None else []
        of = f", since {parent.name}" if len(parents) > 1 else ""
        found, _ = operators_of(difference, f"{anchor}-{at}-", directed=True)
        changed = [
            attrs.evolve(subject, name=f"{operator.title}/{subject.name}", more=of.removeprefix(", "), is_open=False)
            for operator in found
            for subject in operator.changed
        ]
        subjects += changed
        lines += [] if changed else [Line(f"no state is another{of}", "dim")]
    follows = tuple((parent.name, place) for parent, place in parents)
    created = revision.created.isoformat()
    return Revision(
        anchor, revision.name, revision.id, created, revision.message, tuple(dict.fromkeys(words)), follows,
        tuple(lines), tuple(subjects),
    )  # fmt: skip


def _first(described: JobDescription) -> Iterator[Line]:
    for operator in described.operators:
        names = ", ".join(state.name for state in operator.states) or "none"
        yield Line(f"operator {operator.uid or operator.operator_id}: {names}")
