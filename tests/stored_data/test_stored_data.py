"""What earlier versions stored loads: values, serializers, savepoints, plans, journals, revisions.

`tests/fixtures/stored-data` has a folder for each version; `write.py` wrote it, and its README says what is in it.
"""

from __future__ import annotations

import base64
import fcntl
import json
import os
import pickle
import re
import shutil
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import pytest

import stateshift as ss
from stateshift.serializers.snapshot import snapshot_to_bytes
from stateshift.state.publication.stored_serializers import StoredSerializer, read_stored_serializers
from stateshift.state.storage.files import Folder

FIXTURES = Path(__file__).parents[1] / "fixtures" / "stored-data"
VERSIONS = sorted(folder.name for folder in FIXTURES.iterdir())
pytestmark = pytest.mark.filterwarnings(
    r"ignore:stateshift\.\S+ is deprecated since stateshift 0\.1:DeprecationWarning"
)  # of jobs as they were

FORMS = ("pickle 2", "pickle 5", "cloudpickle")
RESUMED_AT = Path("/tmp/stateshift-stored-data")  # noqa: S108 - where the run was begun


@pytest.fixture(params=VERSIONS)
def stored(request, monkeypatch):
    """The folder of a version, whose job can be imported."""
    folder = FIXTURES / request.param
    monkeypatch.syspath_prepend(str(folder))
    yield folder
    sys.modules.pop("stored_shop", None)


@pytest.fixture
def stateshift(stored, tmp_path):
    """`stateshift("accounts", "inspect", …)`: the command line in a copy of a folder; gives stdout."""

    def run(part, *arguments, status=0, at=tmp_path):
        if not (at / part).exists():
            shutil.copytree(stored / part, at / part)
        ran = subprocess.run(
            [sys.executable, "-m", "stateshift", *arguments],
            cwd=at / part,
            env=os.environ | {"PYTHONPATH": str(stored)},
            capture_output=True,
            text=True,
            check=False,
        )
        assert status in {ran.returncode, None}, ran.stdout + ran.stderr
        return ran.stdout if status is not None else ran.stdout + ran.stderr

    return run


def test_what_this_version_stores_is_kept():
    """A version gets its folder before it is released: `python tests/stored_data/write.py`."""
    assert ".".join(ss.__version__.split(".")[:2]) in VERSIONS


def facts(stored, name):
    return json.loads((stored / f"{name}.json").read_text(encoding="utf-8"))


def loaded(entry):
    """What the pickles of an entry load to, by the `pickle` of Python alone, as a user's code does."""
    return [pickle.loads(base64.b64decode(entry[form])) for form in FORMS]


@pytest.mark.parametrize(("file", "text"), [("values", repr), ("errors", str)])
def test_pickled_values_and_errors_load(stored, file, text):
    for name, entry in facts(stored, file).items():
        for thing in loaded(entry):
            assert (entry["type"], entry["text"]) == (type(thing).__qualname__, text(thing)), name


def test_values_are_equal_to_those_of_today(stored):
    sys.modules.pop("stored_data.contents", None)
    from stored_data.contents import VALUES  # with the job of that version

    for name, entry in facts(stored, "values").items():
        for value in loaded(entry):
            assert VALUES[name] == value


def test_pickled_serializers_load_and_read_what_they_wrote(stored):
    for name, entry in facts(stored, "serializers").items():
        for serializer in loaded(entry):
            assert (entry["type"], entry["describe"]) == (type(serializer).__qualname__, serializer.describe()), name
            assert entry["snapshot"] == snapshot_to_bytes(serializer.snapshot_configuration()).hex(), name
            for data in map(bytes.fromhex, entry["values"]):
                value = serializer.deserialize(ss.DataInputView(data))
                target = ss.DataOutputView()
                serializer.serialize(value, target)
                again = serializer.deserialize(ss.DataInputView(target.getvalue()))
                assert value == again, name
                assert data == target.getvalue() or isinstance(serializer, ss.PickleSerializer), name


def test_serializers_next_to_a_savepoint_load(stored):
    found = read_stored_serializers(Folder.at(stored / "opaque" / "savepoint"))

    serializers = {place: StoredSerializer(place, data, trusted=True)() for place, data in found.items()}

    assert {"basket", "clouded", "kind", "moment", "raw", "temperatures"} == {
        place.rpartition("/")[2] for place in serializers
    }


