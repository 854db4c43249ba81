"""Real PyFlink restores what we have rewritten of its state, and goes on; each value is compared within its job."""

import importlib.util
import json
import sys
from pathlib import Path

import attrs
import pytest

from stateshift import (
    AggregatingStateDescriptor,
    Job,
    ListStateDescriptor,
    MapStateDescriptor,
    MigrationOptions,
    Operator,
    PickleSerializer,
    ReducingStateDescriptor,
    Row,
    Savepoint,
    ValueStateDescriptor,
    check,
    from_pickled,
    record,
)
from stateshift.compat.edits import Edits
from stateshift.compat.repartition import Repartition
from stateshift.pyflink.common import Types
from stateshift.state.testing import migrate_in_process

HERE = Path(__file__).parent
KEYS, LINES = 7, 50
LONG, STRING = Types.LONG(), Types.STRING()
PAIR = Types.TUPLE([LONG, LONG])
UNCHANGED = [
    ListStateDescriptor("events", STRING),
    ReducingStateDescriptor("sum", None, LONG),
    AggregatingStateDescriptor("pair", None, PAIR),
]


@pytest.fixture(scope="session")
def written(run_pyflink, tmp_path_factory):
    """The folder of the savepoint of the first job."""
    folder = tmp_path_factory.mktemp("written")
    (folder / "lines").mkdir()
    lines = [f"{number % KEYS} w{number % 3}\n" for number in range(LINES)]
    (folder / "lines" / "a.txt").write_text("".join(lines), "utf-8")
    _, savepoint = run_pyflink("before/counts.py", folder)
    return savepoint


def test_threads_keep_state_as_it_is_declared(run_pyflink, tmp_path):
    (tmp_path / "lines").mkdir()
    (tmp_path / "lines" / "a.txt").write_text("1 a\n2 b\n1 c\n", "utf-8")
    _, savepoint = run_pyflink("before/counts.py", tmp_path, "--mode", "thread")
    names = [ValueStateDescriptor("count", LONG), MapStateDescriptor("counts", STRING, LONG)]
    pickled = [ValueStateDescriptor("account", bytes), ValueStateDescriptor("name", STRING)]
    job = Job([Operator.pyflink("counts", [*UNCHANGED, *names, *pickled], key=LONG, execution_mode="thread")])
    operator = Savepoint.open(savepoint).told_by(job).operator("counts")

    assert {1: {"a": 1, "c": 2}, 2: {"b": 1}} == {
        one.key[0]: one.value for one in operator.state("counts").read_entries()
    }
    assert "start" == check(Savepoint.open(savepoint).describe(), job.describe()).decision


def expected():
    found = {}
    for number in range(LINES):
        key, text = number % KEYS, f"w{number % 3}"
        state = found.setdefault(key, {"events": [], "counts": {}})
        state["events"].append(text)
        state["counts"][text] = str(len(state["events"]))
    for key, state in found.items():
        count = len(state["events"])
        total = count * (count + 1) // 2
        state |= {"count": str(count), "title": f"name-{key}-ä", "sum": total, "pair": [total, count]}
        state |= {"account": [key, f"a{key}", count], "moved": [key, f"m{key}", count]}
    return found


@record(aliases=["shop.Account"])
@attrs.frozen
class Account:
    number: int
    name: str
    visits: int


def to_row(data):
    opened = from_pickled(Account)(data)
    return Row(opened["number"], opened["name"], opened["visits"])


@pytest.fixture(scope="session")
def moved_class():
    spec = importlib.util.spec_from_file_location("store", HERE / "programs/after/store.py")
    sys.modules["store"] = module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    yield module.Account
    del sys.modules["store"]


def jobs(moved_class):
    pickled = [ValueStateDescriptor("account", bytes), ValueStateDescriptor("moved", bytes)]
    numbers = [ValueStateDescriptor("count", LONG), MapStateDescriptor("counts", STRING, LONG)]
    name = ValueStateDescriptor("name", STRING)
    before = Job([Operator.pyflink("counts", [*UNCHANGED, *pickled, *numbers, name], key=LONG)])
    row = Types.ROW_NAMED(["id", "name", "visits"], [LONG, STRING, LONG])
    as_moved = PickleSerializer(moved_class, aliases=["shop.Account"])
    changed = [
        ValueStateDescriptor("count", STRING, converter=str),
        MapStateDescriptor("counts", STRING, STRING, converter=str),
        ValueStateDescriptor("title", STRING),
        ValueStateDescriptor("account", row, converter=to_row),
        ValueStateDescriptor("moved", as_moved, converter=from_pickled(as_moved)),
    ]
    # The source is named, so that its number of key groups changes along.
    return Job([Operator.pyflink("counts", [*UNCHANGED, *changed], key=LONG), Operator("lines")], former=before)


@pytest.mark.parametrize(
    ("parallelism", "key_groups", "backend"),
    [(2, 128, "hashmap"), (3, 64, "rocksdb")],
    ids=["another parallelism", "another max parallelism"],
)
def test_the_changed_job_goes_on_from_migrated_state(
    run_pyflink, written, moved_class, tmp_path, parallelism, key_groups, backend
):
    edits = Edits(rename_states=(("python-state-name", "python-state-title"),))
    repartition = None if key_groups == 128 else Repartition(max_parallelism=key_groups)
    options = MigrationOptions(parallelism=parallelism, edits=edits, repartition=repartition, trust=("shop.Account",))
    migrate_in_process(Savepoint.open(written), tmp_path / "migrated", jobs(moved_class), options)
    folder = tmp_path / "restored"
    (folder / "lines").mkdir(parents=True)
    (folder / "lines" / "b.txt").write_text("".join(f"{key} w0\n" for key in range(KEYS)), "utf-8")
    given = ["--restore", tmp_path / "migrated", "--parallelism", parallelism, "--backend", backend]
    results, savepoint = run_pyflink("after/counts.py", folder, *given, "--max-parallelism", key_groups)

    assert expected() == dict(map(json.loads, results))
    again = Savepoint.open(savepoint).told_by(jobs(moved_class)).operator("counts")
    counts = {one.key[0]: one.value for one in again.state("python-state-count").read_entries()}
    assert {key: str(int(one["count"]) + 1) for key, one in expected().items()} == counts
    timers = [one for state in again.states if state.kind == "timers" for one in state.read_timers()]
    assert LINES == len(timers)
