"""The table of Java classes of SQL types, `java_classes.json`, is what Java says of real Flink's."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from sql_jobs import SqlJobs

from stateshift import serializers

TABLE = Path(serializers.__file__).parent / "sql" / "java_classes.json"


@pytest.mark.parametrize("release", ["2.3", "1.20"])
def test_the_table_is_what_java_says_of_flink(flink, tmp_path, release):
    told = SqlJobs(flink(release), tmp_path).tell("JavaClasses")

    if os.environ.get("STATESHIFT_RECORD") and release == "2.3":
        TABLE.write_text(told, encoding="utf-8")
    assert json.loads(TABLE.read_text(encoding="utf-8")) == json.loads(told)
