"""The Python source of the job that a savepoint implies, as `stateshift init` writes it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from ...compat.description import StateKind
from ...compat.lazy_tables import is_reduced, state_in, versions_of
from ...serializers.containers.ttl import TtlSerializerSnapshot
from ...serializers.containers.wrappers import without_ttl_awareness
from ...serializers.flink.namespaces import VoidNamespaceSerializerSnapshot
from ...serializers.snapshot import snapshot_to_bytes
from ...serializers.source import (
    BUILTINS,
    WIDTH,
    Expression,
    Group,
    Names,
    NoSourceError,
    TypeSource,
    comment,
    plain,
    quoted,
    statement,
)
from ..runtime.pyflink_layout import ExecutionMode
from ..timers import USER_TIMERS, queue_parts
from .pyflink_source import NOTES as PYFLINK_NOTES
from .pyflink_source import PyFlinkSource, mode_of
from .stored_nulls import LOOKED_AT, look_for_nulls

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from ...serializers.source import Snapshot
    from .reader import Savepoint, SavepointOperator
    from .states import SavepointState

_FACE = (
    "AggregatingStateDescriptor", "Array", "BigInt", "ByteArrayWrapper", "Char", "CountWindow", "Either", "Field",
    "Float32", "GlobalWindow", "Instant", "Int8", "Int16", "Int32", "JavaDate", "Job", "ListStateDescriptor",
    "LocalDate", "LocalDateTime", "LocalTime", "MapStateDescriptor", "Operator", "ReducingStateDescriptor", "Row",
    "SqlDate", "SqlTime", "SqlTimeWindow", "SqlTimestamp", "TimerServiceDescriptor", "TimeWindow",
    "ValueStateDescriptor", "VoidNamespace", "enum_options", "record", "serializer_for",
)  # fmt: skip
_OTHER_NAMES = ("Annotated", "Decimal", "Types", "attrs", "enum", "job", "self")
_LAZY = (
    "migrated lazily, so the values have several types: finish that first, with `stateshift migrate` and the job that"
    " began it, and let `stateshift init` read the result"
)
_PLACES = ("states", "list_states", "union_list_states", "broadcast_states", "timers")
_HEAD = '''"""The job that a savepoint implies: its operators, their states, and the types of these.

