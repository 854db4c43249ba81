"""An import of what PyFlink has and this package has not says what does the same, or why it is not there."""

from __future__ import annotations

import pytest
from docs.pyflink_page import is_here, kept

NAMES = [(module, name) for module, names in kept()["names"].items() for name in names if not is_here(module, name)]


def imported(module, name):
    exec(f"from stateshift.pyflink.{module} import {name}")  # noqa: S102 - the statement of a program


@pytest.mark.parametrize("module", sorted({module for module, _ in NAMES}))
def test_an_import_says_why(module):
    for name in (name for of, name in NAMES if of == module):
        with pytest.raises(ImportError, match=r"pyflink.*is (elsewhere here|not there): .*see docs/reference/pyflink"):
            imported(module, name)


@pytest.mark.parametrize(
    ("module", "name", "said"),
    [
        ("common", "JobClient", "JobClient of pyflink.common is not there: a program here runs in one process"),
        ("datastream.connectors.kafka", "KafkaSource", "connectors.kafka is not there: a connector of Java; on Spark"),
        ("datastream", "HashMapStateBackend", "keys of the configuration .docs/reference/configuration.md.; see"),
        ("table", "StreamTableEnvironment", "pyflink.table is not there: the Table API; a stream begins"),
        ("datastream", "DataStraem", "cannot import name 'DataStraem'"),
        ("datastraem", "DataStream", "No module named 'stateshift.pyflink.datastraem'"),
    ],
)
def test_the_reason_is_the_one_of_the_page_where_there_is_one(module, name, said):
    with pytest.raises(ImportError, match=said):
        imported(module, name)
