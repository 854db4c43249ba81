"""Migrating to the types of another savepoint: the same result as with classes in Python."""

from __future__ import annotations

import json

import attrs
import pytest

from stateshift import NothingInCommon, Savepoint, migrate


@pytest.mark.parametrize("source", ["hashmap-account-v1", "rocksdb-account-v1"])
@pytest.mark.parametrize("version", [2, 3])
def test_a_probe_gives_the_savepoint_that_the_declared_classes_give(
    spark, savepoint_of, account_jobs, tmp_path, source, version
):
    probe = Savepoint.open(savepoint_of(f"hashmap-account-v{version}")).describe().as_probe()

    migrate(savepoint_of(source), tmp_path / "declared", account_jobs[version], session=spark)
    migrate(savepoint_of(source), tmp_path / "probed", probe, session=spark)

    declared, probed = (files_of(tmp_path / name) for name in ("declared", "probed"))
    lineages = [json.loads(files.pop("_stateshift.json")) for files in (declared, probed)]
    assert declared == probed
    assert lineages[0]["states"] == lineages[1]["states"]
    assert lineages[1]["plan"]["job"] == probe.origin


def files_of(folder):
    return {file.name: file.read_bytes() for file in folder.iterdir() if not file.name.startswith(".")}


def test_states_that_are_not_in_the_probe_are_kept_as_they_are(spark, savepoint_of, tmp_path):
    source = savepoint_of("rocksdb-account-v1")
    described = Savepoint.open(savepoint_of("hashmap-account-v3")).describe()
    operators = [
        attrs.evolve(operator, states=tuple(state for state in operator.states if state.name != "accounts"))
        for operator in described.operators
        if operator.uid == "account-state"
    ]
    probe = attrs.evolve(described, operators=tuple(operators)).as_probe()

    migrate(source, tmp_path / "target", probe, session=spark)

    old, new = (Savepoint.open(place) for place in (source, tmp_path / "target"))
    assert list(entries(old, "accounts")) == list(entries(new, "accounts"))
    assert {"fx.evo.Account": {"id", "name", "obsolete", "visits"}} == fields(entries(new, "accounts"))
    assert {"fx.evo.Account": {"id", "name", "email", "score", "visits"}} == fields(entries(new, "account"))
    lists = [place.operator("account-state-lists").state("pending").read_elements() for place in (old, new)]
    assert lists[0] == lists[1]


def entries(savepoint, name):
    return ((entry.key, entry.value) for entry in savepoint.operator("account-state").state(name).read_entries())


def fields(read):
    records = [record for _, value in read for record in (value if isinstance(value, list) else [value])]
    return {record._type_name: set(record._asdict()) for record in records}


def test_a_probe_of_another_job_ends_a_migration_before_it_begins(savepoint_of, tmp_path):
    probe = Savepoint.open(savepoint_of("hashmap-windows-p2-m128")).describe().as_probe()

    with pytest.raises(NothingInCommon):
        migrate(savepoint_of("hashmap-account-v1"), tmp_path / "target", probe)

    assert not (tmp_path / "target").exists()
