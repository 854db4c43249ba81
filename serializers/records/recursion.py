"""Scopes of records that contain themselves: what a reference means, and which pairs are being judged (COMP-3).

Records that contain each other form a cycle. The outermost record of a cycle holds all its records; wherever one of
them occurs inside, there is a reference by name. So types, snapshots and their bytes are finite trees, and a reference
has a meaning only within its cycle: code that enters a cycle opens a scope, in which references are followed. Each
thread has its own scopes.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import attrs

from ..compatibility import CompatibilityResult, Finding, Verdict
from ..errors import CorruptSavepoint
from ..serializer import KEEP_OLD_TYPE
from ..ways_out import by_migration

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from ..snapshot import TypeSerializerConfigSnapshot
    from .serializers import DescribedRecordSerializer, RecordSnapshot

R = TypeVar("R")

_CALLS_A_LEVEL = 10
"""More calls than one level of values takes in any type, so that Python's recursion limit is never reached first."""


@attrs.define(eq=False)
class Scope(Generic[R]):
    """The records of one cycle, by name.

    Attributes:
        records: The records by name; the outermost one is the first.
        outer: The enclosing scope.
        levels: The nesting depth of values, in this scope and its outer ones.
    """

    records: Mapping[str, R]
    outer: Scope[R] | None
    levels: int = 0


class TooDeep(Exception):
    """A value is nested too deeply; the code that opened the outermost scope reports which."""


def most_levels() -> int:
    """Return the highest allowed nesting of a record in itself: a tenth of Python's recursion limit, by default 100."""
    return sys.getrecursionlimit() // _CALLS_A_LEVEL


@attrs.frozen(eq=False)
class Scopes(Generic[R]):
    """The open scopes of this thread."""

    _innermost: ContextVar[Scope[R] | None]

    @classmethod
    def named(cls, name: str) -> Scopes[R]:
        """Create an independent set of scopes."""
        return cls(ContextVar(name, default=None))

    @contextmanager
    def entered(self, circle: Mapping[str, R], too_deep: Callable[[], Exception] | None = None) -> Iterator[None]:
        """Open the scope of a cycle; without a cycle, open none.

        Args:
            circle: The records of the cycle, by name.
            too_deep: Makes the error for a value that is nested too deeply; used by the outermost scope only.
        """
        if not circle:
            yield
            return
        outer = self._innermost.get()
        token = self._innermost.set(Scope(circle, outer, outer.levels if outer else 0))
        try:
            yield
        except (TooDeep, RecursionError):
            if outer is not None or too_deep is None:
                raise
            raise too_deep() from None
        finally:
            self._innermost.reset(token)

    @contextmanager
    def following(self, name: str, *, deeper: bool = False) -> Iterator[tuple[R, bool]]:
        """Follow a reference, and make the scope of its record the open one.

        Args:
            name: The name of the record.
            deeper: Whether this adds a level to a value; at most `most_levels` are allowed.

        Yields:
            The record, and whether it is the outermost record of the scope, which is then already open.

        Raises:
            CorruptSavepoint: No enclosing cycle has such a record.
            TooDeep: There are too many levels.
        """
        scope = found = self._innermost.get()
        while found is not None and name not in found.records:
            found = found.outer
        if scope is None or found is None:
            raise CorruptSavepoint(f"a reference to the record {name!r}, which does not contain it")
        levels = found.levels
        found.levels = scope.levels + deeper
        token = None if found is scope else self._innermost.set(found)
        try:
            if found.levels > most_levels():
                raise TooDeep
            yield found.records[name], name == next(iter(found.records))
        finally:
            found.levels = levels
            if token is not None:
                self._innermost.reset(token)


serializers: Scopes[DescribedRecordSerializer[Any]] = Scopes.named("serializers")
snapshots: Scopes[RecordSnapshot] = Scopes.named("snapshots")


@attrs.define
class Reference:
    """Base of the snapshot that replaces a record within itself.

    Attributes:
        name: The name of the record.
    """

    name: str = ""


