"""Ways out: data, which the command line and Python put into words."""

from __future__ import annotations

import shlex

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from stateshift import MigrationOptions, Policy, Repartition, parse_edits
from stateshift.compat.gate.losses import Guard
from stateshift.compat.queries.changes import FieldChanges
from stateshift.serializers.errors import StateShiftError, error_text
from stateshift.serializers.ways_out import Does, Option, Told, WayOut, by_migration, in_python, on_command_line

NAMES = {each.__name__: each for each in (MigrationOptions, Policy, Repartition, parse_edits, Guard, FieldChanges)} | {
    "old_query": None,
    "function": len,
}


def passed(*told):
    """The arguments that Python's words for options have."""
    return eval(f"dict({in_python(WayOut('with', told)).removeprefix('with ')})", dict(NAMES))  # noqa: S307 - our own text


NAME = st.text(st.characters(exclude_categories=["C", "Z"]), min_size=1)


@given(NAME)
@example(",")
@example("a,")
@example("'\"")
@example("{}")
def test_a_name_is_the_same_in_python_as_on_the_command_line(name):
    way = WayOut.telling("if it is meant to start empty:", Option.ALLOW_EMPTY, name)

    assert ["--allow-empty", name] == shlex.split(on_command_line(way).partition("empty: ")[2])
    assert {"options": MigrationOptions(policy=Policy(allow_empty=[name]))} == passed(*way.told)


@pytest.mark.parametrize(
    ("told", "words", "arguments"),
    [
        (
            [(Option.RENAME_STATE, "a b", "c")],
            "--rename-state 'a b=c'",
            {"edits": parse_edits(rename_states=["a b=c"])},
        ),
        ([(Option.RENAME_UID, 'a"', "b")], "--rename-uid 'a\"=b'", {"edits": parse_edits(rename_uids=['a"=b'])}),
        ([(Option.DROP, "op/a")], "--drop op/a", {"edits": parse_edits(drop=["op/a"])}),
        ([(Option.CONVERT, "op/a")], "--convert op/a", {"edits": parse_edits(convert=["op/a"])}),
        ([(Option.TRUST, "a.B"), (Option.TRUST, "c.D")], "--trust a.B --trust c.D", {"trust": ("a.B", "c.D")}),
        ([(Option.TRUST_STORED_SERIALIZERS,)], "--trust-stored-serializers", {"trust_stored_serializers": True}),
        ([(Option.REPARTITION,)], "--repartition", {"repartition": Repartition()}),
        (
            [(Option.REPARTITION,), (Option.MAX_PARALLELISM, 8)],
            "--repartition --max-parallelism 8",
            {"repartition": Repartition(max_parallelism=8)},
        ),
        (
            [(Option.MERGE, "a", "module:function")],
            "--merge a=module:function",
            {"repartition": Repartition(merge={"a": len})},
        ),
        (
            [(Option.NO_SOURCE_DIGESTS,), (Option.PARALLELISM, 4), (Option.MAX_BAD_VALUES, 9)],
            "--no-source-digests --parallelism 4 --max-bad-values 9",
            {"source_digests": False, "parallelism": 4, "max_bad_values": 9},
        ),
    ],
)
def test_options_of_savepoints_are_arguments_of_one_object(told, words, arguments):
    told = [Told.of(*each) for each in told]

    assert words == " ".join(map(str, told))
    assert {"options": MigrationOptions(**arguments)} == passed(*told)


@pytest.mark.parametrize(
    ("told", "words", "arguments"),
    [
        ([(Option.MAP, 0, 1), (Option.MAP, 2, "")], "--map 0:1 --map 2:", {"operators": {0: 1, 2: None}}),
        ([(Option.ACCEPT, "SPK-13")], "--accept SPK-13", {"accept": ("SPK-13",)}),
        (
            [(Option.FILL, 0, "value.c", "null")],
            "--fill 0:value.c=null",
            {"changes": {0: FieldChanges(fills={"value.c": None})}},
        ),
        (
            [
                (Option.RENAME_FIELD, 0, "value.a", "value.b"),
                (Option.KEEP_FIELD, 0, "value.c"),
                (Option.FILL, 3, "value.d", 0),
            ],
            "--rename-field 0:value.a=value.b --keep-field 0:value.c --fill 3:value.d=0",
            {
                "changes": {
                    0: FieldChanges(renames={"value.b": "value.a", "value.c": "value.c"}),
                    3: FieldChanges(fills={"value.d": 0}),
                }
            },
        ),
        (
            [(Option.CONVERT_FIELD, 0, "key.k", "module:function"), (Option.MERGE_FIELD, 0, "value.n", "sum")],
            "--convert-field 0:key.k=module:function --merge-field 0:value.n=sum",
            {"changes": {0: FieldChanges(converters={"key.k": len}, merges={"value.n": "sum"})}},
        ),
        (
            [(Option.TTL, 0, "count", 3_600_000), (Option.DROP_VARIABLE, 0, "total")],
            "--ttl 0:count=3600000 --drop-variable 0:total",
            {"changes": {0: FieldChanges(ttls={"count": "3600000"}, drops=["total"])}},
        ),
    ],
)  # fmt: skip
def test_options_of_spark_queries_are_arguments_of_the_migration(told, words, arguments):
    told = [Told.of(*each) for each in told]

    assert words == " ".join(map(str, told))
    assert arguments == passed(*told)


@pytest.mark.parametrize("option", Option)
def test_each_option_is_in_the_words_of_both(option):
    told = Told.of(option, *("0", "a", "1") if option is Option.FILL else ("0", "a", "b"))

    assert option.value in on_command_line(WayOut("so:", (told,)))
    assert "--" not in in_python(WayOut("so:", (told,)))


def test_what_is_only_mentioned_is_named_as_its_argument():
    way = WayOut("leave out", (Told(Option.CONVERT),))

    assert ("leave out --convert", "leave out convert") == (on_command_line(way), in_python(way))


def test_examples_are_told_one_by_one():
    told = Told.of(Option.FILL, 0, "value.c", 0), Told.of(Option.MAP, 0, 1), Told.of(Option.MAP, 0, "")
    way = WayOut("such as", told, is_choice=True, more=" to drop it")

    assert "such as --fill 0:value.c=0 (JSON; null for none), --map 0:1 or --map 0: to drop it" == on_command_line(way)
    assert (
        'such as changes={0: FieldChanges(fills={"value.c": 0})}, operators={0: 1} or operators={0: None} to drop it'
        == in_python(way)
    )


def test_the_command_is_of_the_command_line_alone():
    way = WayOut("migrate a copy:", (), Does.MIGRATE, command="stateshift migrate spark:a spark:b")

    assert "migrate a copy: stateshift migrate spark:a spark:b" == on_command_line(way)
    assert "migrate a copy" == in_python(way)


def test_an_error_is_told_in_the_words_of_the_caller():
    error = StateShiftError(
        "it fails", advice=(by_migration(), WayOut.telling("if you trust it:", Option.TRUST, "a.B"))
    )

    assert 'migrate the state; or if you trust it: options=MigrationOptions(trust=("a.B",))' in str(error)
    assert "migrate the state; or if you trust it: --trust a.B" in error_text(error, on_command_line)
