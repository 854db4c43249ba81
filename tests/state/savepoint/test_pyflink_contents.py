"""State of PyFlink has types where the job that wrote it is named: it is read, checked and rewritten by these."""

import json

import attrs
import pytest

from stateshift import (
    AggregatingStateDescriptor,
    Decision,
    DeclarationError,
    IncompatibleState,
    Job,
    ListStateDescriptor,
    MapStateDescriptor,
    MigrationOptions,
    Operator,
    ReducingStateDescriptor,
    Row,
    Savepoint,
    UntrustedCode,
    ValueStateDescriptor,
    check,
    from_pickled,
    record,
    row_of,
)
from stateshift.compat.edits import Edits
from stateshift.pyflink.common import Types
from stateshift.state.columnar.table import StateTable
from stateshift.state.testing import migrate_in_process

BACKENDS = ("hashmap", "rocksdb", "rocksdb-native")
UID = "account-state"
LONG, STRING = Types.LONG(), Types.STRING()
PAIR = Types.TUPLE([LONG, LONG])
STATES = {
    "count": ValueStateDescriptor("count", LONG),
    "name": ValueStateDescriptor("name", STRING),
    "account": ValueStateDescriptor("account", bytes),
    "row": ValueStateDescriptor("row", Types.ROW_NAMED(["id", "name", "score"], [Types.INT(), STRING, Types.DOUBLE()])),
    "tuple": ValueStateDescriptor("tuple", Types.TUPLE([LONG, STRING])),
    "n": ValueStateDescriptor("n", LONG),
    "sum": ReducingStateDescriptor("sum", None, LONG),
    "avg": AggregatingStateDescriptor("avg", None, PAIR),
    "kept": ValueStateDescriptor("kept", STRING, time_to_live=True),
    "events": ListStateDescriptor("events", STRING),
    "picked": ListStateDescriptor("picked", Types.PICKLED_BYTE_ARRAY()),
    "counts_map": MapStateDescriptor("counts_map", STRING, LONG),
}


def job(*changed, former=None, without=()):
    states = STATES | {one.name: one for one in changed}
    kept = [one for name, one in states.items() if name not in without]
    return Job([Operator.pyflink(UID, kept, key=LONG)], former=former)


WRITTEN = job()


@pytest.fixture(params=BACKENDS)
def fixture(request, root):
    return root / "tests/fixtures/pyflink-2.3" / request.param


@pytest.fixture
def stored(fixture):
    return Savepoint.open(fixture / "savepoint")


@pytest.fixture
def one_stored(root):
    return Savepoint.open(root / "tests/fixtures/pyflink-2.3/rocksdb/savepoint")


def told(fixture):
    return {one["key"]: one for one in json.loads((fixture / "expected.json").read_text("utf-8"))["entries"]}


def read(savepoint, name):
    """Give the values of a state by key."""
    entries = savepoint.operator(UID).state(f"python-state-{name}").read_entries()
    return {one.key[0]: one.value for one in entries}


def test_every_type_is_read_as_the_function_wrote_it(fixture, stored):
    savepoint, expected = stored.told_by(WRITTEN), told(fixture)
    of_values = {key: one["values"] for key, one in expected.items()}

    for name in ("count", "name", "n", "sum"):
        assert read(savepoint, name) == {key: one[name] for key, one in of_values.items()}
    assert read(savepoint, "tuple") == {key: tuple(one["tuple"]["$tuple"]) for key, one in of_values.items()}
    assert read(savepoint, "avg") == {key: tuple(one["avg"]["$tuple"]) for key, one in of_values.items()}
    rows = {key: list(one) for key, one in read(savepoint, "row").items()}
    assert rows == {key: one["row"]["$row"] for key, one in of_values.items()}
    assert {key: one.value for key, one in read(savepoint, "kept").items()} == {
        key: one["kept"] for key, one in of_values.items()
    }
    found = {key: [one for added in value for one in added] for key, value in read(savepoint, "events").items()}
    assert found == {key: one["lists"]["events"] for key, one in expected.items()}
    maps = {key: dict(one["maps"]["counts_map"]["$map"]) for key, one in expected.items()}
    assert read(savepoint, "counts_map") == maps


def test_a_state_is_a_table_with_columns(one_stored):
    table = StateTable.of(one_stored.told_by(WRITTEN).operator(UID), "python-state-row")
    (first, *_) = [row for piece in table.slices(1) for batch in table.read(piece) for row in batch.to_pylist()]

    key = first["key"]["f0"]
    assert [key, f"r{key}"] == list(first["value"].values())[:2]


def test_without_the_old_job_a_check_says_that_it_cannot_know(one_stored):
    (operator,) = check(one_stored.describe(), WRITTEN.describe()).operators
    states = {one.name: one for one in operator.states}

    assert states["python-state-count"].decision is Decision.START
    assert ["PYF-1"] == [one.rule for one in states["python-state-count"].result.findings]


