"""The rule book: the consequence of every type change, and the laws of every check and run.

The identifiers of rules are used in findings, errors and tests; the text is in `rules.toml`. Source: compatibility
rules, sections 1 to 11.
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
    """A rule: a decision about a change, or a law.

    Attributes:
        identifier: The identifier, as in findings: `REC-4`.
        section: The title of its section.
        change: For a decision: the difference between the stored type and the new one.
        verdict: For a decision: the verdict on that change.
        conversion: For a decision: the conversion in a migration and its flags, or "".
        holds: For a law: the text of the law.
        why: The reason, in one or two sentences.
        release: The restriction of this release, if it does less than the rule allows, or "".
    """

    identifier: str
    section: str
    change: str = ""
    verdict: str = ""
    conversion: str = ""
    holds: str = ""
    why: str
    release: str = ""


@attrs.frozen
class FlagMeaning:
    """The meaning of a flag.

    Attributes:
        name: The name in findings, without detail: `drops`.
        means: The meaning, in one or two sentences.
        rules: The identifiers of the rules that use it.
    """

    name: str
    means: str
    rules: tuple[str, ...]


@functools.cache
def flag_book() -> Mapping[str, FlagMeaning]:
    """Return all flags by name."""

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
    """Return all rules by identifier, in the order of the book."""
    rules = (
        Rule(identifier=identifier, section=section["title"], **words)
        for section in _book()["section"]
        for identifier, words in section["rules"].items()
    )
    return MappingProxyType({rule.identifier: rule for rule in rules})


@functools.cache
def _book() -> dict[str, Any]:
    return tomllib.loads(resources.files(__package__).joinpath("rules.toml").read_text(encoding="utf-8"))
