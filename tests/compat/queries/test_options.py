"""Options of sources: which are compared, and that no credential is kept."""

from __future__ import annotations

import json

import pytest

from stateshift.compat.queries.options import options_of, without_credentials


@pytest.mark.parametrize(
    ("kind", "given", "of_rows", "unknown"),
    [
        ("csv", {"nullValue": "-", "maxFilesPerTrigger": "1", "path": "/data"}, {"nullvalue": "-"}, {}),
        ("csv", {"delimiter": ";", "HEADER": "True"}, {"sep": ";", "header": "true"}, {}),
        ("csv", {"multiLine": "False", "mode": "PERMISSIVE", "sep": ","}, {}, {}),
        ("json", {"pathGlobFilter": "*.json", "nullValue": "-"}, {"pathglobfilter": "*.json"}, {"nullvalue": "-"}),
        ("kafka", {"subscribe": "a", "startingOffsets": "earliest"}, {"subscribe": "a"}, {}),
        ("kafka", {"kafka.bootstrap.servers": "h:9092"}, {}, {"kafka.bootstrap.servers": "h:9092"}),
        ("rate", {"rowsPerSecond": "3", "numPartitions": "2"}, {"rowspersecond": "3"}, {}),
        ("jdbc", {"dbtable": "users", "fetchsize": "9"}, {"dbtable": "users"}, {}),
        ("theirs", {"limit": "9"}, {}, {"limit": "9"}),
    ],
)
def test_options_are_those_of_rows_those_without_effect_and_unknown_ones(kind, given, of_rows, unknown):
    assert (of_rows, unknown) == options_of(kind, given)


@pytest.mark.parametrize(
    ("kind", "given"),
    [
        ("kafka", {"kafka.sasl.jaas.config": 'Login required username="me" password="hidden";'}),
        ("kafka", {"kafka.ssl.truststore.location": "hidden", "kafka.ssl.keystore.password": "hidden"}),
        ("kafka", {"kafka.bootstrap.servers": "sasl://me:hidden@h:9092"}),
        ("jdbc", {"user": "hidden", "password": "hidden", "url": "jdbc:postgresql://me:hidden@h/db?password=hidden"}),
        ("jdbc", {"url": "jdbc:oracle:thin:me/hidden@//h:1521/db"}),
        ("jdbc", {"url": "jdbc:sqlserver://h;databaseName=db;user=hidden;password=hidden"}),
        ("theirs", {"eventhubs.connectionString": "Endpoint=sb://h/;SharedAccessKey=hidden"}),
        ("theirs", {"place": "Endpoint=sb://h/;SharedAccessKey=hidden", "fs.s3a.access.key": "hidden"}),
        ("json", {"path": "s3a://KEY:hidden@bucket/a", "basePath": "s3a://KEY:hidden@bucket/a"}),
        ("json", {"basePath": "wasbs://c@h/a?sig=hidden", "sas": "hidden"}),
    ],
)
def test_no_credential_is_kept(kind, given):
    kept = json.dumps(options_of(kind, given))

    assert "hidden" not in kept
    assert "KEY" not in kept


@pytest.mark.parametrize(
    ("place", "expected"),
    [
        ("/data/a?b*", "/data/a?b*"),
        ("FileSource[s3a://KEY:secret@bucket/a]", "FileSource[s3a://…@bucket/a]"),
        ("FileSource[abfss://container@account/a]", "FileSource[abfss://container@account/a]"),
        ("jdbc:postgresql://h/db?sslmode=off&app=x", "jdbc:postgresql://h/db&app=x"),
        ("jdbc:oracle:thin:me/secret@//h:1521/db", "jdbc:oracle:thin://h:1521/db"),
        ("jdbc:derby:memory:x;create=true", "jdbc:derby:memory:x;create=true"),
    ],
)
def test_a_place_keeps_what_is_no_credential(place, expected):
    assert expected == without_credentials(place)
