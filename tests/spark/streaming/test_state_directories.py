"""The state directory of a real query: what is found in it without Spark is what Spark has committed."""

from __future__ import annotations

import json

import pytest
from streaming_totals import Totals, totals_in

from stateshift import Savepoint
from stateshift.serializers.errors import CorruptFile
from stateshift.spark import register
from stateshift.spark.streaming.carriers import CARRIERS
from stateshift.spark.streaming.job import StreamJob
from stateshift.spark.streaming.savepoints import take_savepoint
from stateshift.spark.streaming.stored_query import committed_manifests
from stateshift.state.directory import committed_state as committed
from stateshift.state.directory.directory import StateDirectory
from stateshift.state.storage.files import Folder


def start(spark, place, carrier, **amounts):
    """One start of the query, which ends when it has processed these rows."""
    (place / "in").mkdir(exist_ok=True)
    number = len(list((place / "in").iterdir()))
    rows = (json.dumps({"user": user, "amount": amount}) for user, amount in amounts.items())
    (place / "in" / f"{number}.json").write_text("\n".join(rows), encoding="utf-8")
    df = spark.readStream.schema("user string, amount long").json(str(place / "in"))
    job = StreamJob(place / "state", place / "checkpoint", slots=2, carrier=carrier)
    sums = job.stream(df).key_by("user").process(Totals(), uid="operator")
    writer = sums.writeStream.format("parquet").option("path", str(place / "out"))
    job.start(writer, available_now=True).awaitTermination()


@pytest.mark.slow
@pytest.mark.parametrize("carrier", CARRIERS)
def test_what_is_found_is_what_spark_has_committed_and_spark_reads_it(stateshift_spark, tmp_path, carrier):
    start(stateshift_spark, tmp_path, carrier, ann=1, bob=2)
    start(stateshift_spark, tmp_path, carrier, ann=10, cy=3)

    opened = Savepoint.open(tmp_path / "state")
    directory = StateDirectory.open(Folder.at(tmp_path / "state"))
    found = committed.committed_manifests(directory, opened.query.batch)
    told = committed_manifests(stateshift_spark, Folder.at(tmp_path / "checkpoint"), directory)
    take_savepoint(tmp_path / "state", tmp_path / "savepoint")
    source = register(stateshift_spark).read.format("savepoint").option("operator", "operator")
    of_query, of_savepoint = (
        source.option("state", "total").load(str(tmp_path / place)) for place in ("state", "savepoint")
    )

    assert not found.unproven
    assert totals_in(opened) == {"ann": 11, "bob": 2, "cy": 3}
    assert sorted(one.name for one in found.manifests) == sorted(one.name for one in told)
    assert json.loads(opened.position["offsets"].splitlines()[-1]) == {"logOffset": 1}
    assert len(of_query.collect()) == 3
    assert sorted(map(str, of_query.collect())) == sorted(map(str, of_savepoint.collect()))
    assert "total" in {row["state"] for row in source.option("state", "*").load(str(tmp_path / "state")).collect()}

    newest = tmp_path / "state" / "manifests" / max(found.manifests, key=lambda one: one.batch).name
    kept = newest.read_bytes()
    newest.unlink()
    with pytest.raises(CorruptFile, match="which Spark has committed with batch 1, is missing"):
        Savepoint.open(tmp_path / "state")
    older = next(file for file in newest.parent.iterdir() if "-0-1-" in file.name)
    newest.write_bytes(older.read_bytes())
    with pytest.raises(CorruptFile, match="is not the one that Spark has committed with batch 1"):
        Savepoint.open(tmp_path / "state")
    newest.write_bytes(kept)
    assert totals_in(Savepoint.open(tmp_path / "state")) == {"ann": 11, "bob": 2, "cy": 3}
