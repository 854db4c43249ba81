"""Ways out in Python: options of the command line become arguments of `MigrationOptions`."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import stateshift.compat
from stateshift import MigrationOptions, Policy, Repartition, parse_edits
from stateshift.compat.in_python import in_python
from stateshift.serializers.wording import shell_word

NAMES = {"MigrationOptions": MigrationOptions, "Policy": Policy, "Repartition": Repartition, "parse_edits": parse_edits}


def evaluated(way):
    """Return the options that a way out has as a Python expression."""
    return eval(in_python(way).partition("options=")[2].partition("; or")[0], dict(NAMES))  # noqa: S307 - our own text


@given(st.text(st.characters(exclude_categories=["C", "Z"]), min_size=1))
@example(",")
@example("a,")
def test_a_name_is_the_same_in_python_as_on_the_command_line(name):
    way = f"if it is meant to start empty: --allow-empty {shell_word(name)}; or if not, drop it"

    assert MigrationOptions(policy=Policy(allow_empty=[name])) == evaluated(way)


@pytest.mark.parametrize(
    ("way", "options"),
    [
        ("--rename-state 'a b=c'", MigrationOptions(edits=parse_edits(rename_states=["a b=c"]))),
        ("--rename-uid 'a\"=b'", MigrationOptions(edits=parse_edits(rename_uids=['a"=b']))),
        ("--drop op/a, which", MigrationOptions(edits=parse_edits(drop=["op/a"]))),
        ("--trust a.B --trust c.D", MigrationOptions(trust=("a.B", "c.D"))),
        ("--trust-stored-serializers", MigrationOptions(trust_stored_serializers=True)),
        ("stateshift migrate --repartition", MigrationOptions(repartition=Repartition())),
    ],
)
def test_each_option_has_its_argument(way, options):
    made = re.match(r"MigrationOptions\(.*\)", in_python(way).partition("options=")[2])

    assert options == eval(made[0], dict(NAMES))  # noqa: S307 - our own text


def test_what_is_only_mentioned_is_named_as_its_argument():
    assert "leave out convert" == in_python("leave out --convert")
    assert "nothing --dropped" == in_python("nothing --dropped")


def test_all_options_that_ways_out_name_are_known():
    folder = Path(stateshift.compat.__file__).parent
    names = ("one_sided", "old_reader", "done_once", "roles")
    text = "\n".join((folder / f"{name}.py").read_text() for name in names)
    named = re.findall(r"[^`\w-](--[a-z][a-z-]+)[ \"]", text)

    assert len(named) > 8
    assert not [option for option in named if option in in_python(f"{option} VALUE")]
