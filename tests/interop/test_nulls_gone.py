"""A field of a Java class that becomes primitive: real Flink restores it once no null is stored (REC-10)."""

from __future__ import annotations

from typing import Annotated

import attrs
import pytest

from stateshift import (
    Field,
    Int32,
    Job,
    ListStateDescriptor,
    Operator,
    SavepointWriter,
    ValueStateDescriptor,
    migrate,
    record,
)


@record(java_class="fx.evo.Account")
@attrs.frozen
class Boxed:
    id: int
    name: str
    visits: Int32 | None = None
    obsolete: str | None = None


@record(java_class="fx.evo.Account")
@attrs.frozen
class Primitive:
    id: int
    name: str
    visits: Annotated[Int32, Field(on_none=-1)] = 0
    obsolete: str | None = None


def job_of(account):
    states = [ValueStateDescriptor("account", account), ListStateDescriptor("accounts", account)]
    return Job([Operator("account-state", key=int, states=states)])


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """What a job whose class has `Integer visits` has left: one of two accounts without a number."""
    place = tmp_path_factory.mktemp("boxed") / "savepoint"
    with SavepointWriter(place, job_of(Boxed), parallelism=2) as writer:
        for key, visits in ((1, 5), (2, None)):
            writer.put("account-state", "account", key, Boxed(key, "a", visits))
            writer.put("account-state", "accounts", key, [Boxed(key, "b", visits)])
    return place


@pytest.mark.parametrize("backend", ["hashmap", "rocksdb"])
def test_flink_reads_what_a_null_became(flink_restore, spark, written, tmp_path, backend):
    target = tmp_path / "migrated"

    migrate(written, target, job_of(Primitive), session=spark)

    refused = flink_restore(written, scenario="account", evo=1, backend=backend)
    restored = flink_restore(target, scenario="account", evo=1, backend=backend)
    assert "failed" == refused["status"]
    assert "restored" == restored["status"], restored
    (operator,) = (one for one in restored["operators"] if "account" in one["keyed"])
    found = {key: value["$pojo"]["fields"]["visits"] for key, value in operator["keyed"]["account"]["entries"]}
    assert {1: 5, 2: -1} == found