Written by `stateshift init` from {place}
As it stands, `stateshift check` says start for every state that is declared here.
Change the types to what the new job needs, and check again.
{notes}"""
'''
_NOTES = """
Flink does not store which fields of a Java class may be null, nor whether a number is
an `int` or an `Integer`. Here objects may be null (`| None`), and numbers and booleans
only where a null was met among the first entries of a state ({entries:,} at most). Add
`| None` where you know of more: a null that a migration meets elsewhere ends it with an
error.
"""


def job_source(savepoint: Savepoint) -> str:
    """Return the source of the job that a savepoint implies: classes, descriptors, operators.

    States that cannot be declared (values that this release does not read) are named in comments; a migration keeps
    them as they are. The source is formatted, and passes ruff and mypy.
    """
    return _Writer(savepoint).source()


class _Writer:
    def __init__(self, savepoint: Savepoint) -> None:
        self._savepoint = savepoint
        self._names = Names((*_FACE, *_OTHER_NAMES, *BUILTINS))
        self._nulls = look_for_nulls(savepoint)
        self._types = TypeSource(self._names, _all_snapshots(savepoint), self._nulls)

    def source(self) -> str:
        operators: list[list[str]] = []
        variables: list[str] = []
        for operator in self._savepoint.operators:
            if operator.stored.has_state:
                lines, variable = self._operator(operator)
                operators.append(lines)
                variables += [variable] if variable else []
        job = Group("Job(", (Group("operators=[", tuple(variables)),))
        parts = [*self._types.blocks, *operators, statement(job, before="job = ")]
        body = "".join(_spaced(parts))
        imports = "\n\n".join(_imports(body, self._types.quoted_names))
        place = plain(self._savepoint.place)
        notes = _NOTES.format(entries=LOOKED_AT) if "@record(java_class" in body else ""
        notes += PYFLINK_NOTES if "Operator.pyflink(" in body else ""
        return _HEAD.format(place=place, notes=notes) + f"\n{imports}\n" + body

    def _operator(self, operator: SavepointOperator) -> tuple[list[str], str]:
        """Return the lines that declare an operator, and its variable: "" where nothing of it can be declared."""
        left_out: dict[str, list[str]] = {}
        lists: dict[str, list[Expression]] = {}
        mode = mode_of(operator)
        pyflink = None if mode is None else PyFlinkSource(operator, mode, lambda one: self._types.try_hint(one)[0])
        key = self._key(operator, left_out, pyflink)
        declarable = [state for state in operator.states if state.kind is not StateKind.TIMERS]
        lazy = versions_of(state.name for state in declarable if state.kind.is_keyed)
        reduced = {state_in(state.name) for state in declarable if is_reduced(state.name)}
        declarable = [one for one in declarable if not is_reduced(one.name)] + [operator.state(one) for one in reduced]
        for state in sorted(declarable, key=lambda state: (state.kind.scope, state.name)):
            if state.kind.is_keyed and state.name in lazy:
                names = left_out.setdefault(_LAZY, [])
                names += [state_in(state.name)] * (state_in(state.name) not in names)
                continue
            reason = self._why_not(state, has_key=bool(key))
            if not reason:
                try:
                    descriptor = self._descriptor(state) if pyflink is None else pyflink.descriptor(state)
                except NoSourceError as error:
                    reason = str(error)
                else:
                    lists.setdefault(state.kind.row.argument, []).append(descriptor)
                    continue
            left_out.setdefault(reason, []).append(state.name)
        services = self._services(operator, left_out) if key else []
        lists |= {"timers": services} if services else {}
        remarks = list(_remarks(operator, left_out, [] if pyflink is None else pyflink.remarks))
        if not key and not lists:
            return remarks, ""
        variable = self._names.variable(operator.uid, fallback="operator")
        name = quoted(operator.uid) if operator.uid else f"operator_id={quoted(operator.operator_id)}"
        arguments: list[Expression] = [name, *([f"key={key}"] if key else [])]
        arguments += [Group(f"{name}=[", tuple(descriptors)) for name, descriptors in sorted(lists.items(), key=_place)]
        call = "Operator("
        if pyflink is not None:
            call = "Operator.pyflink("
            arguments += ['execution_mode="thread"'] if pyflink.mode is ExecutionMode.THREAD else []
        return [*remarks, *statement(Group(call, tuple(arguments)), before=f"{variable} = ")], variable

    def _key(self, operator: SavepointOperator, left_out: dict[str, list[str]], pyflink: PyFlinkSource | None) -> str:
        if operator.key is None:
            return ""
        try:
            if pyflink is not None:
                return pyflink.key(operator.key)
            return self._types.try_hint(operator.key)[0]
        except NoSourceError as error:
            left_out[str(error)] = ["the key"]
            return ""

    def _services(self, operator: SavepointOperator, left_out: dict[str, list[str]]) -> list[Expression]:
        """Return the timer services of an operator; each service has a queue for each time domain."""
        found: dict[str, Snapshot] = {}
        for state in sorted(operator.states, key=lambda state: state.name):
            if state.kind is StateKind.TIMERS:
                reason = state.unsupported or _add_service(found, state, operator.key)
                if reason:
                    left_out.setdefault(reason, []).append(state.name)
        services: list[Expression] = []
        for service, namespace in found.items():
            try:
                services.append(self._service(service, namespace))
            except NoSourceError as error:
                left_out.setdefault(str(error), []).append(f"timers of {service}")
        return services

    def _service(self, name: str, namespace: Snapshot) -> Expression:
        arguments = [] if name == USER_TIMERS else [quoted(name)]
        if not isinstance(namespace, VoidNamespaceSerializerSnapshot):
            arguments.append(f"namespace={self._types.try_hint(namespace)[0]}")
        return Group("TimerServiceDescriptor(", tuple(arguments)) if arguments else "TimerServiceDescriptor()"

    def _why_not(self, state: SavepointState, *, has_key: bool) -> str:
        if state.unsupported:
            return state.unsupported
        return "its key cannot be declared" if state.kind.is_keyed and not has_key else ""

    def _descriptor(self, state: SavepointState) -> Expression:
        description = state.description
        parts = list(_parts(state.kind, description.value.snapshot))
        if description.key is not None:
            parts.insert(0, description.key.snapshot)
        parts[-1], has_ttl = _without_stamp(parts[-1])
        namespace = description.namespace.snapshot if description.namespace else None
        if isinstance(namespace, VoidNamespaceSerializerSnapshot):
            namespace = None
        hints = list(self._types.try_hint(*parts, *([namespace] if namespace is not None else [])))
        options = [f"namespace={hints.pop()}"] if namespace is not None else []
        options += ["time_to_live=True"] if has_ttl else []
        if state.kind.has_user_keys and self._nulls.has_item(without_ttl_awareness(description.value.snapshot)):
            options.append("nullable_values=True")
        function = ["None"] if state.kind.row.takes_function else []
        return Group(f"{state.kind.row.descriptor}(", (quoted(state.name), *function, *hints, *options))


def _parts(kind: StateKind, snapshot: Snapshot) -> tuple[Snapshot, ...]:
    """Return the snapshots that a descriptor names: for list state the element's, for map state key's and value's."""
    if not kind.row.pieces:
        return (snapshot,)
    bare = without_ttl_awareness(snapshot)
    if bare.kind != kind:
        raise NoSourceError(f"the values of {kind} state are described as {snapshot.describe()}")
    return bare.children()


