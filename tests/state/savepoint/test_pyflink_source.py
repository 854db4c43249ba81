"""`job_source` of a savepoint of PyFlink: each operator is declared with the types that its data has."""

import importlib.util

import pytest

from stateshift import Decision, Savepoint, check
from stateshift.compat.former_job import FormerJob
from stateshift.state.savepoint.job_source import job_source


@pytest.fixture
def written(root, tmp_path):
    """`written(name)`: the savepoint, what is written of it, and the job that this is."""

    def of(name):
        savepoint = Savepoint.open(root / "tests/fixtures/pyflink-2.3" / name / "savepoint")
        source = job_source(savepoint)
        (tmp_path / "written.py").write_text(source, "utf-8")
        spec = importlib.util.spec_from_file_location("written", tmp_path / "written.py")
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return savepoint, source, module.job

    return of


NAMES = (
    *("broadcast", "counts", "hashmap", "inputs", "inputs-thread", "rocksdb", "sessions", "types", "types-thread"),
    *("values-process", "values-thread", "windows", "windows-thread"),
)


@pytest.mark.parametrize("name", NAMES)
def test_a_check_says_start_and_every_value_is_read(written, name):
    savepoint, source, job = written(name)
    told = savepoint.told_by(job)
    known = FormerJob.of(job.describe()).described(savepoint.describe())

    assert "Operator.pyflink(" in source
    assert "ot declared here" not in source
    assert Decision.START is check(savepoint.describe(), job.describe()).decision
    assert Decision.START is check(known, job.describe()).decision
    for operator in told.operators:
        for state in operator.states:
            if state.kind.is_keyed and state.kind.has_values:
                assert list(state.read_entries())


def test_each_type_is_found(written):
    _, source, _ = written("types")

    for declared in (
        '"big_dec", Types.BIG_DEC()',
        '"boolean", Types.BOOLEAN()',
        '"double", Types.DOUBLE()',
        '"float", Types.FLOAT()',
        '"floats", Types.MAP(Types.INT(), Types.FLOAT())',
        '"instant", Types.INSTANT()',
        '"ints", Types.PRIMITIVE_ARRAY(Types.INT())',
        '"texts", Types.LIST(Types.STRING())',
        '"tuple", Types.TUPLE([Types.STRING(), Types.INT()])',
    ):
        assert declared in source
    words = " ".join(source.replace("#", "").split())
    assert "- row: all entries (7) read as ROW([LONG, STRING]) (column 2 is always null: of any type;" in words


def test_how_sure_it_is_stands_above_the_operator(written):
    _, source, _ = written("hashmap")
    lines = source.splitlines()

    assert "# - count: all entries (5) read as LONG (DOUBLE, SQL_TIMESTAMP would fit, too)" in lines
    assert any(line.startswith("# - account: all entries (5) read as pickles that name ") for line in lines)
    assert '        ListStateDescriptor("events", Types.STRING()),' in lines
    assert '        ValueStateDescriptor("kept", Types.STRING(), time_to_live=True),' in lines


def test_thread_mode_has_the_types_of_java(written):
    _, source, _ = written("values-thread")

    assert 'execution_mode="thread"' in source
    assert 'ValueStateDescriptor("last", bytes)' in source
    words = " ".join(source.replace("#", "").split())
    assert (
        "- last: pickles that name pyflink.common.types._create_row, pyflink.common.types.RowKind; never opened;"
        " rows and tuples are read as values where they are declared: Types.ROW([…])" in words
    )
