"""Two types as one tree: what is on both sides stands side by side, and what is found stands where it is.

A tree is for people who look at it. What differs is decided by the check: a place is marked by the findings on it, and
by the types in words; no serializer is asked.
"""

from __future__ import annotations

import enum
from bisect import bisect_left
from typing import TYPE_CHECKING, Any

import attrs

from ..serializers.compatibility import Decision, Path
from ..serializers.containers.wrappers import without_ttl_awareness
from .type_difference import DEEPEST, Shape, step_between, type_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from ..serializers.compatibility import Finding
    from ..serializers.snapshot import TypeSerializerConfigSnapshot

    Snapshot = TypeSerializerConfigSnapshot[Any]

_WIDEST = 300
"""How many characters of a type are told where it has no places of its own."""
_NAMES = {"[]": "each element", "<key>": "each key", "{}": "each value"}


class Mark(enum.StrEnum):
    """What becomes of a place, in a word."""

    SAME = "same"
    CHANGED = "changed"
    RENAMED = "renamed"
    ADDED = "new"
    REMOVED = "gone"


@attrs.frozen
class TypeNode:
    """A place in a type: a field, or a part such as the elements of a list.

    Attributes:
        name: Its name, on the new side if both have it.
        mark: What becomes of it.
        old: Its type in words; "" where it is new.
        new: Its new type in words; "" where it is gone.
        was: Its name on the old side, where that is another one.
        children: The fields, and parts that have fields themselves.
        findings: What is found on it, and on nothing within it.
    """

    name: str
    mark: Mark
    old: str
    new: str
    was: str = ""
    children: tuple[TypeNode, ...] = ()
    findings: tuple[Finding, ...] = attrs.field(default=(), eq=False)

    @property
    def is_same(self) -> bool:
        """Whether nothing becomes of it, nor of anything within it."""
        return self.mark is Mark.SAME and not self.findings and all(child.is_same for child in self.children)


def type_tree(
    old: Snapshot | None, new: Snapshot | None, findings: Iterable[Finding] = (), *, name: str = "", root: str = "$"
) -> TypeNode:
    """Return two types as one tree; a side that is None is missing.

    Args:
        old: The stored type.
        new: The new type.
        findings: What is found on paths within it. A field that one of them says is renamed is one place.
        name: The name of the whole.
        root: The path of the whole.
    """
    told = tuple(findings)
    former: dict[str, str] = {
        one.path: one.old for one in told if one.old and one.old != one.new and one.path.beside(one.new, one.old)
    }
    return _Trees(former).node(name, _Pair(old, new), Path(root), told, ())


@attrs.frozen
class _Pair:
    """The snapshots of a place; None where a side has none."""

    old: Snapshot | None
    new: Snapshot | None
    was: str = ""
    """The name on the old side, where it is another one."""

    def sides(self) -> Iterator[Snapshot]:
        yield from (without_ttl_awareness(side) for side in (self.old, self.new) if side is not None)


