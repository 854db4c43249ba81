"""`migrate --downgrade` keeps the values of fields that a later revision has renamed: the history has the aliases."""

from __future__ import annotations

import importlib

import pytest

from stateshift import SavepointWriter

VERSION = """
from typing import Annotated

import attrs
from stateshift import Field, Job, ListStateDescriptor, Operator, ValueStateDescriptor, record

@record(aliases=["shop_1.Account", "shop_2.Account"])
@attrs.frozen
class Account:
    {fields}

job = Job([Operator("o", key=int, states=[ValueStateDescriptor("v", Account), ListStateDescriptor("l", Account)])])
"""
FIELDS = {
    1: "total: int = 5",
    2: "amount: Annotated[int, Field(aliases=['total'])] = 5\n    more: int = 7",
    3: "sum: Annotated[int, Field(aliases=['amount'])] = 5\n    more: int = 7",
}


@pytest.fixture
def stored(run, tmp_path, monkeypatch):
    """A savepoint of the third version of a job, whose history has all three."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "pyproject.toml").write_text("[tool.stateshift]\n", encoding="utf-8")
    for version, fields in FIELDS.items():
        (tmp_path / f"shop_{version}.py").write_text(VERSION.format(fields=fields), encoding="utf-8")
        assert 0 == run("snapshot", "--job", f"shop_{version}:job", "-m", f"v{version}").status
    shop = importlib.import_module("shop_3")
    account = shop.Account
    with SavepointWriter(tmp_path / "sp", shop.job) as writer:
        writer.put("o", "v", 1, account(42))
        writer.put("o", "l", 1, [account(43), account(44)])
    return tmp_path


@pytest.mark.usefixtures("stored")
@pytest.mark.parametrize(("revision", "name"), [("0001", "total"), ("0002", "amount")])
def test_renamed_fields_keep_their_values(run, revision, name):
    ran = run("migrate", "sp", "back", "--downgrade", revision)

    assert 0 == ran.status, ran.stderr
    shown = run("export", "back").stdout
    assert all(f'"{name}": {number}' in shown for number in (42, 43, 44)), shown
    assert "possible_rename" not in ran.stdout


def test_a_state_that_no_revision_has_written_goes_back_as_its_types_say(run, stored):
    (stored / "state_history" / "0003_v3.json").unlink()

    ran = run("migrate", "sp", "back", "--downgrade", "0002")

    assert 1 == ran.status
    assert "REC-11" in ran.stderr


AVRO = """
from stateshift import AvroSerializer, Job, ListStateDescriptor, Operator, ValueStateDescriptor

cents = {{"name": "{cents}", "type": "long", {more}}}
line = {{"type": "record", "name": "{line}", "aliases": {lines}, "fields": [cents]}}
schema = {{"type": "record", "name": "Account", "namespace": "shop", "fields": [
    {{"name": "{total}", "type": "long", "default": 5, "aliases": {totals}}},
    {{"name": "lines", "type": {{"type": "array", "items": ["null", line]}}}},
]}}
job = Job([Operator("o", key=int, states=[
    ValueStateDescriptor("v", AvroSerializer(schema)), ListStateDescriptor("l", AvroSerializer(schema)),
])])
"""
NAMES = {
    1: {"line": "Line", "lines": [], "cents": "cents", "more": '"default": 7', "total": "total", "totals": []},
    2: {
        "line": "Row", "lines": ["shop.Line"], "cents": "amount", "more": '"default": 7, "aliases": ["cents"]',
        "total": "amount", "totals": ["total"],
    },
    3: {
        "line": "Entry", "lines": ["shop.Row"], "cents": "sum", "more": '"default": 7, "aliases": ["amount"]',
        "total": "sum", "totals": ["amount"],
    },
}  # fmt: skip


@pytest.mark.parametrize(("revision", "name"), [("0001", ("total", "cents")), ("0002", ("amount", "amount"))])
def test_renamed_fields_and_records_of_avro_schemas_keep_their_values(run, tmp_path, monkeypatch, revision, name):
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "pyproject.toml").write_text("[tool.stateshift]\n", encoding="utf-8")
    for version, names in NAMES.items():
        (tmp_path / f"avro_shop_{version}.py").write_text(AVRO.format(**names), encoding="utf-8")
        assert 0 == run("snapshot", "--job", f"avro_shop_{version}:job", "-m", f"v{version}").status
    with SavepointWriter(tmp_path / "sp", importlib.import_module("avro_shop_3").job) as writer:
        for number, state in enumerate(("v", "l")):
            value = {"sum": 42 + number, "lines": [{"sum": 44 + number}, None]}
            writer.put("o", state, 1, [value] if state == "l" else value)

    ran = run("migrate", "sp", "back", "--downgrade", revision)

    assert 0 == ran.status, ran.stderr
    shown = run("export", "back").stdout
    assert all(f'"{name[0]}": {number}' in shown for number in (42, 43)), shown
    assert all(f'"{name[1]}": {number}' in shown for number in (44, 45)), shown
    types = run("inspect", "back", "--json").stdout
    assert "shop.Entry" not in types
    assert 0 == run("check", "back", "--job", f"avro_shop_{int(revision)}:job").status
