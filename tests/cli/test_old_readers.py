"""A state whose class is gone, on the command line and in Python: the readers tried, why they failed, and advice.

The savepoint is written by another process, with a serializer and a snapshot of its own; here their module is gone.
"""

import json
import subprocess
import sys
from itertools import pairwise

import pytest

from stateshift import IncompatibleState, MigrationOptions, Savepoint, check
from stateshift.cli.options import load_job_here
from stateshift.state.migration.preparation import prepare

READINGS = """
import attrs
from stateshift import (
    Job, Operator, SavepointWriter, TypeSerializer, TypeSerializerConfigSnapshot, ValueStateDescriptor,
    register_serializer, register_snapshot,
)

@attrs.frozen
class Temperature:
    degrees: float

@attrs.frozen
class TemperatureSerializer(TypeSerializer[Temperature]):
    def serialize(self, value, target):
        target.write_short(round(value.degrees))

    def deserialize(self, source):
        return Temperature(float(source.read_short()))

    def snapshot_configuration(self):
        return TemperatureSnapshot()

@register_snapshot
@attrs.define
class TemperatureSnapshot(TypeSerializerConfigSnapshot[Temperature]):
    snapshot_id = "stateshift/acme-temperature"

    def write(self, target):
        pass

    def read(self, source):
        pass

    def restore_serializer(self):
        return TemperatureSerializer()

register_serializer(Temperature, TemperatureSerializer())
job = Job([Operator("sensors", key=str, states=[ValueStateDescriptor("last", Temperature)])])
"""
WRITE = """
import readings
from stateshift import SavepointWriter
for place, store in (("plain", False), ("with-serializers", True)):
    with SavepointWriter(place, readings.job, store_serializers=store) as writer:
        writer.put("sensors", "last", "cellar", readings.Temperature(12.0))
"""
JOB = """
from stateshift import Job, Operator, ValueStateDescriptor

class OldTemperatures:
    def deserialize(self, source):
        return float(source.read_short())

def degrees(value):
    return getattr(value, "degrees", value)

def job_with(**options):
    return Job([Operator("sensors", key=str, states=[ValueStateDescriptor("last", float, **options)])])

bare = job_with()
job = job_with(converter=degrees)
with_fallback = job_with(converter=degrees, fallback_deserializer=OldTemperatures())
"""
SNAPSHOT = "snapshot: the snapshot stateshift/acme-temperature (version 1, 0 bytes) is not registered"
NONE_STORED = "stored serializer: the savepoint has none"
UNTRUSTED = "is not trusted, and unpickling it would run its code"
NO_FALLBACK = "fallback: the job has none"
IMPORT, FALLBACK, LEAVE = "import the module that registers", "fallback_deserializer=…", "--drop STATE"
TRUST = "--trust-stored-serializers"


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """Two savepoints of a process that had the module: without and with the serializers next to it."""
    folder = tmp_path_factory.mktemp("written")
    (folder / "readings.py").write_text(READINGS, encoding="utf-8")
    subprocess.run([sys.executable, "-c", WRITE], cwd=folder, check=True)
    (folder / "readings.py").unlink()
    return folder


@pytest.fixture
def plain(job_folder):
    """The new job, which has only numbers."""
    (job_folder / "plain.py").write_text(JOB, encoding="utf-8")


def refusals(text):
    """The lines of a check that refuse a path, each with its ways out."""
    lines = text.splitlines()
    return [" ".join(pair) for pair in pairwise(lines) if pair[0].strip().startswith("refuse ")]


