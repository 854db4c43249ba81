"""What a keyed stream of PyFlink reduces: states that are named anew at each start are one state here.

The savepoints are of real PyFlink: of one start with two subtasks, of a second start from that, and of thread mode.
"""

import json
import runpy
import shutil

import pytest

from stateshift import Job, MigrationOptions, Operator, ReducingStateDescriptor, Row, Savepoint, ValuesCollide, check
from stateshift.compat.edits import Edits
from stateshift.compat.repartition import Repartition
from stateshift.pyflink.common import Types
from stateshift.pyflink.datastream import StreamExecutionEnvironment
from stateshift.state.savepoint.job_source import job_source
from stateshift.state.testing import migrate_in_process

LONG = Types.LONG()
NUMBERS = Types.TUPLE([LONG, LONG])
STATES = [ReducingStateDescriptor("_reduce_state", None, NUMBERS)]
JOBS = {
    "process": Job([Operator.pyflink("reduces", STATES, key=LONG)]),
    "thread": Job([Operator.pyflink("reduces", STATES, key=LONG, execution_mode="thread")]),
    "own": Job([Operator("reduces", key=LONG, states=STATES)]),
}
REKEYED = MigrationOptions(repartition=Repartition())


@pytest.fixture
def stored(root):
    def of(name):
        place = root / "tests/fixtures/pyflink-2.3" / name
        return Savepoint.open(place / "savepoint"), json.loads((place / "expected.json").read_text("utf-8"))["last"]

    return of


def values(savepoint, name):
    found = {}
    for state in savepoint.operator("reduces").states:
        if state.kind.has_values:
            assert name == state.name
            found |= {str(key[0] if isinstance(key, Row) else key): value[1] for key, value in entries(state)}
    return found


def entries(state):
    for one in state.read_entries():
        yield one.key, one.value[0] if isinstance(one.value, list) else one.value


@pytest.mark.parametrize(("name", "before"), [("reduces", "process"), ("reduces-thread", "thread")])
@pytest.mark.parametrize("after", JOBS)
def test_the_states_of_a_start_become_one(stored, tmp_path, name, before, after):
    savepoint, expected = stored(name)
    report = check(savepoint.told_by(JOBS[before]).describe(), JOBS[after].describe(), repartition=Repartition())
    migrate_in_process(savepoint.told_by(JOBS[before]), tmp_path / "after", JOBS[after], REKEYED)
    became = Savepoint.open(tmp_path / "after")
    became = became if after == "own" else became.told_by(JOBS[after])

    assert "new" not in {str(state.status) for _, state in report.states()}
    assert expected == values(became, "python-state-_reduce_state" if after == "process" else "_reduce_state")


def test_they_are_one_state_for_those_who_ask(stored):
    savepoint, expected = stored("reduces")
    tables = [one for one in savepoint.operator("reduces").states if one.kind.has_values]

    assert 2 == len({one.name for one in tables})
    whole = savepoint.told_by(JOBS["process"]).operator("reduces").state("python-state-_reduce_state")
    assert {key: (key, number) for key, number in ((int(key), value) for key, value in expected.items())} == {
        one.key[0]: one.value for one in whole.read_entries()
    }


@pytest.mark.parametrize("after", JOBS)
def test_what_several_starts_have_of_a_key_is_not_guessed(stored, tmp_path, after):
    savepoint, expected = stored("reduces-again")
    with pytest.raises(ValuesCollide, match="a key is in 2 states of a keyed reduce") as refused:
        migrate_in_process(savepoint.told_by(JOBS["process"]), tmp_path / "after", JOBS[after], REKEYED)
    before, _ = stored("reduces")
    earlier = tuple(one.name for one in before.operator("reduces").states if one.kind.has_values)

    assert any(name in str(refused.value) for name in earlier)
    assert "STATE-11" == refused.value.where["rule"]
    options = MigrationOptions(repartition=Repartition(), edits=Edits(drop=earlier))
    migrate_in_process(savepoint.told_by(JOBS["process"]), tmp_path / "again", JOBS[after], options)
    became = Savepoint.open(tmp_path / "again")
    became = became if after == "own" else became.told_by(JOBS[after])
    assert expected == values(became, "python-state-_reduce_state" if after == "process" else "_reduce_state")


def test_a_migration_that_keeps_the_types_keeps_all_of_them(stored, tmp_path):
    savepoint, _ = stored("reduces-again")
    migrate_in_process(savepoint, tmp_path / "after", None, MigrationOptions(parallelism=3))

    names, became = (
        sorted(one.name for one in of.operator("reduces").states)
        for of in (savepoint, Savepoint.open(tmp_path / "after"))
    )
    assert names == became


@pytest.mark.parametrize("name", ["reduces", "reduces-thread"])
def test_a_program_here_goes_on_with_what_was_reduced(stored, tmp_path, name):
    savepoint, expected = stored(name)
    shutil.copytree(savepoint.place, tmp_path / "before")
    environment = StreamExecutionEnvironment.get_execution_environment()
    place = {"execution.savepoint.path": str(tmp_path / "before"), "execution.savepoint.ignore-unclaimed-state": "true"}
    environment.configure(place)
    results = []
    keyed = environment.from_collection([(0, 1), (5, 2)], NUMBERS).key_by(lambda value: value[0], LONG)
    keyed.reduce(lambda one, other: (one[0], one[1] + other[1])).uid("reduces").add_sink(results.append)
    environment.execute(on_incompatible="migrate")

    assert [(0, expected["0"] + 1), (5, expected["5"] + 2)] == results


def test_init_declares_one_state(stored, tmp_path):
    savepoint, _ = stored("reduces-again")
    source = job_source(savepoint)

    assert 1 == source.count('"_reduce_state')
    (tmp_path / "job.py").write_text(source, "utf-8")
    job = runpy.run_path(str(tmp_path / "job.py"))["job"]
    assert "start" == check(savepoint.describe(), job.describe()).decision
