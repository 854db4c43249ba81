"""Real Flink restores state that was bootstrapped from DataFrames, with the contents of the rows."""

from __future__ import annotations

import importlib
import sys

import pytest

from stateshift import (
    Int32,
    Job,
    ListStateDescriptor,
    MapStateDescriptor,
    Operator,
    StateSource,
    Target,
    ValueStateDescriptor,
    bootstrap,
)


@pytest.fixture(scope="module")
def examples(root):
    """Import a module of the examples: `examples("accounts_v3")`."""
    sys.path.insert(0, str(root / "examples"))
    yield importlib.import_module
    sys.path.remove(str(root / "examples"))


ACCOUNT = "struct<id: bigint, name: string, visits: bigint, score: double, email: string>"


def accounts(expected, state, rows_of):
    """Rows of a state of the operator account-state, from what Flink itself read back."""
    operator = next(o for o in expected["operators"] if state in o["keyed"])
    return [row for key, value in operator["keyed"][state]["entries"] for row in rows_of(key, value)]


def fields(value):
    found = value["$pojo"]["fields"]
    return tuple(found[name] for name in ("id", "name", "visits", "score", "email"))


@pytest.fixture(scope="module")
def bootstrapped(spark, examples, expected_of, tmp_path_factory):
    """The accounts as version 3 of the class has them, from DataFrames."""
    expected = expected_of("hashmap-account-v1", file="flink-migrated-to-v2.json")
    one = spark.createDataFrame(
        [(key, *fields(account)) for key, account in accounts(expected, "account", lambda k, v: [(k, v)])],
        "key bigint, id bigint, name string, visits bigint, score double, email string",
    )
    many = spark.createDataFrame(
        accounts(expected, "accounts", lambda k, v: [(k, at, fields(one)) for at, one in enumerate(v)]),
        f"key bigint, at int, account {ACCOUNT}",
    )
    named = spark.createDataFrame(
        accounts(expected, "account-by-name", lambda k, v: [(k, name, fields(one)) for name, one in v["$map"]]),
        f"key bigint, name string, account {ACCOUNT}",
    )
    free = spark.createDataFrame(accounts(expected, "version-free", lambda k, v: [(k, v)]), "key bigint, value bigint")
    place = tmp_path_factory.mktemp("bootstrapped") / "accounts"
    bootstrap(
        place,
        examples("accounts_v3").job,
        [
            StateSource("account-state", "account", one.repartition(3), key_by="key"),
            StateSource("account-state", "accounts", many, key_by="key", order_by="at", value="account"),
            StateSource("account-state", "account-by-name", named, key_by="key", user_key="name", value="account"),
            StateSource("account-state", "version-free", free, key_by="key", value="value"),
        ],
        parallelism=2,
        restore_target=Target.FLINK,
    )
    return place, expected


@pytest.mark.parametrize(("backend", "parallelism"), [("hashmap", 1), ("rocksdb", 3)])
def test_bootstrapped_accounts_are_restored_by_the_job_of_version_3(
    flink_restore, same_contents, bootstrapped, backend, parallelism
):
    place, expected = bootstrapped
    keyed = [o for o in expected["operators"] if "account" in o["keyed"]]

    restored = flink_restore(place, scenario="account", evo=3, backend=backend, parallelism=parallelism)
    restored["operators"] = [o for o in restored.get("operators", []) if o["keyed"]]

    assert same_contents({**expected, "operators": keyed}, restored) == []


FLIGHTS = Job(
    [
        Operator(
            "aircraft",
            key=str,
            states=[
                ValueStateDescriptor("aircraft", tuple[str, Int32, int]),
                MapStateDescriptor("destinations", str, Int32),
                ListStateDescriptor("delays", Int32),
            ],
        ),
        Operator(
            "flights",
            key=tuple[str, int, int],
            states=[ValueStateDescriptor("flight", tuple[str, str, str, Int32, Int32 | None])],
        ),
    ]
)


@pytest.fixture(scope="module")
def flights(spark, examples, tmp_path_factory):
    """The flights of known aircraft as a DataFrame, and as rows."""
    pytest.importorskip("pyarrow.parquet")
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

    table = examples("flights_history").read_flights()
    table = table.filter(pc.is_valid(table["tailnum"]))
    file = tmp_path_factory.mktemp("flights") / "flights.parquet"
    pq.write_table(table, file)
    return spark.read.parquet(str(file)), table.to_pylist()


def test_all_flights_bootstrapped_for_flink_are_there_in_flink(flink_restore, flights, tmp_path):
    from pyspark.sql import functions as f

    table, rows = flights
    totals = table.groupBy("tailnum").agg(f.struct(f.max("carrier"), f.count("*"), f.sum("distance")).alias("total"))
    visits = table.groupBy("tailnum", "dest").agg(f.count("*").alias("visits"))
    late = table.where("arr_delay is not null")
    legs = table.withColumn("flight_", f.struct("tailnum", "origin", "dest", "distance", "arr_delay"))
    bootstrap(
        tmp_path / "flights",
        FLIGHTS,
        [
            StateSource("aircraft", "aircraft", totals, key_by="tailnum", value="total"),
            StateSource("aircraft", "destinations", visits, key_by="tailnum", user_key="dest", value="visits"),
            StateSource("aircraft", "delays", late, key_by="tailnum", order_by=["at", "carrier", "flight"],
                        value="arr_delay"),
            StateSource("flights", "flight", legs, key_by=["carrier", "flight", "at"], value="flight_"),
        ],
        parallelism=2,
        restore_target=Target.FLINK,
    )  # fmt: skip

    restored = flink_restore(tmp_path / "flights")

    assert restored["status"] == "restored", restored.get("causes")
    states = {name: state["entries"] for o in restored["operators"] for name, state in o["keyed"].items()}
    expected = expected_of_flights(rows)
    assert {name: len(found) for name, found in expected.items()} == {n: len(found) for n, found in states.items()}
    for name, entries in states.items():
        found = {plain(key): plain(value) for key, value in entries}
        assert expected[name] == found, name


def plain(value):
    """Values of Flink's JSON, hashable."""
    if isinstance(value, dict) and "$map" in value:
        return frozenset((key, item) for key, item in value["$map"])
    if isinstance(value, dict):
        return tuple(plain(item) for item in value["$tuple"])
    return tuple(value) if isinstance(value, list) else value


def expected_of_flights(rows):
    """The states by key, from the flights and nothing else."""
    totals, visits, delays, flights = {}, {}, {}, {}
    for row in sorted(rows, key=lambda row: (row["at"], row["carrier"], row["flight"])):
        key = row["tailnum"]
        carrier, count, miles = totals.get(key, ("", 0, 0))
        totals[key] = (max(carrier, row["carrier"]), count + 1, miles + row["distance"])
        places = visits.setdefault(key, {})
        places[row["dest"]] = places.get(row["dest"], 0) + 1
        if row["arr_delay"] is not None:
            delays.setdefault(key, []).append(row["arr_delay"])
        flight = (key, row["origin"], row["dest"], row["distance"], row["arr_delay"])
        flights[row["carrier"], row["flight"], row["at"]] = flight
    return {
        "aircraft": totals,
        "destinations": {key: frozenset(found.items()) for key, found in visits.items()},
        "delays": {key: tuple(found) for key, found in delays.items()},
        "flight": flights,
    }
