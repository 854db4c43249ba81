"""`stateshift rules`: what does the identifier at the end of a finding mean?"""

from __future__ import annotations

import difflib
import textwrap
from typing import TYPE_CHECKING

import attrs
import click

from .failures import Status
from .options import common_options
from .output import print_json, print_lines, text_width

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from ..compat.rules import Rule

_TITLES = {
    "change": "change",
    "verdict": "verdict",
    "conversion": "migration",
    "holds": "holds",
    "why": "why",
    "release": "in this release",
}
_WIDTH = max(map(len, _TITLES.values())) + 2


@click.command(
    "rules",
    short_help="Tell what a rule says, by its identifier.",
    epilog="""\b
Examples:
  stateshift rules REC-4
  stateshift rules REC OPT-2
  stateshift rules --json

\b
An identifier stands at the end of each finding of a check: [REC-4]. Letters alone mean all of that family.""",
)
@click.argument("identifiers", metavar="[RULE]...", nargs=-1)
@common_options
def command(identifiers: tuple[str, ...], *, with_json: bool) -> int:
    """Show each RULE: the change, its verdict, what a migration does, and why. Without one: all of them."""
    from ..compat.rules import rule_book

    rules = _chosen(rule_book(), [identifier.upper() for identifier in identifiers])
    if with_json:
        print_json({"rules": [attrs.asdict(rule) for rule in rules]})
    else:
        print_lines(line for rule in rules for line in _lines(rule))
    return Status.DONE


def _chosen(book: Mapping[str, Rule], wanted: Sequence[str]) -> list[Rule]:
    """Give the rules that are named, or whose family is, in the order of the book; all where nothing is named."""
    families = {identifier.partition("-")[0] for identifier in book}
    for one in wanted:
        if one not in book and one not in families:
            close = difflib.get_close_matches(one, [*book, *sorted(families)], n=1)
            known = f"did you mean {close[0]}?" if close else f"families: {', '.join(sorted(families))}"
            raise click.BadParameter(f"there is no rule {one!r}; {known}", param_hint="RULE")
    return [
        rule
        for identifier, rule in book.items()
        if not wanted or identifier in wanted or identifier.partition("-")[0] in wanted
    ]


def _lines(rule: Rule) -> Iterator[str]:
    """Give a rule as a block of plain lines."""
    yield f"{rule.identifier}  {rule.section}"
    for name, title in _TITLES.items():
        text = getattr(rule, name)
        if text:
            first, *others = textwrap.wrap(text, max(text_width() - _WIDTH - 2, 40), break_long_words=False)
            yield f"  {title:<{_WIDTH}}{first}"
            yield from (f"  {'':<{_WIDTH}}{line}" for line in others)
