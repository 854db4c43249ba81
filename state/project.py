"""Project settings for all runs: `[tool.stateshift]` in `pyproject.toml`.

[tool.stateshift]
job = "accounts:job"
history = "state_history"
level = "FULL"
allow = ["drops:$.coupon"]              # allowed losses, by the names that the gate prints
queries = { clicks = "clicks:build" }   # the functions that build streaming queries of Spark, by name

[tool.stateshift.levels]
"sessions" = "BACKWARD"                 # of an operator, by uid
"orders/open" = "FULL_TRANSITIVE"       # of a state; the key of an operator is "orders/<key>"
"clicks" = "FULL"                       # of a query; of its operators and states "clicks/aggregation 0/default"

[[tool.stateshift.overrides]]
state = "orders/open"
rule = "REC-3"
reason = "the state is emptied each night"
expires = 2026-12-31
"""

from __future__ import annotations

import datetime as dt
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs

from ..compat.gate.answers import KEY, KEY_GROUPS, READS, WHOLE
from ..compat.gate.levels import Level, Levels, Override
from ..compat.gate.losses import Guard
from ..compat.rules import rule_book
from ..serializers.errors import DeclarationError, located
from .project_settings import FILE, HISTORY, OPTION_ROOTS, find_settings, parse_settings

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from ..compat.description import JobDescription

_QUERY = re.compile(r"\w[\w.-]*")
_KINDS = {str: "text", list: "list", dict: "table", dt.date: "date"}
_OVERRIDE = {"state": str, "rule": str, "reason": str, "expires": dt.date}


@attrs.frozen
class Project:
    """The settings of a project; missing ones have their defaults.

    Attributes:
        folder: The folder of the file, or the current folder if there is none.
        job: `module:attribute`, or "".
        history: The folder of the recorded revisions.
        names_history: Whether the file sets that folder.
        levels: The levels that the gate checks.
        overrides: The failures that the gate accepts.
        allow: The names of allowed losses.
        queries: The functions that build its streaming queries, as `module:function`, by the name of the query.
    """

    folder: Path
    job: str = ""
    history: Path = Path(HISTORY)
    names_history: bool = False
    levels: Levels = attrs.field(factory=Levels)
    overrides: tuple[Override, ...] = ()
    allow: tuple[str, ...] = ()
    queries: Mapping[str, str] = attrs.field(factory=dict)

    @classmethod
    def find(cls, start: Path) -> Project:
        """Read the settings of the nearest `pyproject.toml`, in a folder or above it, that has any.

        If there is none, the nearest folder with a history of the usual name is used.

        Raises:
            DeclarationError: A setting is unknown, or has an invalid value.
        """
        settings = find_settings(start)
        if settings is not None:
            return cls._of(settings.folder, settings.values)
        upwards = (start, *start.parents)
        folder = next((folder for folder in upwards if (folder / HISTORY).is_dir()), start)
        return cls(folder, history=Path(HISTORY) if folder == start else folder / HISTORY)

    @classmethod
    def said_by(cls, text: str, folder: Path) -> Project:
        """Read the settings from the text of a file in this folder, as of some commit.

        Raises:
            DeclarationError: A setting is unknown, or has an invalid value.
        """
        return cls._of(folder, parse_settings(text) or {})

    def require_known(self, sides: Iterable[JobDescription]) -> None:
        """Refuse levels and overrides that apply to nothing: a misspelt name would be ignored otherwise.

        Args:
            sides: The job, and its history, the newest first; it is read only until all names are found.

        Raises:
            DeclarationError: None of the sides has the operator or state, or the rule book does not have the rule.
        """
        named = (*self.levels.operators, *self.levels.states, *(override.state for override in self.overrides))
        left = {name for name in named if name.partition("/")[0] not in self.queries}
        only_states = {override.state for override in self.overrides}
        known: set[str] = set()
        for side in sides if left else ():
            states = set(_state_names(side))
            operators = {operator.uid or operator.operator_id for operator in side.operators}
            known |= states
            left -= states | (operators - only_states)
            if not left:
                break
        for name in sorted(left):
            raise DeclarationError(
                f"[tool.stateshift] names {name!r}, which is neither in the job nor in its history",
                advice=f"write UID for an operator, or UID/STATE; there are: {', '.join(sorted(known))}",
            )
        for override in self.overrides:
            if override.rule not in rule_book():
                raise DeclarationError(
                    f"an override names the rule {override.rule!r}, which does not exist",
                    advice="write it as findings do, such as REC-3",
                )

    def of_query(self, name: str) -> Project:
        """Return the settings for one of the queries, whose levels and overrides are named `QUERY/OPERATOR/STATE`."""
        within = f"{name}/"
        named = {
            place.removeprefix(within): level for place, level in self.levels.states.items() if place.startswith(within)
        }
        levels = Levels(
            self.levels.operators.get(name, self.levels.project),
            {place: level for place, level in named.items() if "/" not in place},
            {place: level for place, level in named.items() if "/" in place},
        )
        overrides = (one for one in self.overrides if one.state.startswith(within))
        own = tuple(attrs.evolve(one, state=one.state.removeprefix(within)) for one in overrides)
        return attrs.evolve(self, levels=levels, overrides=own, queries={})

    @classmethod
    def _of(cls, folder: Path, settings: dict[str, Any]) -> Project:
        with located(file=str(folder / FILE)):
            return cls._checked(folder, {name: value for name, value in settings.items() if not _is_option(name)})

    @classmethod
    def _checked(cls, folder: Path, settings: dict[str, Any]) -> Project:
        names_history = "history" in settings
        job = _taken(settings, "job", str, "")
        history = _taken(settings, "history", str, HISTORY)
        level = _level(_taken(settings, "level", str, Level.BACKWARD))
        given = {name: _level(text) for name, text in _taken(settings, "levels", dict, {}).items()}
        levels = Levels(
            level,
            {name: level for name, level in given.items() if "/" not in name},
            {name: level for name, level in given.items() if "/" in name},
        )
        overrides = tuple(map(_override, _taken(settings, "overrides", list, [])))
        allow = Guard(tuple(map(str, _taken(settings, "allow", list, [])))).allow
        queries = _queries(_taken(settings, "queries", dict, {}))
        if settings:
            raise DeclarationError(
                f"[tool.stateshift] has {next(iter(settings))!r}, which is not a setting",
                advice="settings are job, history, level, levels, allow, overrides and queries",
            )
        return cls(folder, job, folder / history, names_history, levels, overrides, allow, queries)