class TestAccounts:
    """A savepoint, and what a run makes of it."""

    def test_the_savepoint_is_whole_and_read(self, stored, stateshift):
        stateshift("accounts", "verify", "savepoint", "--values")

        assert (stored / "accounts/entries.jsonl").read_text() == stateshift("accounts", "export", "savepoint")

    def test_what_a_run_made_is_whole_and_read(self, stored, stateshift):
        stateshift("accounts", "verify", "migrated", "--values")

        assert (stored / "accounts/migrated.jsonl").read_text() == stateshift("accounts", "export", "migrated")

    def test_its_quarantine_is_listed(self, stored, stateshift):
        shown = json.loads(stateshift("accounts", "quarantine", "migrated", "--bytes", "--json"))

        assert facts(stored, "accounts/quarantine")["values"] == shown["values"]

    def test_its_plan_is_carried_out(self, stored, stateshift):
        stateshift("accounts", "migrate", "savepoint", "again", "--plan", "plan.json")

        assert (stored / "accounts/migrated.jsonl").read_text() == stateshift("accounts", "export", "again")

    def test_its_plan_is_carried_out_whatever_words_explain_it(self, stored, stateshift, tmp_path):
        """The sentences of a plan are those of the release that made it; another release may have better ones."""
        text = (stored / "accounts/plan.json").read_text(encoding="utf-8")
        reworded = re.sub(r'"(reason|conversion|source)": "[^"]+"', r'"\1": "in other words"', text)
        reworded = reworded.replace("only after a migration back", "in other words")
        assert reworded.count("in other words") > 6
        (tmp_path / "reworded.json").write_text(reworded, encoding="utf-8")

        stateshift("accounts", "migrate", "savepoint", "reworded", "--plan", str(tmp_path / "reworded.json"))

        assert (stored / "accounts/migrated.jsonl").read_text() == stateshift("accounts", "export", "reworded")

    def test_a_run_that_was_cut_off_is_resumed(self, stored, stateshift):
        with at_its_place(stored, "accounts") as folder:
            for claim in folder.glob("cut-off/_claim-*"):
                os.utime(claim, (0, 0))  # nobody has renewed it for long
            said = stateshift(
                "accounts", "migrate", "savepoint", "cut-off", "--plan", "plan.json", "--target-exists", "resume",
                at=RESUMED_AT,
            )  # fmt: skip
            shown = stateshift("accounts", "export", "cut-off", at=RESUMED_AT)

        assert "4 streams rewritten, 2 streams finished before" in said
        assert (stored / "accounts/migrated.jsonl").read_text() == shown

    def test_its_revisions_are_read_and_hold_a_job_to_them(self, stateshift):
        job = ("--job", "stored_shop:accounts_now")

        assert "0001_as_it_was" in stateshift("accounts", "history")
        assert "stored_shop.Account{name: string, visits: int}" in stateshift("accounts", "show", "0001")
        assert "accept" in stateshift("accounts", "check", *job, "--against", "state_history")
        assert "accept" in stateshift("accounts", "check", *job, "--against", "production")


class TestOpaque:
    """Pickled states with values of the library in them, and what only a stored serializer reads."""

    def test_the_savepoint_is_read_where_its_classes_are_trusted(self, stored, stateshift):
        trust = [f"--trust={name}" for name in facts(stored, "opaque/plan")["options"]["trust"]]
        shown = stateshift("opaque", "export", "savepoint", *trust, status=7)

        assert (stored / "opaque/entries.jsonl").read_text() == shown

    def test_the_job_that_wrote_it_starts_on_it(self, stateshift):
        """No class has moved for it, whatever the library calls its modules."""
        shown = stateshift(
            "opaque", "check", "savepoint", "--job", "stored_shop:opaque", "--allow-non-restored-state", "--json"
        )
        (operator,) = json.loads(shown)["operators"]

        assert {"compatible"} == {state["verdict"] for state in operator["states"]}

    def test_the_record_of_its_types_is_read_and_equals_them(self, stateshift):
        assert "equal" in stateshift("opaque", "diff", "recorded.json", "savepoint")

    def test_its_revision_holds_the_same_job_to_it_and_sees_no_change(self, stateshift):
        against = ("--job", "stored_shop:opaque", "--against", "state_history")

        assert "accept: every state is compatible" in stateshift("opaque", "check", *against)

    def test_its_types_are_those_of_the_same_job(self, stateshift):
        shown = json.loads(
            stateshift("opaque", "diff", "state_history/0001_as_it_was.json", "stored_shop:opaque", "--json")
        )

        assert shown["equal"], shown

    def test_its_plan_is_carried_out_or_refused_for_its_code_alone(self, stored, stateshift):
        """Each Python, and each attrs, compiles the code of the job's classes in its own way."""
        said = stateshift("opaque", "migrate", "savepoint", "again", "--plan", "plan.json", status=None)
        if "PlanChanged" in said:
            sentence = re.compile(r": findings: [^:]+\.(reason|conversion): |: old_job\.reasons: ")
            whole = re.sub(r"\n {4,}", " ", said)  # long lines are divided, and go on further to the right
            lines = [line for line in whole.splitlines() if line.startswith("  operator ")]
            differences = [line for line in lines if not sentence.search(line)]
            assert differences
            assert differences == [line for line in differences if ": code of " in line]
            return
        trust = [f"--trust={name}" for name in facts(stored, "opaque/plan")["options"]["trust"]]

        assert (stored / "opaque/migrated.jsonl").read_text() == stateshift("opaque", "export", "again", *trust)


@contextmanager
def at_its_place(stored, part):
    """Copy a folder to where it was written; one test run at a time."""
    with RESUMED_AT.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        shutil.rmtree(RESUMED_AT, ignore_errors=True)
        yield Path(shutil.copytree(stored / part, RESUMED_AT / part))
        shutil.rmtree(RESUMED_AT)
