"""What the model answers about a stored type and a declared one, and how the answers of parts are put together."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import attrs
from evolution.shapes import (
    ArrayOf,
    EitherOf,
    Leaf,
    ListOf,
    MapOf,
    Maybe,
    RecordOf,
    RowOf,
    SetOf,
    Stamped,
    TupleOf,
    contains,
)
from evolution.values import as_python_sees

OK, COPY, MIGRATE, FALLBACK, REFUSE = range(5)
"""The five verdicts, best to worst."""


class Unfit(Exception):
    """A stored value that the conversion cannot take: the run must stop.

    Attributes:
        flag: What the check says of it in advance; "" where it cannot.
    """

    def __init__(self, why, flag=""):
        super().__init__(why)
        self.flag = flag


class Misdeclared(Exception):
    """A declaration that contradicts itself: two fields claim one stored field."""


@attrs.frozen
class Answer:
    """What the book says of an old type and a new one.

    Attributes:
        verdict: One of the five.
        findings: (path, rule) of all that is worse than compatible.
        convert: (value, as_read) -> value. As read by the new program; else as the bytes are where nothing is
            rewritten, in which nulls are kept whatever the new type says.
        label: The type that describes the bytes where a reconfigured copy takes them over.
        loses: Whether the conversion is `lossy` or `drops` something, according to flags.
        is_readable: Whether the old bytes can be read: by the snapshot, or by the fallbacks of parts.
        is_writable: Whether the new program writes all that it reads; not a subclass that has lost its decorator.
    """

    verdict: int
    findings: frozenset
    convert: Callable[[Any, bool], Any]
    label: Any
    loses: bool = False
    is_readable: bool = True
    is_writable: bool = True

    @property
    def migrates(self):
        return self.verdict in {MIGRATE, FALLBACK}


def same(value, _):
    return value


def fresh(shape):
    """The type that describes what a new program writes: fields lie in alphabetical order, subclasses by name."""
    match shape:
        case Maybe(inner):
            return Maybe(fresh(inner))
        case Stamped(inner):
            return Stamped(fresh(inner))
        case ListOf(element):
            return ListOf(fresh(element))
        case ArrayOf(element):
            return ArrayOf(fresh(element))
        case SetOf(element):
            return SetOf(fresh(element))
        case MapOf(key, value):
            return MapOf(fresh(key), fresh(value))
        case TupleOf(items):
            return TupleOf(tuple(map(fresh, items)))
        case EitherOf(left, right):
            return EitherOf(fresh(left), fresh(right))
        case RecordOf(fields=fields):
            inside = [attrs.evolve(field, shape=fresh(field.shape), wrapped=False) for field in fields]
            subclasses = tuple(map(fresh, shape.by_tag))
            return attrs.evolve(
                shape, fields=tuple(sorted(inside, key=lambda field: field.name)), subclasses=subclasses
            )
        case RowOf(columns=columns):
            inside = tuple(attrs.evolve(column, shape=fresh(column.shape)) for column in columns)
            return attrs.evolve(shape, columns=inside, stored=())
    return shape


def label_after(old, new, answer):
    """What describes the bytes after a migration."""
    return {OK: old, COPY: answer.label}.get(answer.verdict) or fresh(new)


def is_sealed(shape):
    """Whether nothing in the savepoint restores a reader of a type."""
    return contains(shape, lambda part: part == Leaf("sealed"))


def refused(old, new, rule):
    return Answer(REFUSE, frozenset({("$", rule)}), same, fresh(new), is_readable=not is_sealed(old))


def below(findings, step):
    return frozenset((f"${step}{path[1:]}", rule) for path, rule in findings)


def compose(new, outer, children, convert, label=None, *, old, loses=False):
    """COMP-1 and COMP-4: the worst of all, all findings, and a copy in which the reconfigured parts are replaced.

    `outer` is the composite's own: {(path, rule): verdict}. `children` are (step, answer, new type of the part).
    """
    verdict = max([*outer.values(), *(answer.verdict for _, answer, _ in children), OK])
    findings = frozenset(outer).union(*(below(answer.findings, step) for step, answer, _ in children))
    effective = [answer.label if answer.verdict == COPY else fresh(part) for _, answer, part in children]
    return Answer(
        verdict,
        findings,
        convert,
        label(effective) if label is not None else fresh(new),
        loses or any(answer.loses for _, answer, _ in children),
        is_readable=not is_sealed(old)
        or (verdict == FALLBACK and all(answer.is_readable for _, answer, _ in children)),
        is_writable=all(answer.is_writable for _, answer, _ in children),
    )


FAMILIES = {}
"""By kind of type, what judges two types of that kind."""


def judges(kind):
    """Say that a function judges two types of a kind."""

    def register(function):
        FAMILIES[kind] = function
        return function

    return register


def item_of(answer, *, takes_null):
    """The conversion of an item whose null flag is the container's."""

    def convert(value, as_read):
        if value is not None:
            return answer.convert(value, as_read)
        if as_read and not takes_null:
            raise Unfit("a null where none is declared", "may_fail_per_value")
        return None

    return convert


def apart(values, what, by=lambda value: value):
    """The same values; two that became one stop the run (LIST-2, MAP-3)."""
    if len({as_python_sees(by(value)) for value in values}) < len(values):
        raise Unfit(f"two {what} become the same", "collision_check")
    return frozenset(values)
