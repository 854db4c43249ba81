"""Real runs: savepoints of one state, checks, migrations without an engine, and reading by the old and the new side."""

from __future__ import annotations

import hashlib
from datetime import UTC, datetime, timedelta
from typing import Annotated, get_args

import attrs
import evolution.avro_book
import evolution.fields_book  # noqa: F401 - for the families that it registers
import pytest
from evolution.answers import COPY, OK, REFUSE, Answer, apart, below, fresh, label_after
from evolution.book import judge
from evolution.shapes import ListOf, MapOf, has_ttl, stripped
from evolution.values import REFERENCE, plain

from stateshift import (
    BadValues,
    IncompatibleState,
    Job,
    ListStateDescriptor,
    MapStateDescriptor,
    MigrationOptions,
    Operator,
    ReducingStateDescriptor,
    Savepoint,
    SavepointWriter,
    ValueStateDescriptor,
    Verdict,
    check,
    parse_edits,
)
from stateshift.serializers.containers.ttl import TtlSerializer
from stateshift.serializers.snapshot import snapshot_to_bytes
from stateshift.state.entry_keys import decode
from stateshift.state.formats.flink.entries import EntryDecoder, grouped, read_broadcast
from stateshift.state.formats.flink.keyed_readers import open_keyed
from stateshift.state.formats.flink.meta_info import NAMESPACE_SERIALIZER
from stateshift.state.formats.flink.state_kinds import info_snapshot
from stateshift.state.migration.preparation import prepare
from stateshift.state.migration.run import publish_result
from stateshift.state.migration.run_task import perform
from stateshift.state.savepoint.states import keyed_handles
from stateshift.state.storage.files import Folder

UID, NAME, BESIDE = "shop", "subject", "beside"
KEYED = ("value", "reducing", "list", "map")
KINDS = (*KEYED, "split", "union", "broadcast")
ROOMS = {"split": "list_states", "union": "union_list_states", "broadcast": "broadcast_states"}
SUBTASKS = 3
UNCONVERTED = parse_edits(convert=[NAME])
"""Types of rows do not show whether a change of their columns was done before (STATE-8); here each is done once."""


@attrs.frozen
class State:
    """What is stored: one state, and next to it one that never changes.

    Attributes:
        kind: Of the state.
        shape: Its type; of list state that of the list, of map state that of the map. As the savepoint's label has it.
        contents: Of each key (or subtask) its value, as plain data.
        folder: Of the savepoint.
    """

    kind: str
    shape: object
    contents: dict
    folder: object

    @property
    def savepoint(self):
        return Savepoint.open(self.folder)

    def stored(self, name=NAME):
        return next(state for state in self.savepoint.operators[0].states if state.name == name)


def descriptor(kind, shape, parts, lived=None):
    """Declare a state of a type; `parts` are the hints or serializers of its key and value.

    `lived` is for how long values lived where the state had TTL and has none from now on.
    """
    more = {"time_to_live": has_ttl(kind, shape), "former_time_to_live": lived}
    if kind in {"map", "broadcast"}:
        return MapStateDescriptor(NAME, *parts, **more)
    if kind == "reducing":
        return ReducingStateDescriptor(NAME, None, *parts, **more)
    return (ValueStateDescriptor if kind == "value" else ListStateDescriptor)(NAME, *parts, **more)


def job_of(kind, state, key=int):
    """A job with a state, and the one next to it."""
    beside = ValueStateDescriptor(BESIDE, str)
    if kind in KEYED:
        return Job([Operator(UID, key=key, states=[state, beside])])
    return Job([Operator(UID, key=key, states=[beside], **{ROOMS[kind]: [state]})])


def program(kind, declared, lived=None, **more):
    """The job of a program that has a type."""
    return job_of(kind, descriptor(kind, declared.shape, hints_of(kind, declared), lived), **more)


def hints_of(kind, declared):
    return [declared.hint] if kind in {"value", "reducing"} else get_args(declared.hint)


def parts_of(kind, key, value):
    """The serializers of a state's key and value, without time stamps, from those of the whole state."""

    def bare(serializer):
        return serializer.value if isinstance(serializer, TtlSerializer) else serializer

    if kind == "broadcast":
        return [key, value]
    if kind == "map":
        return [value.key, Annotated[object, bare(value.value)] | None if value.nullable_values else bare(value.value)]
    return [bare(value.element if kind == "list" else value)]


