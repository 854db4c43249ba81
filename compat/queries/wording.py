"""Reports on queries in the words of their authors; stored texts and names, and options, stay as they are.

Spark names what has no name (`_groupingexpression`), converts times on the way, and calls each processor alike. Such
names stand in what is compared and recorded, so that they are replaced only where a person reads them.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, TypeVar

import attrs

from ...serializers.spark_rows.pairing import KEY
from .columns import first_of
from .plan_text import duration

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ..description import Computation
    from ..report import CheckReport, RoleReport, StateReport

R = TypeVar("R", "RoleReport", "StateReport")

_LONGEST = 20_000
_CONVERSION = re.compile(r"\b(?:precisetimestampconversion|knownnullable)\(")
_PROCESSOR = re.compile(r"\btransformWithState\w*UDF\b")
_START = re.compile(
    r"\(\((?P<time>[\w.@]+) - casewhen\(\(\(\((?P=time) - (?P<begin>\d+)\) % (?P<step>\d+)\) < 0\),"
    r" \(\(\((?P=time) - (?P=begin)\) % (?P=step)\) \+ (?P=step)\), \(\((?P=time) - (?P=begin)\) % (?P=step)\),"
    r" elseValue=\(\((?P=time) - (?P=begin)\) % (?P=step)\)\)\) - 0\)"
)
_END = re.compile(r"\((window\([\w.@]+, (\d+ \w+?)s?\))\.start \+ (\d+)\)")
_FIELD = re.compile(r"\bgetstructfield\((window\([^()]*\)), ordinal=([01])\)")
_TIME = re.compile(r"\((window\([^()]*\))\.end - 1\)")
_BOUNDS = ("start", "end")
_UNNAMED = re.compile(r"_groupingexpression\d*")
_OF_JOIN = re.compile(r"key\.(field\d+)")
_STORE = re.compile(r"\b(left|right)-(keyToNumValues|keyWithIndexToValue|keyWithTsToValues|tsWithKey)\b")
_STORES = {
    "keyToNumValues": "numbers of rows of the {} side",
    "keyWithIndexToValue": "rows of the {} side",
    "keyWithTsToValues": "rows of the {} side by time",
    "tsWithKey": "times of the {} side",
}


def as_written(text: str) -> str:
    """Return a text of a plan without what Spark puts around the expressions that an author wrote."""
    text = _PROCESSOR.sub("the processor", text)
    text = _STORE.sub(lambda found: _STORES[found[2]].format(found[1]), text)
    if len(text) > _LONGEST:
        return text
    while found := _CONVERSION.search(text):
        inner, _, rest = first_of(text[found.end() :])
        while rest and rest[0] != ")":
            _, _, rest = first_of(rest)
        text = f"{text[: found.start()]}{inner}{rest[1:]}"
    text = _START.sub(lambda found: f"window({found['time']}, {duration(int(found['step']))}).start", text)
    text = _END.sub(lambda found: f"{found[1]}.end", text)
    text = _FIELD.sub(lambda found: f"{found[1]}.{_BOUNDS[int(found[2])]}", text)
    return _TIME.sub(r"window_time(\1)", text)


def as_named(path: str, sides: Iterable[Computation]) -> str:
    """Return the path of a finding with the expression in place of a name that Spark made for it."""
    found = _UNNAMED.search(path) or _OF_JOIN.search(path)
    if found is None:
        return as_written(path)
    name = found[1] if found.re is _OF_JOIN else found[0]
    texts = (of[KEY.then(name)] for one in sides for of in one.columns.values() if KEY.then(name) in of)
    text = as_written(next(texts, ""))
    return f"{path} ({text})" if found.re is _OF_JOIN and text else path.replace(name, text) if text else path


def for_people(report: CheckReport) -> CheckReport:
    """Return a report as messages show it; ways out name what is stored, as options need it."""
    reads = None if report.reads is None else _shown(report.reads, ())
    operators = []
    for one in report.operators:
        sides = one.computations[::-1]
        key, whole = (None if role is None else _shown(role, sides) for role in (one.key, one.whole))
        states = tuple(_shown(state, sides) for state in one.states)
        operators.append(attrs.evolve(one, key=key, whole=whole, states=states))
    lines = tuple(map(as_written, report.not_compared))
    return attrs.evolve(report, reads=reads, operators=tuple(operators), not_compared=lines)


def _shown(of: R, sides: Iterable[Computation]) -> R:
    """Return a part of a report with its findings in the words of the query's author."""
    findings = tuple(
        attrs.evolve(
            one,
            path=as_named(one.path, sides),
            old=as_written(one.old),
            new=as_written(one.new),
            reason=as_written(one.reason),
        )
        for one in of.result.findings
    )
    return attrs.evolve(of, result=attrs.evolve(of.result, findings=findings))