def _without_stamp(snapshot: Snapshot) -> tuple[Snapshot, bool]:
    bare = without_ttl_awareness(snapshot)
    return (bare.nested[1], True) if isinstance(bare, TtlSerializerSnapshot) else (snapshot, False)


def _add_service(found: dict[str, Snapshot], state: SavepointState, key: Snapshot | None) -> str:
    """Add the service of a queue, with its namespace, to `found`; return why it cannot be declared, or ""."""
    parts = queue_parts(state.name)
    if parts is None:
        return "its name is not that of a queue of Flink's timers"
    timer_key, namespace = state.description.value.snapshot.children()
    if not _equal(timer_key, key):
        return "its timers have keys of another type than the operator"
    if not _equal(found.setdefault(parts[0], namespace), namespace):
        return "the two queues of its service have namespaces of different types"
    return ""


def _equal(one: Snapshot, other: Snapshot | None) -> bool:
    return other is not None and snapshot_to_bytes(one) == snapshot_to_bytes(other)


def _place(item: tuple[str, list[Expression]]) -> int:
    return _PLACES.index(item[0])


def _all_snapshots(savepoint: Savepoint) -> Iterator[Snapshot]:
    for operator in savepoint.operators:
        yield from [operator.key] if operator.key is not None else []
        for state in operator.states:
            yield from (part.snapshot for part in state.description.serializers())


def _remarks(operator: SavepointOperator, left_out: dict[str, list[str]], found: list[str]) -> Iterator[str]:
    """Yield the comments above an operator: its name, and the parts that are not declared."""
    if not operator.uid:
        yield from comment(
            "The savepoint does not contain this operator's uid. Once you know it, replace the id with it: "
            'Operator("the-uid", ...).'
        )
    elif operator.name and operator.name != operator.uid:
        yield from comment(operator.name)
    if operator.unreadable:
        yield from comment(f"{operator.title} is kept as it is: {operator.unreadable}")
    if left_out:
        yield from comment("Not declared here, and kept as it is:")
    for reason, names in left_out.items():
        yield from comment(f"- {', '.join(names)}: {reason}", hanging="  ")
    if found:
        yield from comment("Found in the data, not stored:")
    for one in found:
        yield from comment(f"- {one}", hanging="  ")


def _imports(body: str, quoted_names: set[str]) -> Iterator[str]:
    """Yield the import blocks for the names that the body uses, including names in quoted hints."""
    used = set(re.findall(r"[A-Za-z_]\w*", re.sub(r'"""[^\n]*"""|#[^\n]*|"(?:[^"\\]|\\.)*"|\'[^\']*\'', "", body)))
    used |= quoted_names
    standard = ["import enum"] if "enum" in used else []
    standard += ["from decimal import Decimal"] if "Decimal" in used else []
    standard += ["from typing import Annotated"] if "Annotated" in used else []
    if standard:
        yield "\n".join(standard)
    third_party = ["import attrs"] if "attrs" in used else []
    own = [name for name in _FACE if name in used]
    line = f"from stateshift import {', '.join(own)}"
    if len(line) > WIDTH:
        line = "\n".join(["from stateshift import (", *(f"    {name}," for name in own), ")"])
    third_party.append(line)
    third_party += ["from stateshift.pyflink.common import Types"] if "Types" in used else []
    yield "\n".join(third_party)


def _spaced(parts: Iterable[list[str]]) -> Iterator[str]:
    """Yield the definitions with blank lines between them as a formatter puts them: two around a class, else one."""
    before_was_class = False
    for lines in parts:
        is_class = any(line.startswith("class ") for line in lines)
        yield "\n\n" if is_class or before_was_class else "\n"
        yield "\n".join(lines) + "\n"
        before_was_class = is_class
