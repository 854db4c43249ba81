"""The JSON of `COMPILE PLAN`, read with the place of each text in it, so that an edit changes these bytes alone.

    flinkVersion, nodes, edges (source, target)
    node    id, type `stream-exec-NAME_VERSION`, description, [state: index, ttl, name]

Source: native snapshot notes, 8.1; `specs` of SQL operators, C.
"""

from __future__ import annotations

import json
import json.scanner
import re
from bisect import bisect
from functools import cached_property
from typing import TYPE_CHECKING, Any

import attrs

from ...serializers.errors import CorruptFile, SavepointNotFound, cause_text
from ..storage.files import folder_and_name, read_file

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

MOST_BYTES = 256 << 20
"""The most bytes of a plan."""
_HEAD = 200
_OF_SAVEPOINT = "_metadata"
_NAME_ONE = "name a file that COMPILE PLAN has written"
_TYPE = re.compile(r"(?:stream|batch)-exec-(?P<name>.+)_(?P<version>\d+)")


class _Text(str):
    """A text of a plan.

    Attributes:
        start: Where its quote begins.
        end: The position behind the quote that ends it.
    """

    __slots__ = ("end", "start")
    start: int
    end: int


class _Located(json.JSONDecoder):
    """Decodes JSON, with the place of each text that is a value."""

    def __init__(self) -> None:
        super().__init__()
        self.parse_string = self._located
        self.scan_once = json.scanner.py_make_scanner(self)  # type: ignore[attr-defined]  # its stub has but one name

    def _located(self, text: str, start: int, strict: bool = True) -> tuple[_Text, int]:  # noqa: FBT001, FBT002
        read, end = json.decoder.scanstring(text, start, strict)  # type: ignore[attr-defined]
        found = _Text(read)
        found.start, found.end = start - 1, end
        return found, end


@attrs.frozen
class PlanState:
    """A state of a node, as the plan names it: not as the savepoint does.

    Attributes:
        index: Its number within the node.
        name: The name, such as `leftState`.
        ttl: The time to live, as the plan spells it.
        start: The position of `ttl` in the text, with its quotes.
        end: The position behind it.
    """

    index: int
    name: str
    ttl: str
    start: int
    end: int


@attrs.frozen
class PlanNode:
    """An operator.

    Attributes:
        id: Its number.
        kind: Its type without prefix and version, such as `join`.
        version: The version of that type.
        description: What the planner says of it.
        states: Its states whose time to live is in the plan.
        line: The line of its type in the file.
        data: The whole node, as JSON has it. Options of tables in it may be credentials: they are not shown.
    """

    id: int
    kind: str
    version: int
    description: str
    states: tuple[PlanState, ...]
    line: int
    data: Mapping[str, Any] = attrs.field(factory=dict, eq=False, repr=False)

    @property
    def title(self) -> str:
        """Its number and kind, which are its uid unless `table.exec.uid.format` says otherwise."""
        return f"{self.id}_{self.kind}"


@attrs.frozen
class CompiledPlan:
    """A plan.

    Attributes:
        place: Where it was read.
        text: The text.
        flink_version: The release of Flink that wrote it.
        nodes: The operators by number, in the order of the plan.
        before: The numbers of the operators from which each gets its rows, in the order of its inputs.
    """

    place: str
    text: str = attrs.field(repr=False)
    flink_version: str
    nodes: Mapping[int, PlanNode]
    before: Mapping[int, Sequence[int]]

    def inputs(self, node: PlanNode) -> list[PlanNode]:
        """Return the operators from which a node gets its rows, in the order of its inputs."""
        return [self.nodes[number] for number in self.before.get(node.id, ())]


def read_plan_file(place: str) -> bytes:
    """Return the bytes of a file that is meant as a plan, of any file system.

    Raises:
        SavepointNotFound: There is no such file.
        CorruptFile: It is a savepoint, or too large.
        StorageFailed: It cannot be read.
    """
    try:
        return _read(place)
    except SavepointNotFound as error:
        error.advice = f"{_NAME_ONE}; a relative name is looked for in the current folder"
        raise


