"""How far an export is, on stderr alone; what is exported is the same."""

from __future__ import annotations

import sys

import pytest

from stateshift import Job, ListStateDescriptor, Operator, SavepointWriter, ValueStateDescriptor
from stateshift.cli import progress as shown
from stateshift.state import progress

STATES = [ValueStateDescriptor("text", str), ListStateDescriptor("all", int)]


@pytest.fixture
def savepoint(tmp_path):
    with SavepointWriter(tmp_path / "savepoint", Job([Operator("o", key=int, states=STATES)])) as writer:
        for key in range(300):
            writer.put("o", "text", key, "x" * 1000)
            writer.put("o", "all", key, [1, 2])
    return tmp_path / "savepoint"


@pytest.fixture
def often(monkeypatch):
    monkeypatch.setattr(shown, "_LOG_EVERY_S", 0.0)
    monkeypatch.setattr(progress, "_TOLD_EACH_S", 0.0)


def lines_of(ran):
    return [line for line in ran.stderr.splitlines() if line.startswith("exporting")]


@pytest.mark.usefixtures("often")
@pytest.mark.parametrize("form", ["jsonl", "tagged"])
def test_a_log_says_how_many_bytes_and_states_of_a_savepoint_are_exported(run, savepoint, tmp_path, form):
    file = tmp_path / "entries.json"
    printed, written = (
        run("export", savepoint, "--format", form),
        run("export", savepoint, "--format", form, "-o", file),
    )

    assert printed.stdout == file.read_text(encoding="utf-8")
    assert "exporting" not in printed.stdout + written.stdout
    for ran in (printed, written):
        assert len(lines_of(ran)) >= 3
        assert all(" KiB of " in line for line in lines_of(ran))
    if form == "jsonl":
        assert lines_of(written)[-1].startswith("exporting: 2 of 2 done, ")


@pytest.mark.usefixtures("often")
def test_single_states_are_counted_where_their_bytes_are_not_known(run, savepoint):
    ran = run("export", savepoint, "--state", "all")

    assert {"exporting …"} == set(lines_of(ran))


@pytest.mark.usefixtures("often")
def test_an_avro_file_is_counted_likewise(run, savepoint, tmp_path):
    ran = run("export", savepoint, "--state", "text", "--format", "avro", "-o", tmp_path / "text.avro")

    assert (0, "") == (ran.status, ran.stdout)
    assert {"exporting …"} == set(lines_of(ran))


@pytest.mark.usefixtures("often")
def test_partitions_of_a_spark_checkpoint_are_counted(run, root, tmp_path):
    place = f"spark:{root / 'tests' / 'fixtures' / 'spark-4.3' / 'dedup' / 'checkpoint'}"
    printed, written = run("export", place), run("export", place, "-o", tmp_path / "entries")

    assert printed.stdout == (tmp_path / "entries").read_text(encoding="utf-8")
    assert ["exporting: 1 of 2 done", "exporting: 2 of 2 done"] == lines_of(written) == lines_of(printed)


def test_a_short_export_says_nothing_of_it(run, savepoint):
    assert [] == lines_of(run("export", savepoint))


@pytest.mark.usefixtures("often")
def test_entries_on_a_terminal_say_themselves_that_it_goes_on(run, savepoint, monkeypatch):
    stdout = sys.stdout
    monkeypatch.setattr(type(stdout), "isatty", lambda stream: stream is stdout, raising=False)

    assert [] == lines_of(run("export", savepoint))
