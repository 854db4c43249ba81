"""Variables of transformWithState that change, in both encodings: what Spark alone says, then the verdict.

One old query for each encoding; every change begins with a copy of its checkpoint. Spark's word is the class of its
error, or the value that it then reads of a key of the first batch. Where it refuses, or reads another value than was
written, the verdict is never `start`. Source: notes on Spark, 3.3.
"""

from __future__ import annotations

import re
import shutil

import attrs
import pytest
from pyspark.errors import PySparkException
from spark_queries import Stream, settings

from stateshift.serializers.errors import StateShiftError
from stateshift.spark import check_query

pytestmark = [pytest.mark.faults]

STORE = "spark.sql.streaming.stateStore."
BASE = {
    "plain": ("value", "a int, b string", (1, "x")),
    "two": ("value", "p string, q string", ("p", "q")),
    "big": ("value", "n bigint", (5,)),
    "deep": ("value", "s struct<n: int>", ((1,),)),
    "many": ("list", "n int", (1,)),
    "keyed": ("map", "n int", (1,)),
}
VALUE, KEY, TYPE = "STATE_STORE_VALUE_SCHEMA_NOT_COMPATIBLE", "STATE_STORE_KEY_SCHEMA_NOT_COMPATIBLE", "VARIABLE_TYPE"
EVOLVED, AFTER = "STATE_STORE_INVALID_VALUE_SCHEMA_EVOLUTION", "STATE_STORE_INVALID_CONFIG_AFTER_RESTART"
NULLABLE, DECODING = "TRANSFORM_WITH_STATE_SCHEMA_MUST_BE_NULLABLE", "EXPRESSION_DECODING_FAILED"
OTHER = "STREAMING_STATEFUL_OPERATOR_NOT_MATCH_IN_STATE_METADATA"


@attrs.frozen
class Query:
    """A query with variables of some kinds and types; `reads` is the one whose value it yields."""

    variables: dict = attrs.field(factory=lambda: BASE)
    reads: str = "plain"
    key: str = "a"
    map_key: str = "k string"
    ttl_ms: int | None = None
    time_mode: str = "none"
    output_mode: str = "update"
    is_pandas: bool = False
    more: str = ""

    def build(self, stream):
        from pyspark.sql.functions import col, lit
        from pyspark.sql.streaming import StatefulProcessor

        # Spark's workers get these by value: they cannot import a test.
        variables, reads, map_key, ttl_ms = self.variables, self.reads, self.map_key, self.ttl_ms
        is_pandas, more = self.is_pandas, bool(self.more)

        class Keep(StatefulProcessor):
            def init(self, handle):
                self.of, self.writes = {}, {}
                for name, (kind, schema, value) in variables.items():
                    ttl = ttl_ms if name == reads else None
                    if kind == "value":
                        self.of[name] = handle.getValueState(name, schema, ttl)
                        self.writes[name] = lambda state, value=value: state.update(value)
                    elif kind == "list":
                        self.of[name] = handle.getListState(name, schema, ttl)
                        self.writes[name] = lambda state, value=value: state.put([value])
                    else:
                        self.of[name] = handle.getMapState(name, map_key, schema, ttl)
                        key = ("k",) if map_key.endswith("string") else (1,)
                        self.writes[name] = lambda state, value=value, key=key: state.updateValue(key, value)

            def found(self):
                kind, state = variables[reads][0], self.of[reads]
                if kind == "value":
                    return str(state.get() and tuple(state.get()))
                return str([tuple(one) for one in (state.get() if kind == "list" else state.values())])

            def handleInputRows(self, key, rows, timerValues):  # noqa: N802, N803 - Spark's names
                from pyspark.sql import Row

                before = self.found()
                for name, write in self.writes.items():
                    write(self.of[name])
                if is_pandas:
                    import pandas as pd

                    yield pd.DataFrame({"k": [str(key[0])], "found": [before]})
                else:
                    yield Row(k=str(key[0]), found=before, **({"more": 1} if more else {}))

            def close(self):
                pass

        source = stream.source().select(
            (col("w").cast("int") if self.key == "number" else col(self.key)).alias("k"), lit(1)
        )
        grouped = source.groupBy("k")
        call = grouped.transformWithStateInPandas if self.is_pandas else grouped.transformWithState
        return call(Keep(), f"k string, found string{self.more}", self.output_mode, self.time_mode)


@attrs.define
class Restarted(Stream):
    """The same source, read on from a copy of its checkpoint."""

    place: object = None

    @property
    def checkpoint(self):
        return str(self.place)


def changed(name, schema, value, kind="value", **more):
    return Query({**BASE, name: (kind, schema, value)}, name, **more)


