"""Tables: long names are cut, and what is written from right to left stays in its cell."""

from __future__ import annotations

import sys

import pytest

from stateshift import Job, Operator, SavepointWriter, ValueStateDescriptor
from stateshift.cli.output import Column, Table, print_styled

LONG = "by-" + "customer-" * 40 + "id"


@pytest.fixture
def savepoint(tmp_path):
    states = [ValueStateDescriptor(LONG, int), ValueStateDescriptor("short", int)]
    with SavepointWriter(tmp_path / "savepoint", Job([Operator("o", key=int, states=states)])) as writer:
        writer.put("o", LONG, 1, 1)
        writer.put("o", "short", 1, 1)
    return tmp_path / "savepoint"


def test_a_long_name_is_cut_in_a_table_and_whole_in_json(run, savepoint):
    ran, as_json = run("inspect", savepoint), run("inspect", savepoint, "--json")

    row = next(line for line in ran.stdout.splitlines() if "by-customer" in line)
    assert "  by-customer-customer-cus…er-customer-customer-id  value " in row
    assert LONG not in ran.stdout
    assert LONG in as_json.stdout


def test_a_name_of_forty_letters_stays_whole():
    assert "n" * 40 == Column("state", is_name=True).cell("n" * 40)
    assert "n" * 400 == Column("reason").cell("n" * 400)


@pytest.mark.parametrize(
    ("name", "lines"),
    [
        ("short", ["short  a sentence that is longer than what is left of the", "         line of the table"]),
        ("n" * 30, ["n" * 30, "    a sentence that is longer than what is left of the line", "      of the table"]),
    ],
)
def test_a_long_text_in_the_last_column_goes_on_below(capsys, monkeypatch, name, lines):
    monkeypatch.setattr("stateshift.cli.output._PIPED_WIDTH", 60)
    text = "a sentence that is longer than what is left of the line of the table"

    print_styled([Table([Column("name"), Column("why", is_text=True)], [[[(name, "")], [(text, "")]]])])

    assert lines == capsys.readouterr().out.splitlines()[1:]


def test_a_name_that_is_written_from_right_to_left_does_not_turn_its_neighbours(monkeypatch, capsys):
    monkeypatch.setattr(type(sys.stdout), "isatty", lambda _: True, raising=False)
    rows = [[[("שלם", "")], [("10", "")]], [[("plain", "")], [("20", "")]]]

    print_styled([Table([Column("state", is_name=True), Column("entries", is_number=True)], rows)])

    _, hebrew, plain = capsys.readouterr().out.splitlines()
    assert "\u2068שלם\u2069 " in hebrew
    assert not {"\u2068", "\u2069"} & set(plain)
