"""`--redact`: a recognisable key and value are planted, every error is provoked, and neither is printed anywhere."""

from __future__ import annotations

import json
import sys

import pytest

from stateshift import BadValues, MigrationOptions, Savepoint, SavepointWriter, ValuesCollide, load_job, redact_values
from stateshift.serializers.registry import registry
from stateshift.state.migration.preparation import prepare
from stateshift.state.migration.run import publish_result
from stateshift.state.migration.run_task import perform
from stateshift.state.storage.files import Folder

KEY, VALUE, NUMBER = "plantedkey4711", "plantedvalue0815", (1 << 60) + 4711
BAD = b"\xff" + VALUE.encode()
PLANTED = {KEY, VALUE, str(NUMBER), KEY.encode().hex(), VALUE.encode().hex(), NUMBER.to_bytes(8, "big").hex()}

JOBS = f"""
import attrs
from stateshift import (
    CompatibilityResult, Finding, Job, MapStateDescriptor, Operator, StateShiftError, TypeSerializer,
    TypeSerializerConfigSnapshot, ValueNotConvertible, ValueStateDescriptor, Verdict, record, register_serializer,
    register_snapshot,
)

HIDDEN = {VALUE!r}

@record(aliases=["jobs.Refusing"])
@attrs.frozen
class Person:
    name: str

@record(aliases=["jobs.Person"])
@attrs.frozen
class Refusing:
    name: str
    age: int = 0
    def __attrs_post_init__(self):
        raise ValueError(f"nobody is called {{self.name}}")

class Own(StateShiftError):
    def __init__(self, what, value, **rest):
        super().__init__(what, **rest)
        self.value = value

def raises_value_error(text):
    raise ValueError(f"bad {{text}}")
def raises_ours(text):
    raise ValueNotConvertible(f"bad {{text}}", advice=f"forget {{text}}", key=text)
def raises_own(text):
    raise Own(f"bad {{text}}", text)
def raises_from(text):
    try:
        raise KeyError(text)
    except KeyError as error:
        raise RuntimeError(text) from error
def stays(text):
    return text

@attrs.frozen
class Word:
    text: str

@attrs.frozen
class WordSerializer(TypeSerializer):
    mode: str = ""
    def serialize(self, value, target):
        if self.mode == "write":
            raise ValueError(f"cannot write {{value}}")
        target.write_utf(value if isinstance(value, str) else value.text)
    def deserialize(self, source):
        text = source.read_utf()
        if self.mode == "read":
            raise ValueError(f"cannot read {{text}}")
        return Word(text + "!" if self.mode == "other" else text)
    def snapshot_configuration(self):
        return WordSnapshot(self.mode)

@register_snapshot
@attrs.define
class WordSnapshot(TypeSerializerConfigSnapshot):
    snapshot_id = "stateshift/test-redacted-word"
    mode: str = ""
    def write(self, target):
        target.write_utf(self.mode)
    def read(self, source):
        self.mode = source.read_utf()
    def restore_serializer(self):
        return WordSerializer(self.mode)

def job(state):
    return Job([Operator("op", key=str, states=[state])])

before = Job([Operator("op", key=str, states=[
    ValueStateDescriptor("text", str), ValueStateDescriptor("raw", bytes), ValueStateDescriptor("person", Person),
    MapStateDescriptor("numbers", int, str),
])])
value_error = job(ValueStateDescriptor("text", int, converter=raises_value_error))
ours = job(ValueStateDescriptor("text", int, converter=raises_ours))
own = job(ValueStateDescriptor("text", int, converter=raises_own))
chained = job(ValueStateDescriptor("text", int, converter=raises_from))
stays_text = job(ValueStateDescriptor("text", int, converter=stays))
no_float = job(ValueStateDescriptor("text", float, converter=stays))
not_utf8 = job(ValueStateDescriptor("raw", str))
refusing = job(ValueStateDescriptor("person", Refusing))
collides = job(MapStateDescriptor("numbers", float, str))
cannot_write = job(ValueStateDescriptor("text", WordSerializer("write"), converter=stays))
cannot_read = job(ValueStateDescriptor("text", WordSerializer("read"), converter=stays))
@attrs.frozen
class Defective(WordSerializer):
    def snapshot_configuration(self):
        return DefectiveSnapshot()

@attrs.define
class DefectiveSnapshot(WordSnapshot):
    def describe(self):
        return raises_from(HIDDEN)

def defect():
    return job(ValueStateDescriptor("extra", Defective()))

reads_other = job(ValueStateDescriptor("text", WordSerializer("other"), converter=stays))
"""
FAILING = {
    "value_error": "ValueNotConvertible",
    "ours": "ValueNotConvertible",
    "own": "Own",
    "chained": "ValueNotConvertible",
    "stays_text": "ValueNotConvertible",
    "no_float": "ValueNotConvertible",
    "not_utf8": "ValueNotConvertible",
    "refusing": "ValueNotConvertible",
    "cannot_write": "ValueNotConvertible",
    "cannot_read": "MigrationFailed",
    "reads_other": "MigrationFailed",
}
"""Jobs of which a migration fails on its first entry, and with what."""