CASES = {
    # the new query, what Spark alone says of it: rows of Spark, avro; the decision on the checkpoint alone of each
    "nothing": (Query(), "(1, 'x')", "(1, 'x')", "start", "start"),
    "a field at the end": (
        changed("plain", "a int, b string, c int", (1, "x", 2)), VALUE, "(1, 'x', None)", "migrate", "start",
    ),
    "a field fewer": (changed("plain", "a int", (1,)), VALUE, "(1,)", "migrate", "migrate"),
    "another order": (changed("plain", "b string, a int", ("x", 1)), VALUE, "('x', 1)", "migrate", "start"),
    "another name": (changed("plain", "a int, c string", (1, "x")), "(1, 'x')", "(1, None)", "start", "migrate"),
    "two names exchanged": (
        changed("two", "q string, p string", ("q", "p")), "('p', 'q')", "('q', 'p')", "refuse", "start",
    ),
    "wider": (changed("plain", "a bigint, b string", (1, "x")), VALUE, "(1, 'x')", "migrate", "start"),
    "a double": (changed("plain", "a double, b string", (1.0, "x")), VALUE, "(1.0, 'x')", "migrate", "start"),
    "narrower": (changed("big", "n int", (5,)), VALUE, EVOLVED, "refuse", "refuse"),
    "a text of a number": (changed("plain", "a string, b string", ("1", "x")), VALUE, EVOLVED, "refuse", "refuse"),
    "bytes of a text": (changed("plain", "a int, b binary", (1, b"x")), VALUE, "(1, b'x')", "refuse", "refuse"),
    "a field within": (
        changed("deep", "s struct<n: int, m: int>", ((1, 2),)),
        VALUE, "(Row(n=1, m=None),)", "migrate", "start",
    ),
    "a field of an element": (
        changed("many", "n int, m int", (1, 2), "list"), VALUE, "[(1, None)]", "migrate", "start",
    ),
    "a field of a map": (changed("keyed", "n int, m int", (1, 2), "map"), VALUE, "[(1, None)]", "migrate", "start"),
    "the key of a map": (changed("keyed", "n int", (1,), "map", map_key="k int"), KEY, KEY, "refuse", "refuse"),
    "the type of the group": (Query(key="number"), KEY, KEY, "refuse", "refuse"),
    "a variable more": (Query({**BASE, "new": ("value", "n int", (1,))}), "(1, 'x')", "(1, 'x')", "start", "start"),
    "a variable fewer": (
        Query({name: one for name, one in BASE.items() if name != "big"}), "(1, 'x')", "(1, 'x')", "refuse", "refuse",
    ),
    "another kind": (changed("plain", "a int, b string", (1, "x"), "list"), TYPE, TYPE, "refuse", "refuse"),
    "a time to live": (Query(ttl_ms=3_600_000, time_mode="processingTime"), VALUE, AFTER, "refuse", "refuse"),
    "no nulls": (changed("plain", "a int not null, b string", (1, "x")), "(1, 'x')", NULLABLE, "start", NULLABLE),
    "another time mode": (Query(time_mode="processingTime"), AFTER, AFTER, "refuse", "refuse"),
    "another output mode": (Query(output_mode="append"), AFTER, AFTER, "refuse", "refuse"),
    "another result": (Query(more=", more int"), "(1, 'x')", "(1, 'x')", "start", "start"),
    "by frames": (Query(is_pandas=True), OTHER, OTHER, "refuse", "refuse"),
}  # fmt: skip


def said(stream, query):
    """Return what Spark reads of a key of the first batch, or the class of its error."""
    try:
        rows = stream.run(query.build(stream), query.output_mode)
    except PySparkException as error:
        known = [one for one in (VALUE, KEY, TYPE, EVOLVED, AFTER, NULLABLE, DECODING, OTHER) if one in str(error)]
        return known[0] if known else "|".join(re.findall(r"\[([A-Z_.]+)\]", str(error)))
    return dict(row[:2] for row in rows).get("x")


def decision(saved, writer):
    """Return the verdict of the check; Spark does not even plan some queries."""
    try:
        return str(check_query(saved, writer).decision)
    except StateShiftError as error:
        return next(one for one in (NULLABLE,) if one in str(error))


@pytest.mark.parametrize("encoding", ["avro", "unsaferow"])
def test_spark_and_the_check_on_every_change_of_variables_spk_3_to_19(stateshift_spark, tmp_path, encoding):
    given = {
        STORE + "providerClass": "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider",
        STORE + "encodingFormat": encoding,
        "spark.sql.streaming.noDataMicroBatches.enabled": "false",
        "spark.sql.shuffle.partitions": "1",
    }
    found, expected = {}, {}
    with settings(stateshift_spark, **given):
        first = Stream(stateshift_spark, tmp_path / "first")
        first.rows(("x", "p", 1), ("y", "q", 2))
        first.run(Query().build(first))
        saved = first.saved()
        first.rows(("x", "p", 1))
        for number, (name, (query, *spark, of_rows, of_avro)) in enumerate(CASES.items()):
            stream = Restarted(stateshift_spark, first.folder, place=tmp_path / str(number))
            shutil.copytree(saved, stream.place)
            verdict = decision(saved, stream.writer(query.build(stream), mode=query.output_mode))
            found[name] = (said(stream, query), verdict)
            expected[name] = (spark[encoding == "avro"], of_avro if encoding == "avro" else of_rows)

    assert found == expected