def write(folder, kind, declared, contents, parts=None):
    """Write a savepoint of a program: with its own serializers, or with copies of them, `parts`."""
    state = descriptor(kind, declared.shape, parts or hints_of(kind, declared))
    with SavepointWriter(folder, job_of(kind, state), parallelism=SUBTASKS) as writer:
        writer.put(UID, BESIDE, 1, "as it was")
        for place, value in contents.items():
            given = declared.value(value)
            if kind in KEYED:
                writer.put(UID, NAME, place, given)
            elif kind == "broadcast":
                for key, item in given.items():
                    writer.put_broadcast(UID, NAME, key, item)
            else:
                for item in given:
                    writer.add(UID, NAME, item, subtask=place)
    return State(kind, fresh(declared.shape), contents, folder)


def pieces(kind, value):
    """What of a value goes to quarantine alone: entries of maps, elements of operator state; else the whole value."""
    if kind in {"map", "broadcast"}:
        return [("map", frozenset([pair])) for pair in value[1]]
    return [("list", (item,)) for item in value[1]] if kind in {"split", "union"} else [value]


def joined(kind, parts):
    """The value of its pieces, in their order; two keys that became one stop the run."""
    if kind in {"map", "broadcast"}:
        pairs = [pair for _, items in parts for pair in items]
        return ("map", apart(pairs, "keys", by=lambda both: both[0]))
    return ("list", tuple(item for _, items in parts for item in items)) if kind in {"split", "union"} else parts[0]


def unexpired(state, new, lived):
    """What is left of the contents where a state loses its TTL, and the job declares for how long values lived."""
    if lived is None or not has_ttl(state.kind, state.shape) or has_ttl(state.kind, new):
        return state.contents
    until = REFERENCE - lived // timedelta(milliseconds=1)

    def lives(value):
        return value is None or value[1] > until

    if state.kind in {"value", "reducing"}:
        return {place: value for place, value in state.contents.items() if lives(value)}
    left = {}
    for place, (tag, items) in state.contents.items():
        kept = [item for item in items if lives(item[1] if tag == "map" else item)]
        if kept:
            left[place] = (tag, type(items)(kept))
    return left


def judge_state(kind, old, new):
    """What the book says of a state: of its values, and of the reader of what must be rewritten (READ-4)."""
    if kind == "broadcast":
        key, value = judge(old.key, new.key), judge(old.value, new.value)
        findings = below(key.findings, "<key>") | below(value.findings, "{}")
        if key.migrates:
            findings |= {("$<key>", "MAP-3")}

        def convert(whole, as_read):
            pairs = [(key.convert(name, as_read), value.convert(item, as_read)) for name, item in whole[1]]
            return ("map", apart(pairs, "keys", by=lambda both: both[0]))

        label = MapOf(label_after(old.key, new.key, key), value.label if value.verdict == COPY else fresh(new.value))
        lost, is_writable = key.loses or value.loses, key.is_writable and value.is_writable
        answer = Answer(max(key.verdict, value.verdict), findings, convert, label, lost, is_writable=is_writable)
        parts = [("<key>", key), ("{}", value)]
    else:
        answer = judge(old, new)
        match kind, old:
            case ("value" | "reducing", _):
                parts = [("", answer)]
            case _, ListOf():
                parts = [("[]", judge(old.element, new.element))]
            case _, MapOf():
                parts = [
                    ("<key>", judge(old.key, new.key)),
                    ("{}", judge(stripped(old.value)[0], stripped(new.value)[0])),
                ]
    if not answer.migrates:
        return answer
    if not answer.is_writable:  # what is rewritten is written by the new program, as it is (REC-14)
        return attrs.evolve(answer, verdict=REFUSE, findings=answer.findings | {("$", "REC-14")})
    # Nothing but its serializer shows where a key or a value of a broadcast map ends.
    read = [(step, part) for step, part in parts if part.verdict != OK or kind == "broadcast"]
    unread = frozenset((f"${step}", "READ-4") for step, part in read if not part.is_readable)
    return attrs.evolve(answer, verdict=REFUSE, findings=answer.findings | unread) if unread else answer


def digest(folder):
    """Of all files of a savepoint, with their names."""
    whole = hashlib.sha256()
    for file in sorted(folder.rglob("*")):
        whole.update(str(file.relative_to(folder)).encode() + b"\0" + file.read_bytes())
    return whole.hexdigest()