def _is_option(name: str) -> bool:
    """Whether a setting is an option of backends and checkpoints, which commands do not read."""
    return name.partition(".")[0] in OPTION_ROOTS


def _state_names(side: JobDescription) -> Iterator[str]:
    for operator in side.operators:
        uid = operator.uid or operator.operator_id
        if operator.key is not None:
            yield f"{uid}/{KEY}"
        if operator.declares_key_groups:
            yield f"{uid}/{KEY_GROUPS}"
        if operator.computation is not None:
            yield from (f"{uid}/{KEY}", f"{uid}/{WHOLE}", "/".join(READS))
        yield from (f"{uid}/{state.name}" for state in operator.states)


def _taken(settings: dict[str, Any], name: str, kind: type, default: Any) -> Any:
    value = settings.pop(name, default)
    if not isinstance(value, kind):
        raise DeclarationError(f"{name!r} is {value!r}, and should be a {_KINDS[kind]}")
    return value


def _queries(places: dict[str, Any]) -> dict[str, str]:
    for name, place in places.items():
        if not _QUERY.fullmatch(name):
            raise DeclarationError(
                f"{name!r} is not a name for a query", advice="use letters, digits, '_', '-' and '.'"
            )
        if not isinstance(place, str):
            raise DeclarationError(f"query {name!r} is {place!r}, and should be MODULE:FUNCTION")
    return places


def _level(text: object) -> Level:
    try:
        return Level(str(text))
    except ValueError as error:
        raise DeclarationError(f"{text!r} is not a level; levels are {', '.join(Level)}") from error


def _override(facts: object) -> Override:
    if not isinstance(facts, dict) or facts.keys() != _OVERRIDE.keys():
        raise DeclarationError(
            f"an override is {facts!r}",
            advice="give it a state (UID/STATE), a rule, a reason and an expiry date",
        )
    for name, kind in _OVERRIDE.items():
        if not isinstance(facts[name], kind) or isinstance(facts[name], dt.datetime) or not facts[name]:
            raise DeclarationError(f"{name!r} of an override is {facts[name]!r}, and should be a {_KINDS[kind]}")
    return Override(**facts)