def is_compiled_plan(place: str) -> bool:
    """Whether a file is a compiled plan of Flink SQL, and none of `stateshift plan`: it begins with Flink's version."""
    return b'"flinkVersion"' in _read(place)[:_HEAD]


def _read(place: str) -> bytes:
    folder, name = folder_and_name(place)
    if name and folder.folder(name).exists(_OF_SAVEPOINT):
        raise CorruptFile("it is a savepoint, not a compiled plan", file=place, advice=_NAME_ONE)
    return read_file(place, most_bytes=MOST_BYTES)


def read_plan(data: bytes, place: str) -> CompiledPlan:
    """Return the plan of a file.

    Raises:
        CorruptFile: It is none.
    """
    try:
        text = data.decode()
        found = _Located().decode(text)
    except json.JSONDecodeError as error:
        raise _no_plan(place, f"line {error.lineno}, column {error.colno}: {error.msg}") from error
    except (UnicodeDecodeError, RecursionError, ValueError) as error:
        raise _no_plan(place, cause_text(error)) from error
    return _Reader(text, place).plan(found)


def _no_plan(place: str, why: str) -> CorruptFile:
    return CorruptFile(f"the file is no compiled plan of Flink: {why}", file=place, advice=_NAME_ONE)


@attrs.frozen(slots=False)
class _Reader:
    text: str
    place: str

    @cached_property
    def _breaks(self) -> list[int]:
        """The positions of the ends of lines."""
        return [found.start() for found in re.finditer("\n", self.text)]

    def plan(self, found: Any) -> CompiledPlan:
        version = self._part(found, "flinkVersion", str, "the plan")
        nodes: dict[int, PlanNode] = {}
        for one in self._part(found, "nodes", list, "the plan"):
            node = self._node(one)
            if node.id in nodes:
                raise self._wrong(f"line {node.line}", f"the number {node.id} is that of two operators")
            nodes[node.id] = node
        if not nodes:
            raise self._wrong("the nodes", "there are none")
        before: dict[int, list[int]] = {}
        for one in self._part(found, "edges", list, "the plan"):
            source, target = (self._part(one, end, int, "an edge") for end in ("source", "target"))
            for end in (source, target):
                if end not in nodes:
                    raise self._wrong("the edges", f"there is no operator {end}")
            before.setdefault(target, []).append(source)
        return CompiledPlan(self.place, self.text, str(version), nodes, before)

    def _node(self, found: Any) -> PlanNode:
        type_ = self._part(found, "type", str, "a node")
        line = bisect(self._breaks, type_.start) + 1
        where = f"line {line}, the node of the type {type_!s}"
        number = self._part(found, "id", int, where)
        parts = _TYPE.fullmatch(type_)
        if parts is None:
            raise self._wrong(where, "the type has another form than stream-exec-NAME_VERSION")
        states = tuple(self._state(one, where) for one in self._part(found, "state", list, where, missing=[]))
        if [one.index for one in states] != list(range(len(states))):
            raise self._wrong(where, "the states are not numbered from 0 on")
        description = self._part(found, "description", str, where, missing="")
        return PlanNode(number, parts["name"], int(parts["version"]), str(description), states, line, found)

    def _state(self, found: Any, where: str) -> PlanState:
        ttl = self._part(found, "ttl", str, where)
        index, name = self._part(found, "index", int, where), self._part(found, "name", str, where)
        return PlanState(index, str(name), str(ttl), ttl.start, ttl.end)

    def _part(self, found: Any, name: str, kind: type, where: str, *, missing: Any = None) -> Any:
        value = found.get(name, missing) if isinstance(found, dict) else None
        if not isinstance(value, kind) or isinstance(value, bool):
            raise self._wrong(where, f"{name!r} is missing, or has another form")
        return value

    def _wrong(self, where: str, why: str) -> CorruptFile:
        return _no_plan(self.place, f"{where}: {why}")