def test_with_it_types_are_compared(one_stored):
    changed = job(ValueStateDescriptor("count", STRING), former=WRITTEN)
    (operator,) = check(one_stored.describe(), changed.describe()).operators
    states = {one.name: one for one in operator.states}

    assert states["python-state-name"].result.findings == ()
    assert states["python-state-count"].decision is Decision.REFUSE
    assert {one.rule for one in states["python-state-count"].result.findings} == {"PRIM-4"}


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ([ListStateDescriptor("counts_map", LONG)], "is not the job that wrote the state"),
        ([ValueStateDescriptor("kept", STRING)], "is not the job that wrote the state"),
    ],
    ids=["another kind", "without time to live"],
)
def test_another_old_job_is_refused(one_stored, changed, words):
    with pytest.raises(DeclarationError, match=words):
        one_stored.told_by(job(*changed))


def test_an_old_job_with_none_of_the_states_is_refused(one_stored):
    with pytest.raises(DeclarationError, match="declares no state"):
        one_stored.told_by(Job([Operator.pyflink("another", list(STATES.values()), key=LONG)]))


def shouted(text):
    return text.upper()


def test_values_are_converted_and_states_renamed(fixture, stored, tmp_path):
    expected, target = told(fixture), tmp_path / "target"
    new = job(
        ValueStateDescriptor("count", STRING, converter=str),
        ListStateDescriptor("events", Types.BIG_INT(), converter=len),
        MapStateDescriptor("counts_map", STRING, STRING, converter=str),
        ValueStateDescriptor("title", STRING),
        without=["name"],
        former=WRITTEN,
    )
    edits = Edits(rename_states=(("python-state-name", "python-state-title"),))
    migrate_in_process(stored, target, new, MigrationOptions(parallelism=3, edits=edits))
    savepoint = Savepoint.open(target).told_by(new)

    assert read(savepoint, "count") == {key: str(one["values"]["count"]) for key, one in expected.items()}
    assert read(savepoint, "title") == {key: one["values"]["name"] for key, one in expected.items()}
    maps = {key: dict(one["maps"]["counts_map"]["$map"]) for key, one in expected.items()}
    assert read(savepoint, "counts_map") == {
        key: {name: str(count) for name, count in one.items()} for key, one in maps.items()
    }
    lengths = {key: [len(one) for one in one["lists"]["events"]] for key, one in expected.items()}
    assert {
        key: [one for added in value for one in added] for key, value in read(savepoint, "events").items()
    } == lengths
    for name in ("account", "row", "tuple", "kept"):  # nobody asked for another type
        assert read(Savepoint.open(target), name) == read(stored, name)


def test_a_value_is_not_converted_again_where_the_savepoint_says_that_it_was(one_stored, tmp_path):
    new = job(ValueStateDescriptor("count", STRING, converter=str), former=WRITTEN)
    migrate_in_process(one_stored, tmp_path / "target", new, MigrationOptions())
    migrated = Savepoint.open(tmp_path / "target")

    with pytest.raises(IncompatibleState, match="called already"):
        migrate_in_process(migrated, tmp_path / "again", new, MigrationOptions())


@record(aliases=["shop.Account"], retired=["visits"])
@attrs.frozen
class Account:
    id: int
    name: str


def to_row(data):
    opened = from_pickled(Account)(data)
    return Row(opened["id"], opened["name"])


def pickled_as_row(one_stored, target, *trust):
    new = job(
        ValueStateDescriptor("account", Types.ROW_NAMED(["id", "name"], [LONG, STRING]), converter=to_row),
        former=WRITTEN,
    )
    migrate_in_process(one_stored, target, new, MigrationOptions(trust=trust))
    return Savepoint.open(target).told_by(new)


def test_nothing_is_unpickled_without_trust(one_stored, tmp_path):
    with pytest.raises(UntrustedCode) as raised:
        pickled_as_row(one_stored, tmp_path / "target")

    assert raised.value.where["state"] == "python-state-account"
    assert "key" in raised.value.where
    assert not (tmp_path / "target/_metadata").exists()


def test_pickles_become_rows_where_their_class_is_trusted(one_stored, tmp_path):
    found = read(pickled_as_row(one_stored, tmp_path / "target", "shop.Account"), "account")

    assert {key: list(one) for key, one in found.items()} == {key: [key, f"n{key}"] for key in range(5)}


def test_columns_are_found_by_their_names(one_stored, tmp_path):
    columns = {"score": Types.DOUBLE(), "name": STRING, "id": LONG | None}
    row = row_of(columns, stored=("id", "name", "score"))
    new = job(ValueStateDescriptor("row", row), former=WRITTEN)
    migrate_in_process(one_stored, tmp_path / "target", new, MigrationOptions())

    before = read(one_stored.told_by(WRITTEN), "row")
    assert {key: list(one) for key, one in read(Savepoint.open(tmp_path / "target").told_by(new), "row").items()} == {
        key: [*reversed(list(one))] for key, one in before.items()
    }