@attrs.frozen
class _Trees:
    """What makes the nodes of a tree.

    Attributes:
        former: The former name of each field that is renamed, by its path.
    """

    former: Mapping[str, str]

    def node(
        self, name: str, pair: _Pair, path: Path, findings: Sequence[Finding], above: tuple[tuple[int, ...], ...]
    ) -> TypeNode:
        identity = tuple(map(id, pair.sides()))
        is_open = identity not in above and len(above) < DEEPEST
        parts = list(self._parts(pair, path)) if is_open else []
        within = _within([at for _, _, at in parts], findings)
        own = {id(one) for one in findings}.difference(id(one) for few in within for one in few)
        children = [
            self.node(step, inner, at, few, (*above, identity))
            for (step, inner, at), few in zip(parts, within, strict=True)
        ]
        if not any(map(_has_fields, pair.sides())):
            children = [child for child in children if child.children]  # `list<long>` tells all of its parts
        if len(children) == 1 and not any(map(_has_fields, pair.sides())):
            (only,) = children
            own.update(map(id, only.findings))
            children = list(only.children)
        old, new = (_words(side, bool(children)) for side in (pair.old, pair.new))
        found = tuple(one for one in findings if id(one) in own)
        return TypeNode(name, _mark(pair, old, new, found), old, new, pair.was, tuple(children), found)

    def _parts(self, pair: _Pair, path: Path) -> Iterator[tuple[str, _Pair, Path]]:
        """Yield what a type consists of: names or steps, the pair of snapshots, and the path."""
        sides = list(pair.sides())
        shapes = [Shape.of(side) for side in sides]
        ours, *theirs = (shape.fields or {} for shape in shapes)
        if theirs:
            yield from self._fields(ours, theirs[0], path)
        else:
            for name, (snapshot, _) in ours.items():
                yield name, self._one_sided(pair, snapshot), path.then(name)
        if len({(shape.outline, len(shape.parts)) for shape in shapes}) == 1:
            for at, part in enumerate(shapes[0].parts):
                step = step_between(sides[0], part, at)
                inner = _Pair(part, shapes[1].parts[at]) if len(sides) == 2 else self._one_sided(pair, part)
                yield _NAMES.get(step, step), inner, Path(path + step)

    def _fields(
        self, ours: dict[str, tuple[Snapshot, bool]], theirs: dict[str, tuple[Snapshot, bool]], path: Path
    ) -> Iterator[tuple[str, _Pair, Path]]:
        """Yield the fields of two records: first those that are stored, in their order."""
        becomes = {name: name for name in theirs if name in ours}
        for name in theirs:
            was = self.former.get(path.then(name), "")
            if name not in ours and was in ours and was not in becomes:
                becomes[was] = name
        for name, (snapshot, _) in ours.items():
            now = becomes.get(name)
            if now is None:
                yield name, _Pair(snapshot, None), path.then(name)
            else:
                yield now, _Pair(snapshot, theirs[now][0], name if name != now else ""), path.then(now)
        taken = set(becomes.values())
        for name, (snapshot, _) in theirs.items():
            if name not in taken:
                yield name, _Pair(None, snapshot), path.then(name)

    @staticmethod
    def _one_sided(pair: _Pair, snapshot: Snapshot) -> _Pair:
        return _Pair(snapshot, None) if pair.new is None else _Pair(None, snapshot)


def _has_fields(snapshot: Snapshot) -> bool:
    return Shape.of(snapshot).fields is not None


def _within(paths: Sequence[Path], findings: Sequence[Finding]) -> list[list[Finding]]:
    """Return what is found within each path, in the order of the findings."""
    places = [_plain(one.path) for one in findings]
    order = sorted(range(len(places)), key=places.__getitem__)
    ordered = [places[at] for at in order]
    found: list[list[Finding]] = []
    for path in map(_plain, paths):
        among = order[bisect_left(ordered, path) : bisect_left(ordered, f"{path}\U0010ffff")]
        found.append([findings[at] for at in sorted(among) if places[at].is_within(path)])
    return found


def _plain(path: Path) -> Path:
    """Return a path without the marks of what may be null, which only one of two paths may have."""
    return Path(path.replace("?", "")) if "?" in path else path


def _words(snapshot: Snapshot | None, has_children: bool) -> str:  # noqa: FBT001 - private
    if snapshot is None:
        return ""
    return snapshot.describe() if has_children else type_text(snapshot, _WIDEST)


def _mark(pair: _Pair, old: str, new: str, findings: Sequence[Finding]) -> Mark:
    if pair.old is None or pair.new is None:
        return Mark.ADDED if pair.old is None else Mark.REMOVED
    if pair.was:
        return Mark.RENAMED
    is_found = any(one.forbidden or one.verdict.decision is not Decision.START for one in findings)
    return Mark.CHANGED if is_found or old != new else Mark.SAME
