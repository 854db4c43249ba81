"""Avro's own checker and reader in Java, of the jar that comes with Spark, about what the rules say of schemas."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pyspark
import pytest
from avro_schemas import field, record
from flink_jars import Unavailable, find_jdk
from serializer_fixtures import ask_about

from stateshift import AvroSerializer, DeclarationError

PROGRAM = Path(__file__).parent / "avro-of-java" / "Resolve.java"
A, B = field("a", "int"), field("b", "int")
NAME, EMAIL = field("name", "string"), field("email", "string")


@pytest.fixture(scope="module")
def java():
    """`java(old, new, value)`: what the checker says of the two schemas, and what is read of the value."""
    try:
        jdk = find_jdk()
    except Unavailable as error:
        pytest.skip(str(error))

    def resolve(old, new, value):
        jars = Path(pyspark.__file__).parent / "jars" / "*"
        command = [jdk / "java", "-cp", jars, PROGRAM, *map(json.dumps, (old, new, value))]
        ran = subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=120, check=True)
        judged, _, read = ran.stdout.strip().partition("\t")
        return judged, read

    return resolve


@pytest.mark.parametrize(
    ("old", "new", "value", "words"),
    [
        (
            [NAME, EMAIL],
            [{**NAME, "aliases": ["email"]}, {**EMAIL, "aliases": ["name"]}],
            {"name": "N", "email": "E"},
            "matches multiple fields",
        ),
        ([A], [A, {**B, "default": 0, "aliases": ["a"]}], {"a": 7}, "missing required field a"),
        (
            [A],
            [{**B, "aliases": ["a"]}, field("c", "int", default=0, aliases=["a"])],
            {"a": 7},
            "missing required field b",
        ),
    ],
    ids=["swapped", "alias of a name", "alias of two"],
)
def test_av_2_aliases_that_collide_are_refused_by_us_and_by_java(java, old, new, value, words):
    """Java's checker raises, or calls compatible what its reader then refuses."""
    old, new = record("R", *old), record("R", *new)

    with pytest.raises(DeclarationError, match="alias"):
        ask_about(AvroSerializer(new), AvroSerializer(old))
    assert words in " ".join(java(old, new, value))


def test_av_2_java_takes_an_alias_for_the_name(java):
    """So that a field which has the stored name and a default gets the default: we refuse the two that collide."""
    new = record("R", {**A, "default": -1}, {**B, "default": 0, "aliases": ["a"]})

    assert ("COMPATIBLE", '{"a": -1, "b": 7}') == java(record("R", A), new, {"a": 7})


@pytest.mark.parametrize(
    ("old", "new", "value"),
    [
        (["null", "int"], "string", {"int": 7}),
        (["int", record("A")], record("B"), {"int": 7}),
    ],
)
def test_av_3_kinds_of_problems_are_javas(java, old, new, value):
    kinds = [word.partition(" ")[0].lower() for word in java(old, new, value)[0].split(",")]

    result = ask_about(AvroSerializer(new), AvroSerializer(old))

    reasons = [finding.reason for finding in result.findings if finding.verdict.label == "incompatible"]
    assert all(kind in reason for kind, reason in zip(kinds, reasons, strict=True))