@contextmanager
def followed(snapshot: TypeSerializerConfigSnapshot[Any]) -> Iterator[TypeSerializerConfigSnapshot[Any]]:
    """Yield the snapshot that a reference refers to; any other snapshot is yielded as it is."""
    if isinstance(snapshot, Reference):
        with snapshots.following(snapshot.name) as (record, _):
            yield record
    else:
        yield snapshot


@attrs.define(eq=False)
class Later:
    """A conversion that is set after its pair of records has been judged, for a record within itself."""

    convert: Callable[[Any], Any] | None = attrs.field(default=None, repr=False)

    def __call__(self, value: Any) -> Any:
        return value if value is None or self.convert is None else self.convert(value)


@attrs.define(eq=False)
class _Pair:
    """A new record, a stored one, and their result; it holds references to both, so that their ids stay unique."""

    new: DescribedRecordSerializer[Any]
    old: RecordSnapshot
    result: CompatibilityResult[Any] | None = None
    later: Later = attrs.Factory(Later)

    def again(self) -> CompatibilityResult[Any]:
        """Return the result for a repeated pair: without findings, and compatible while the pair is being judged."""
        if self.result is None:
            return attrs.evolve(CompatibilityResult.compatible(), conversion=self.later)
        return attrs.evolve(self.result, findings=(), children=())


Pairs = dict[tuple[int, int], _Pair]
_pairs: ContextVar[Pairs | None] = ContextVar("_pairs", default=None)


Judge = Callable[["DescribedRecordSerializer[Any]", "RecordSnapshot"], CompatibilityResult[Any]]


def judged_once(new: DescribedRecordSerializer[Any], old: RecordSnapshot, judge: Judge) -> CompatibilityResult[Any]:
    """Judge a stored record; within a cycle, judge each pair only once (COMP-3)."""
    pairs = _pairs.get()
    if pairs is not None:
        return _judged(pairs, new, old, judge)
    if not new.circle and not old.circle:
        return judge(new, old)
    pairs = {}
    token = _pairs.set(pairs)
    try:
        return _judged(pairs, new, old, judge)
    finally:
        _pairs.reset(token)


def _judged(
    pairs: Pairs, new: DescribedRecordSerializer[Any], old: RecordSnapshot, judge: Judge
) -> CompatibilityResult[Any]:
    known = pairs.get((id(new), id(old)))
    if known is not None:
        return known.again()
    pair = pairs[id(new), id(old)] = _Pair(new, old)
    with serializers.entered(new.circle), snapshots.entered(old.circle):
        pair.result = judge(new, old)
    pair.later.convert = pair.result.conversion
    if new.circle and pair.result.is_compatible_after_reconfiguration():
        pair.result = _with_copies(new, pair.result, pairs)
    return pair.result


def _by_itself(record: Any) -> Any:
    """Return a record without the others of its cycle, which are compared separately."""
    return attrs.evolve(record, others=()) if record.circle else record


def _with_copies(
    new: DescribedRecordSerializer[Any], result: CompatibilityResult[Any], pairs: Pairs
) -> CompatibilityResult[Any]:
    """Put the reconfigured copies into the cycle, where every reference finds them (COMP-4)."""
    copies = {}
    for name, record in new.circle.items():
        found = [pair.result for pair in pairs.values() if pair.new is record and pair.result is not None]
        ways_to_read = [
            answer.reconfigured_serializer if answer.is_compatible_after_reconfiguration() else record
            for answer in found
        ]  # fmt: skip
        if any(_by_itself(one) != _by_itself(ways_to_read[0]) for one in ways_to_read):
            reason = f"{name} is stored in several ways, and one serializer reads only one of them"
            ways = (by_migration("all of it is written in one way"), KEEP_OLD_TYPE)
            finding = Finding("$", "COMP-4", Verdict.REQUIRES_MIGRATION, name, name, reason, ways)
            return CompatibilityResult.requires_migration(finding, *result.findings, conversion=result.conversion)
        copies[name] = ways_to_read[0] if ways_to_read else record
    copy: Any = result.reconfigured_serializer
    _, *others = copies.values()
    return attrs.evolve(result, reconfigured=attrs.evolve(copy, others=tuple(others)))
