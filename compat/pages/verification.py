"""The pieces of a verification: the answer, what failed, and each check."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Protocol

from ...serializers.wording import many
from . import pieces
from .pieces import Line
from .rendering import piece

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from markupsafe import Markup

_FINE, _FAILED = "ok", "failed"
_FEW = 20
_COLUMNS = ("check", "result", "detail", "where")


class MadeCheck(Protocol):
    """A check and its result, as `verify --json` has them."""

    @property
    def name(self) -> str: ...
    @property
    def status(self) -> str: ...
    @property
    def detail(self) -> str: ...
    @property
    def where(self) -> str: ...


def verification_pieces(
    place: str, checks: Sequence[MadeCheck], facts: Iterable[tuple[str, str]] = (), notes: Iterable[str] = ()
) -> list[Markup]:
    """Return what a page on a verification shows.

    Args:
        place: What was verified.
        checks: The checks, in the order in which they were made.
        facts: What there is to know of it as a whole.
        notes: Further sentences.
    """
    failed = [one for one in checks if one.status == _FAILED]
    counts = Counter(str(one.status) for one in checks)
    told = ", ".join(f"{counts[status]:,} {status}" for status in counts)
    lines = [Line(f"{one.name}{f' ({one.where})' if one.where else ''}: {one.detail}", "red") for one in failed]
    shown = [one for one in checks if one.status != _FINE or len(checks) <= _FEW]
    rest = [one for one in checks if one.status == _FINE and len(checks) > _FEW]
    parts = [
        pieces.verdict("failed" if failed else "verified", place, [*facts, ("checks", told or "none")]),
        piece("section", "What failed", piece("notes", lines)) if failed else None,
        piece("section", "Checks", _table(shown)) if shown else None,
        piece("fold", f"{many(len(rest), 'check')} found nothing", _table(rest)) if rest else None,
        piece("notes", list(map(Line, notes))),
    ]
    return [one for one in parts if one is not None]


def _table(checks: Iterable[MadeCheck]) -> Markup:
    return piece("table", _COLUMNS, [[one.name, str(one.status), one.detail, one.where] for one in checks])
