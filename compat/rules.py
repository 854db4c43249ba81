"""The rule book: what every change of a type leads to, and what holds of every check and run.

A rule's identifier stands in findings, errors and tests; `rules.toml` has the words. Source: compatibility rules,
sections 1 to 11.
"""

from __future__ import annotations

import functools
import re
import tomllib
from importlib import resources
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import attrs

if TYPE_CHECKING:
    from collections.abc import Mapping


@attrs.frozen(kw_only=True)
class Rule:
    """One rule: a decision about a change, or a law.

    Attributes:
        identifier: As findings cite it: `REC-4`.
        section: Title of the section in which it stands.
        change: Of a decision: what differs between the stored type and the new one.
        verdict: Of a decision: what that leads to.
        conversion: Of a decision: what a migration does and which flags it carries, or "".
        holds: Of a law: what it says.
        why: The reason, in one or two sentences.
        release: Where this release does less than the rule allows: what it does instead, or "".
    """

    identifier: str
    section: str
    change: str = ""
    verdict: str = ""
    conversion: str = ""
    holds: str = ""
    why: str
    release: str = ""

    @property
    def is_law(self) -> bool:
        """Whether the rule holds of all checks or runs, and decides about no single change."""
        return bool(self.holds)


@attrs.frozen
class FlagMeaning:
    """What a flag says.

    Attributes:
        name: As findings have it, without detail: `drops`.
        means: In one or two sentences.
        rules: Identifiers of the rules that name it.
    """

    name: str
    means: str
    rules: tuple[str, ...]


@functools.cache
def flag_book() -> Mapping[str, FlagMeaning]:
    """Give all flags by name."""

    def has(rule: Rule, flag: str) -> bool:
        return re.search(rf"`{flag}[`:]", f"{rule.verdict} {rule.conversion} {rule.holds} {rule.why}") is not None

    return MappingProxyType(
        {
            flag: FlagMeaning(flag, means, tuple(rule.identifier for rule in rule_book().values() if has(rule, flag)))
            for flag, means in _book()["flags"].items()
        }
    )


@functools.cache
def rule_book() -> Mapping[str, Rule]:
    """Give all rules by identifier, in the order of the book."""
    rules = (
        Rule(identifier=identifier, section=section["title"], **words)
        for section in _book()["section"]
        for identifier, words in section["rules"].items()
    )
    return MappingProxyType({rule.identifier: rule for rule in rules})


@functools.cache
def _book() -> dict[str, Any]:
    return tomllib.loads(resources.files(__package__).joinpath("rules.toml").read_text(encoding="utf-8"))