def checked(state, job):
    """Check the savepoint against a job; give the report on the state."""
    report = check(UNCONVERTED.apply(state.savepoint.describe()), job.describe())
    return next(found for found in report.operators[0].states if found.name == NAME)


def run(state, job, target, *, parallelism=None, bad_values=BadValues.ABORT):
    """Migrate, as the command does, without an engine; say whether there was anything to do."""
    at = datetime.fromtimestamp(REFERENCE / 1000, UTC)
    options = MigrationOptions(parallelism=parallelism, reference_time=at, bad_values=bad_values, edits=UNCONVERTED)
    ready, folder = prepare(state.savepoint, job, options), Folder.at(target)
    folder.create()
    results = [perform(task, ready.savepoint.folder, folder) for task in ready.tasks]
    publish_result(ready.savepoint, ready.plan, ready.tasks, results, folder)
    return not ready.plan.is_empty


def plans_nothing(state, job):
    return prepare(state.savepoint, job, MigrationOptions()).plan.is_empty


def read_by_label(state):
    """Read the state with nothing but the savepoint."""
    found = state.stored()
    if state.kind in KEYED:
        return {entry.key: plain(entry.value) for entry in found.read_entries()}
    return _elements(state.kind, found.read_elements())


def _elements(kind, found):
    if kind == "broadcast":
        return {0: plain(found[0][0])} if found and found[0] else {}
    return {at: plain(elements) for at, elements in enumerate(found) if elements}


def readers_of(report, job, kind):
    """Who reads the stored bytes where nothing is rewritten: the job's serializers, or the reconfigured copies."""
    operator = job.operators[0].describe()
    declared = next(state for state in operator.states if state.name == NAME)
    result = report.values
    value = (
        result.reconfigured_serializer if result.is_compatible_after_reconfiguration() else declared.value.new_side()
    )
    if kind != "broadcast":
        return None, value
    key = report.parts[0].effective_serializer if report.parts else declared.key.new_side()
    return key, value


def read_by(state, key, value):
    """Read the state by the serializers of a program."""
    found = state.stored()
    if state.kind == "broadcast":
        parts = [part for parts in found._raw_elements() for part in parts]
        return _elements("broadcast", [[read_broadcast(part, key, value) for part in parts[:1]]])
    if state.kind not in KEYED:
        return _elements(state.kind, [[decode(value, part) for part in parts] for parts in found._raw_elements()])
    entries = {}
    for handle in keyed_handles(found._stored):
        with open_keyed(handle, found._folder, found._stored.max_parallelism) as reader:
            index, info = next((i, one) for i, one in enumerate(reader.header.states) if one.name == NAME)
            namespace = info_snapshot(info, NAMESPACE_SERIALIZER)
            beside = ValueStateDescriptor(NAME, str).state_serializer().snapshot_configuration()
            decoder = EntryDecoder.of(
                found.kind, reader.header.key_snapshot, namespace, beside, found._stored.max_parallelism
            )
            for entry in grouped(reader, {index: attrs.evolve(decoder, value=value)}):
                for name in (name for name, item in entry.value.items() if item is None) if state.kind == "map" else ():
                    value._check_null(name)  # the entry's own flag, of which the decoder takes every one
                entries[entry.key] = plain(entry.value)
    return entries


def refused_by(state, job, target):
    """The rules that refuse a job; nothing is written."""
    with pytest.raises(IncompatibleState):
        run(state, job, target)
    assert not target.exists()
    report = check(UNCONVERTED.apply(state.savepoint.describe()), job.describe())
    return {finding.rule for _, _, finding in report.findings() if finding.verdict is Verdict.INCOMPATIBLE}


def labels(state):
    """The snapshots in the metadata of the state, as bytes."""
    description = state.stored().description
    return [snapshot_to_bytes(one.snapshot) for one in (description.value, description.key) if one is not None]


def entries(state):
    """The stored bytes of the state: by key in keyed state, by subtask in operator state."""
    found = state.stored()
    if state.kind not in KEYED:
        return [part for parts in found._raw_elements() for part in parts]
    stored = {}
    for handle in keyed_handles(found._stored):
        with open_keyed(handle, found._folder, found._stored.max_parallelism) as reader:
            index = next(i for i, one in enumerate(reader.header.states) if one.name == NAME)
            for block in reader.blocks(state_ids=[index]):
                stored |= dict(block.items())
    return stored