@pytest.mark.usefixtures("plain")
class TestNobodyReadsIt:
    """READ-4: no snapshot, no trusted serializer, no fallback."""

    @pytest.mark.parametrize(
        ("place", "stored", "ways"),
        [
            ("plain", NONE_STORED, [IMPORT, FALLBACK, LEAVE]),
            ("with-serializers", UNTRUSTED, [IMPORT, TRUST, FALLBACK, LEAVE]),
        ],
    )
    def test_a_check_names_all_three_attempts_and_what_to_do(self, run, written, place, stored, ways):
        ran = run("check", written / place, "--job", "plain:job")
        (refusal,) = refusals(ran.stdout)

        assert 1 == ran.status
        assert [] == [part for part in (SNAPSHOT, stored, NO_FALLBACK, "[READ-4]", *ways) if part not in refusal]

    @pytest.mark.parametrize(
        ("place", "stored", "ways"),
        [
            ("plain", NONE_STORED, [IMPORT, FALLBACK, LEAVE]),
            ("with-serializers", UNTRUSTED, [IMPORT, TRUST, FALLBACK, LEAVE]),
        ],
    )
    def test_a_migration_says_the_same_and_writes_nothing(self, run, written, tmp_path, place, stored, ways):
        ran = run("migrate", written / place, tmp_path / "after", "--job", "plain:job")
        wanted = ["'last'", "sensors", SNAPSHOT, stored, NO_FALLBACK, "READ-4", *ways, "Nothing was changed"]

        assert 1 == ran.status
        assert [] == [part for part in wanted if part not in ran.stderr]
        assert not (tmp_path / "after").exists()

    def test_json_has_each_way_by_itself(self, run, written):
        (operator,) = run("check", written / "plain", "--job", "plain:job", "--json").data["operators"]
        finding = operator["states"][0]["findings"][0]

        assert "READ-4" == finding["rule"]
        assert [True] * 3 == [
            part in way for part, way in zip((IMPORT, FALLBACK, LEAVE), finding["ways_out"], strict=True)
        ]

    def test_without_a_converter_both_that_and_the_lost_reader_are_reported_fam_2(self, run, written):
        """A converter alone, the way out of FAM-2, would lead to the next refusal."""
        lost, unlike = refusals(run("check", written / "plain", "--job", "plain:bare").stdout)

        assert "[READ-4]" in lost
        assert "[FAM-2]" in unlike

    def test_python_reports_it_as_an_error_with_all_of_it(self, written):
        savepoint = Savepoint.open(written / "with-serializers")
        job = load_job_here("plain:job")
        report = check(savepoint.describe(), job.describe())

        with pytest.raises(IncompatibleState) as caught:
            prepare(savepoint, job, MigrationOptions())
        text = str(caught.value)
        trusted = "trust_stored_serializers=True"
        assert [] == [
            part for part in (SNAPSHOT, UNTRUSTED, NO_FALLBACK, IMPORT, trusted, FALLBACK) if part not in text
        ]
        assert ("READ-4", 4) == (rule_of(report), len(report.operators[0].states[0].result.findings[0].ways_out))

    def test_a_serializer_that_is_trusted_and_does_not_unpickle_is_a_reason_read_2(self, run, written):
        (refusal,) = refusals(run("check", written / "with-serializers", "--job", "plain:job", TRUST).stdout)

        assert "does not unpickle: ModuleNotFoundError: No module named 'readings'" in refusal
        assert TRUST not in refusal


def rule_of(report):
    return report.operators[0].states[0].result.findings[0].rule


@pytest.mark.usefixtures("plain")
class TestSomebodyReadsIt:
    def test_read_2_a_trusted_serializer_reads_where_the_snapshot_does_not(self, run, written, job_folder):
        (job_folder / "readings.py").write_text(
            READINGS.replace("@register_snapshot", "").replace("register_serializer(T", "(lambda *_: 0)(T"),
            encoding="utf-8",
        )
        ran = run("check", written / "with-serializers", "--job", "plain:job", TRUST)

        assert 4 == ran.status
        assert "reader: stored serializer; converter: plain.degrees" in ran.stdout
        assert ran.stdout.splitlines()[-1].endswith(f"--job plain:job {TRUST}")

    def test_read_3_and_read_6_a_fallback_reads_where_both_fail(self, run, written):
        ran = run("check", written / "with-serializers", "--job", "plain:with_fallback", "--allow-migration")

        assert 0 == ran.status
        assert "requires_migration_with_fallback; reader: fallback" in ran.stdout

    def test_read_5_a_plan_names_the_reader_of_each_state(self, written):
        prepared = prepare(Savepoint.open(written / "plain"), load_job_here("plain:with_fallback"), MigrationOptions())
        (state,) = prepared.plan.operators[0].states

        assert "fallback" == state.value.source

    def test_read_1_and_read_7_a_state_that_stays_needs_no_reader(self, run, written, job_folder):
        """The savepoint's own types: the snapshot is not restored, and nothing unpickled."""
        (job_folder / "none.py").write_text(
            "from stateshift import Job, Operator\njob = Job([Operator('sensors', key=str)])\n", encoding="utf-8"
        )
        data = json.loads(run("check", written / "with-serializers", "--job", "none:job", "--json").stdout)
        (state,) = data["operators"][0]["states"]

        assert ("start", None, []) == (state["decision"], state["reader"], state["findings"])
