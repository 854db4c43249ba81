"""Write a savepoint, migrate it in process, and return what it contains: for the cases of sections G and K."""

from __future__ import annotations

from stateshift import Job, MigrationOptions, Operator, Savepoint, SavepointWriter
from stateshift.state.formats.flink.keyed_stream import KeyedStreamReader
from stateshift.state.formats.flink.operator_stream import read_operator_stream
from stateshift.state.formats.flink.sources import open_stream
from stateshift.state.migration.preparation import prepare
from stateshift.state.migration.run import publish_result
from stateshift.state.migration.run_task import perform
from stateshift.state.storage.files import Folder

WITHOUT_OPTIONS = MigrationOptions()


def migrated(source, target, job, options=WITHOUT_OPTIONS):
    """Migrate, and open the result."""
    prepared, folder = prepare(Savepoint.open(source), job, options), Folder.at(target)
    folder.create()
    results = [perform(task, prepared.savepoint.folder, folder) for task in prepared.tasks]
    publish_result(prepared.savepoint, prepared.plan, prepared.tasks, results, folder)
    return Savepoint.open(target)


def job_of(*states, key=int, **others):
    """A job of one operator, `op`, which is keyed where it has keyed states or timers."""
    is_keyed = states or "timers" in others
    return Job([Operator("op", key=key if is_keyed else None, states=states, **others)])


def written(folder, job, state, entries, **options):
    """Write the entries of a keyed state: key, or namespace and key, -> value."""
    with SavepointWriter(folder, job, **options) as writer:
        for place, value in entries.items():
            namespace, key = place if isinstance(place, tuple) else (None, place)
            writer.put("op", state, key, value, **({} if namespace is None else {"namespace": namespace}))
    return Savepoint.open(folder)


def entries_of(savepoint, state):
    """What a keyed state holds, in the form of `written`."""
    return {
        entry.key if entry.namespace is None else (entry.namespace, entry.key): entry.value
        for entry in savepoint.operator("op").state(state).read_entries()
    }


def keyed_entries(savepoint, *, uid="op"):
    """What lies in each key group under each keyed state: pairs of bytes, whatever the state's description says."""
    found = {}
    for subtask in savepoint.operator(uid).stored.subtasks:
        if subtask.managed_keyed is not None:
            with open_stream(subtask.managed_keyed.stream, savepoint.folder) as source:
                reader = KeyedStreamReader.open(source, subtask.managed_keyed)
                for block in reader.blocks():
                    name = reader.header.states[block.state_id].name
                    found.setdefault((name, block.key_group), []).extend(block.items())
    return found


def stored_bytes(savepoint):
    """The same of all states of `op`: those of the operator itself lie in subtasks."""
    found = keyed_entries(savepoint)
    for subtask in savepoint.operator("op").stored.subtasks:
        if subtask.managed_operator is not None:
            with open_stream(subtask.managed_operator.stream, savepoint.folder) as source:
                stream = read_operator_stream(source, subtask.managed_operator)
                for name, stored in (*stream.elements.items(), *stream.broadcast.items()):
                    found[name, subtask.index] = stored
    return found
