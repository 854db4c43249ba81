"""`stateshift rules`: the meaning of the rule identifier and the flags at the end of a finding."""

from __future__ import annotations

import difflib
import textwrap
from typing import TYPE_CHECKING

import click

from ...compat.plain_data import plain
from ..failures import Status
from ..options import common_options
from ..output import print_json, print_lines, text_width

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from ...compat.rules import FlagMeaning, Rule

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
    epilog="""\b
Examples:
  stateshift rules REC-4
  stateshift rules REC OPT-2
  stateshift rules may_fail_per_value
  stateshift rules --json

\b
Each finding of a check ends with an identifier, [REC-4], and then its flags: drops:$.name.
Letters alone mean all rules of that family.""",
)
@click.argument("names", metavar="[RULE|FLAG]...", nargs=-1)
@common_options
def command(names: tuple[str, ...], *, with_json: bool) -> int:
    """Show each RULE: the change, its verdict, what a migration does, and why; and what each FLAG says.

    Without one: all of them.
    """
    from ...compat.rules import flag_book, rule_book

    wanted = {name.upper() for name in names} | {name.partition(":")[0].lower() for name in names}
    _require_known(names, {*rule_book(), *map(_family, rule_book())}, flag_book())
    rules = [rule for name, rule in rule_book().items() if not names or wanted & {name, _family(name)}]
    flags = [flag for name, flag in flag_book().items() if not names or name in wanted]
    if with_json:
        print_json({"rules": plain(rules), "flags": plain(flags)})
    else:
        print_lines(line for rule in rules for line in _rule_lines(rule))
        print_lines(line for flag in flags for line in _flag_lines(flag))
    return Status.DONE


def _family(identifier: str) -> str:
    return identifier.partition("-")[0]


def _require_known(names: Sequence[str], rules: set[str], flags: Mapping[str, FlagMeaning]) -> None:
    """Refuse a name that is neither a rule, nor a family of rules, nor a flag."""
    for name in names:
        upper, lower = name.upper(), name.partition(":")[0].lower()
        if upper in rules or lower in flags:
            continue
        close = difflib.get_close_matches(upper, rules, n=1) + difflib.get_close_matches(lower, flags, n=1)
        families = ", ".join(sorted({_family(one) for one in rules}))
        known = f"did you mean {close[0]}?" if close else f"families: {families}; flags: {', '.join(flags)}"
        raise click.BadParameter(f"there is no rule or flag {name!r}; {known}", param_hint="RULE|FLAG")


def _rule_lines(rule: Rule) -> Iterator[str]:
    """Yield a rule as a block of plain lines."""
    yield f"{rule.identifier}  {rule.section}"
    for name, title in _TITLES.items():
        yield from _paragraph(title, getattr(rule, name))


def _flag_lines(flag: FlagMeaning) -> Iterator[str]:
    """Yield a flag as a block of plain lines."""
    yield f"{flag.name}  a flag"
    yield from _paragraph("means", flag.means)
    yield from _paragraph("rules", ", ".join(flag.rules))
    yield from _paragraph("to refuse it", f"--forbid {flag.name}")


def _paragraph(title: str, text: str) -> Iterator[str]:
    if text:
        first, *others = textwrap.wrap(text, max(text_width() - _WIDTH - 2, 40), break_long_words=False)
        yield f"  {title:<{_WIDTH}}{first}"
        yield from (f"  {'':<{_WIDTH}}{line}" for line in others)
