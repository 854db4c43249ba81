"""What queries on Spark stored is answered as by the version that stored it: the same verdicts, statuses and entries.

`write_queries.py` wrote it, and `questions.py` says what is asked.
"""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path

import pytest
from pyspark import cloudpickle
from stored_data.questions import QUESTIONS, RESTARTS, STATES, UPGRADES, answers, holds, unpacked
from stored_data.restarts import restarted, upgraded

from stateshift.serializers.registry import registry

FIXTURES = Path(__file__).parents[1] / "fixtures" / "stored-data"
STORED = sorted(FIXTURES.glob("*/queries"))

CHANGED: dict[tuple[str, ...], int] = {
    # a half migrated state: the class before is refused, as it would leave out those that were touched since; and the
    # job that migrates it is the old job of the one that goes on
    (kind, "check", "state", "--job", f"stored_queries:{job}", "--json"): status
    for kind in ("lazy", "lazy-transform")
    for job, status in (("job", 1), ("job_now", 4))
} | {
    # a sum of another column: the migration begins it anew, if `--fill` or a backfill says with what
    ("sums", "check", "spark:checkpoint", "--query", "stored_queries:sums_of_another", "--json"): 4,
    # a column of a join is said as options say it
    ("joined", "check", "spark:checkpoint", "--query", "stored_queries:joined_on_another", "--json"): 4,
}
"""Questions to which the answer was made another one, on purpose: the kind, the question, and the status now."""

QUICK = ("hashmap", "rocksdb", "lazy", "source", "bounded", "gate", "gate-merged", "sums", "unfinished")
"""The other kinds are more of the same."""


def some(kinds):
    return [kind if kind in QUICK else pytest.param(kind, marks=pytest.mark.slow) for kind in kinds]


@pytest.fixture(params=STORED, ids=[folder.parent.name for folder in STORED])
def stored(request, monkeypatch):
    """The folder of a version, whose modules can be imported."""
    folder = request.param
    monkeypatch.syspath_prepend(str(folder))
    monkeypatch.setattr(cloudpickle.cloudpickle, "_PICKLE_BY_VALUE_MODULES", set())
    monkeypatch.setenv("STORED_QUERY", "")
    sys.modules.pop("stored_queries", None)
    with registry.restored():
        yield folder
    sys.modules.pop("stored_queries", None)


@pytest.fixture
def utc(stateshift_spark):
    """The session, with the time zone and the number of partitions with which they were written."""
    given = {"spark.sql.session.timeZone": "UTC", "spark.sql.shuffle.partitions": "2"}
    before = {name: stateshift_spark.conf.get(name) for name in given}
    for name, value in given.items():
        stateshift_spark.conf.set(name, value)
    yield stateshift_spark
    for name, value in before.items():
        stateshift_spark.conf.set(name, value)


def expected_of(stored, kind, what):
    found = json.loads((stored / "answers.json").read_text(encoding="utf-8"))[kind]
    return [one for one in found if what in one]


def checked(told):
    """What the check of a checkpoint says: in the shape that it had of its own, or in that of any check."""
    if not told or "queries" in told:
        return [(one["name"], checked(one)) for one in (told or {}).get("queries", ())]
    operators = told.get("operators", [])
    if "query" in told:
        facts = [(one.get("kind"), one["decision"], one.get("findings", [])) for one in operators]
    else:
        facts = [(None, told["reads"]["decision"], told["reads"]["findings"])] if "reads" in told else []
        for one in operators:
            parts = [one.get("key", {}), *one.get("states", []), one.get("whole", {})]
            found = [finding for part in parts for finding in part.get("findings", [])]
            facts.append((one["computes"][-1]["kind"], one["decision"], found))
    return told["decision"], [
        (kind, decision, sorted((of["path"], of["rule"], of["verdict"]) for of in found))
        for kind, decision, found in facts
    ]


def inspected(told):
    """What an inspection says: the states of a Spark query were called stores."""
    names = {"stores": "states"}
    operators = [{names.get(name, name): of for name, of in one.items()} for one in told.get("operators", [])]
    return told | ({"operators": operators} if operators else {})


def answered(stored, kind):
    """Ask all again, and compare."""
    expected = expected_of(stored, kind, "question")
    with unpacked(stored / f"{kind}.tar.xz") as folder:
        for one, (question, status, told, output) in zip(expected, answers(kind, folder), strict=True):
            assert tuple(one["question"]) == question
            changed = CHANGED.get((kind, *question))
            if changed is not None:
                assert changed == status, f"{question}:\n{output}"
                continue
            if is_for_its_code_alone(question, output):
                continue
            assert one["status"] == status, f"{question}:\n{output}"
            if question[0] == "check" and (question[1].startswith("spark:") or "--queries" in question):
                assert checked(one.get("told")) == checked(told), question
                continue
            before = inspected(one["told"]) if question[0] == "inspect" else one.get("told")
            same = before == told if question[0] == "export" else holds(before, told)
            assert same, f"{question}:\nexpected {one.get('told')}\nactual   {told}"


def is_for_its_code_alone(question, output):
    """Each Python, and each attrs, compiles the code of the job's classes in its own way, and a plan knows it."""
    lines = [line for line in output.splitlines() if line.startswith("  operator ")]
    return "--plan" in question and "PlanChanged" in output and all(": code of " in line for line in lines)


@pytest.mark.parametrize("kind", some([*STATES, "gate", "gate-merged"]))
def test_what_was_stored_is_answered_as_it_was(stored, kind):
    answered(stored, kind)


@pytest.mark.usefixtures("utc")
@pytest.mark.parametrize("kind", some([kind for kind in QUESTIONS if kind not in {*STATES, "gate", "gate-merged"}]))
def test_a_query_of_spark_that_was_stored_is_answered_as_it_was(stored, kind):
    answered(stored, kind)


@pytest.mark.slow
@pytest.mark.parametrize("kind", RESTARTS)
def test_a_query_goes_on_from_what_was_stored(stored, kind, utc):
    (expected,) = (one["restarted"] for one in expected_of(stored, kind, "restarted"))
    user = importlib.import_module("stored_queries")
    with unpacked(stored / f"{kind}.tar.xz") as folder:
        assert expected == restarted(utc, kind, folder, user)


@pytest.mark.slow
@pytest.mark.parametrize("kind", UPGRADES)
def test_a_stored_state_is_migrated_by_a_start(stored, kind, utc):
    (expected,) = (one["upgraded"] for one in expected_of(stored, kind, "upgraded"))
    user = importlib.import_module("stored_queries")
    with unpacked(stored / f"{kind}.tar.xz") as folder:
        assert expected == upgraded(utc, kind, folder, user)