@pytest.fixture
def planted(job_folder, tmp_path, monkeypatch):
    """A savepoint with the planted key and values; the jobs are in the module `jobs` of the current folder."""
    (job_folder / "jobs.py").write_text(JOBS, encoding="utf-8")
    monkeypatch.syspath_prepend(str(job_folder))
    with registry.restored():
        job = load_job("jobs:before")
        jobs = sys.modules["jobs"]

        with SavepointWriter(tmp_path / "sp", job) as writer:
            writer.put("op", "text", KEY, VALUE)
            writer.put("op", "raw", KEY, BAD)
            writer.put("op", "person", KEY, jobs.Person(VALUE))
            writer.put("op", "numbers", KEY, {NUMBER: VALUE, NUMBER + 1: VALUE})
        yield tmp_path / "sp"


def shows(ran):
    """What of the planted is printed."""
    printed = (ran.stdout + ran.stderr).lower()
    return {text for text in PLANTED if text in printed}


@pytest.mark.parametrize("as_json", [[], ["--json"]])
@pytest.mark.parametrize("job", FAILING)
def test_a_failing_migration_shows_neither_key_nor_value(run, planted, tmp_path, job, as_json):
    arguments = ["migrate", planted, tmp_path / "new", "--job", f"jobs:{job}", "--dry-run", *as_json]

    told, redacted = run(*arguments), run(*arguments, "--redact")

    assert shows(told)
    assert set() == shows(redacted)
    assert (6, 6) == (told.status, redacted.status) or job == "own"
    assert FAILING[job] in redacted.stdout + redacted.stderr
    assert "op" in redacted.stdout + redacted.stderr


def test_keys_that_become_one_are_not_shown(planted, tmp_path):
    """A dry run converts one entry; two are looked at by the run itself."""
    opened, job = Savepoint.open(planted), load_job("jobs:collides")
    task = prepare(opened, job, MigrationOptions()).tasks[0]

    with pytest.raises(ValuesCollide) as told:
        perform(task, opened.folder, Folder.at(tmp_path / "told"))
    redact_values()
    with pytest.raises(ValuesCollide) as redacted:
        perform(task, opened.folder, Folder.at(tmp_path / "redacted"))

    assert [True, False] == [KEY in str(caught.value) for caught in (told, redacted)]
    assert "<redacted>" in str(redacted.value)
    redact_values(False)


def test_a_defect_has_its_traceback_and_no_text_of_an_exception(run, planted):
    """Nobody expects an error here: a snapshot of the user fails while it is named."""
    arguments = ["check", planted, "--job", "jobs:defect"]

    told, redacted = run(*arguments), run(*arguments, "--redact")

    assert (6, 6) == (told.status, redacted.status)
    assert shows(told)
    assert set() == shows(redacted)
    assert "Traceback" in redacted.stderr
    assert "in raises_from" in redacted.stderr
    assert ["KeyError: <redacted>", "RuntimeError: <redacted>"] == [
        line for line in redacted.stderr.splitlines() if "Error: " in line
    ]


