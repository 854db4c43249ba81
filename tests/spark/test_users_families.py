"""A family that the driver registers by a call: its package is in a folder that no worker knows."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from stateshift import SavepointWriter, migrate, register_family
from stateshift.serializers.families import families
from stateshift.spark import register
from stateshift.state.savepoint.verify import verify

JOB = """
from travelling_family.hints import NarrowMoney
from travelling_family.money import Money
from stateshift import Job, ListStateDescriptor, Operator, ValueStateDescriptor

def job_of(money):
    return Job([Operator("till", key=int, states=[
        ValueStateDescriptor("balance", money), ListStateDescriptor("payments", tuple[str, money]),
    ])])
"""
TRAVELS = {
    "made_up_family": "travelling_family",
    "made-up-money": "travelling-money",
}
"""The words that differ between the made-up family and its copy."""
NUMBER = 300


@pytest.fixture
def till(load, users_folder, monkeypatch):
    """The job, and a copy of the made-up family, whose classes travel by value."""
    shutil.copytree(Path(__file__).parents[1] / "made_up_family", users_folder / "travelling_family")
    for file in (users_folder / "travelling_family").glob("*.py"):
        text = file.read_text(encoding="utf-8")
        for word, other in TRAVELS.items():
            text = text.replace(word, other)
        file.write_text(text, encoding="utf-8")
    monkeypatch.setattr(families, "registered", {})
    job = load("till_job", till_job=JOB)
    register_family(load("travelling_family.family").FAMILY)
    return job


@pytest.mark.slow
def test_it_is_migrated_and_read_on_workers_that_lack_its_package(spark, till, tmp_path, values_of):
    with SavepointWriter(tmp_path / "old", till.job_of(till.NarrowMoney), parallelism=2) as writer:
        for key in range(NUMBER):
            writer.put("till", "balance", key, till.Money(key, "EUR"))
            writer.put("till", "payments", key, [("tea", till.Money(-key, "USD"))])

    report = migrate(tmp_path / "old", tmp_path / "new", till.job_of(till.Money), session=spark)

    assert {"convert"} == {count.action for count in report.states}
    assert {key: till.Money(key, "EUR") for key in range(NUMBER)} == values_of(tmp_path / "new", "till", "balance")
    assert verify(tmp_path / "new").ok
    register(spark)
    frame = spark.read.format("savepoint").option("state", "balance").load(str(tmp_path / "new"))
    assert set(range(NUMBER)) == {row.key for row in frame.select("key", "value").collect() if row.value}