def test_a_plan_that_fails_on_its_sample_shows_neither(run, planted):
    told, redacted = (run("plan", planted, "--job", "jobs:value_error", *more) for more in ([], ["--redact"]))

    assert (6, 6) == (told.status, redacted.status)
    assert {KEY, VALUE} == shows(told)
    assert set() == shows(redacted)


@pytest.fixture
def quarantined(planted, tmp_path):
    """The same, migrated: its value is not a string, and lies in quarantine."""
    opened, folder = Savepoint.open(planted), Folder.at(tmp_path / "after")
    options = MigrationOptions(bad_values=BadValues.QUARANTINE)
    prepared = prepare(opened, load_job("jobs:not_utf8"), options)
    folder.create()
    results = [perform(task, opened.folder, folder) for task in prepared.tasks]
    publish_result(opened, prepared.plan, prepared.tasks, results, folder)
    return tmp_path / "after"


@pytest.mark.parametrize("as_json", [[], ["--json"]])
def test_a_listing_of_the_quarantine_shows_places_but_no_values(run, quarantined, as_json):
    told, redacted = run("quarantine", quarantined, *as_json), run("quarantine", quarantined, "--redact", *as_json)

    assert {KEY, VALUE} == shows(told)
    assert set() == shows(redacted)
    for word in ("raw", "op", "TEXT-2", "<redacted>: UnicodeDecodeError"):
        assert word in redacted.stdout


def test_the_bytes_come_only_when_asked_for_and_never_with_redaction(run, quarantined):
    told = run("quarantine", quarantined, "--bytes", "--json")
    refused = run("quarantine", quarantined, "--bytes", "--redact")

    (value,) = told.data["values"]
    assert BAD.hex() in value["value_bytes"]
    assert KEY.encode().hex() in value["key_bytes"]
    assert (2, set()) == (refused.status, shows(refused))


def test_verify_reports_a_misplaced_key_without_the_key(run, planted, damage):
    damage(planted / "_metadata", replace=(KEY.encode(), KEY.replace("4711", "4712").encode()))

    told, redacted = run("verify", planted), run("verify", planted, "--redact")

    assert (1, 1) == (told.status, redacted.status)
    assert "4712" in told.stdout
    assert "4712" not in redacted.stdout
    assert "key <redacted>" in redacted.stdout


def test_an_export_that_fails_does_not_show_the_key(run, planted, damage):
    damage(planted / "_metadata", replace=(BAD, b"\xff" * len(BAD)))
    damage(planted / "_metadata", replace=(VALUE.encode(), b"\x8f" * len(VALUE)))

    told, redacted = run("export", planted, "--state", "text"), run("export", planted, "--state", "text", "--redact")

    assert KEY in told.stderr + told.stdout
    assert KEY not in redacted.stderr + redacted.stdout


def test_rows_of_an_export_have_no_key_and_no_value(run, planted):
    told, redacted = run("export", planted), run("export", planted, "--redact")
    tagged = run("export", planted, "--redact", "--format", "tagged")

    rows = [json.loads(line) for line in redacted.stdout.splitlines()]
    assert shows(told)
    assert (told.status, set()) == (redacted.status, shows(redacted))
    assert len(told.stdout.splitlines()) == len(rows)
    assert {("<redacted>", "<redacted>")} == {(row["key"], row["value"]) for row in rows}
    assert (2, set()) == (tagged.status, shows(tagged))


@pytest.mark.parametrize("as_json", [[], ["--json"]])
@pytest.mark.parametrize(
    "arguments",
    [
        ["inspect", "SP", "--keys", "3", "--skew", "--full"],
        ["init", "SP", "-o", "-"],
        ["check", "SP", "--job", "jobs:refusing"],
        ["check", "SP", "--job", "jobs:not_utf8", "--forbid", "all"],
        ["diff", "SP", "SP"],
        ["snapshot", "SP"],
        ["verify", "SP"],
        ["quarantine", "SP"],
    ],
    ids=" ".join,
)
def test_no_command_shows_keys_or_values_when_nothing_fails(run, planted, arguments, as_json):
    ran = run(*[planted if argument == "SP" else argument for argument in arguments], "--redact", *as_json)

    assert set() == shows(ran)
    assert ran.stdout
