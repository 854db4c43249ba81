"""Shapes of state: what lies in the savepoint, as Arrow tables, and a savepoint of as many entries as are wanted.

The savepoint is written by the project's own encoder of columns, without Spark: one operator, 128 key groups, and as
many streams as are wanted. Rows are made by a seed, so the same number of entries gives the same bytes.
"""

from __future__ import annotations

import importlib
import itertools
from collections.abc import Callable
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs
import numpy as np
import pyarrow as pa

from stateshift.compat.targets import Target
from stateshift.state.columnar.bootstrap import StateColumns
from stateshift.state.columnar.new_savepoint import NewSavepoint
from stateshift.state.columnar.row_sources import resolve
from stateshift.state.columnar.row_streams import NewOperator, RowCount, write_streams
from stateshift.state.columnar.rows import ENCODED_ROWS, RowEncoder
from stateshift.state.storage.files import Folder

from . import sql_rows
from .states_before import STATE, UID, Side, Totals

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stateshift import Job

KEY_GROUPS = 128
REFERENCE_TIME_S = 1_800_000_000
"""The stamp of values that get a time to live, in seconds since 1970 UTC."""
_LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_ "
_TEXTS = 1 << 16
_ELEMENTS = 5

Numbers = np.ndarray[Any, np.dtype[np.int64]]
Table = Callable[[np.random.Generator, Numbers], dict[str, Any]]


@attrs.frozen
class Shape:
    """One kind of state and its change.

    Attributes:
        name: As in tables and `--shapes`.
        title: What it is.
        table: Gives the columns of some entries, from a random generator and their numbers.
        columns: Which of these become key, user key and value; none: the table has encoded entries.
        stored_as: The shape whose savepoint serves it as well.
        is_avro: Whether values are plain Avro binary.
        rows: Rows of the table for each entry: the elements of a list.
        at_once: How many entries are made at a time.
    """

    name: str
    title: str
    table: Table
    columns: dict[str, Any]
    stored_as: str = ""
    is_avro: bool = False
    rows: int = 1
    at_once: int = 200_000

    @property
    def stored(self) -> str:
        """The name of the shape that tells what the savepoint holds."""
        return self.stored_as or self.name

    def before(self) -> Job:
        """The job that left the savepoint."""
        return job_of("states_before", self.stored)

    def after(self) -> Job:
        """The job that wants it otherwise."""
        return job_of("states_after", self.name)


def job_of(module: str, shape: str) -> Job:
    """Load the job of a shape."""
    job: Job = getattr(importlib.import_module(f"{__package__}.{module}"), shape.upper())
    return job


def write_savepoint(
    shape: Shape, entries: int, place: Path, *, parallelism: int = 1, seed: int = 2, key_groups: int = KEY_GROUPS
) -> None:
    """Write the savepoint of a shape. Its rows wait in a file beside it to be sorted, and not in memory.

    Args:
        shape: What lies in it.
        entries: How many.
        place: A folder that is not there.
        parallelism: Number of streams.
        seed: Of the values.
        key_groups: Their number.
    """
    job, folder = shape.before(), Folder.at(place)
    operator = NewOperator.of(job.operators[0], parallelism, key_groups)
    assert operator is not None  # noqa: S101 - it has keyed state
    folder.create()
    rows_file = place.with_suffix(".rows")
    with _kept(_encoded(shape, job, entries, seed, key_groups), rows_file) as batches:
        results = list(write_streams(_by_key_group(batches, key_groups), {0: operator}, folder))
    rows_file.unlink()
    rows = sum((result.rows[0] for result in results), start=RowCount())
    new = NewSavepoint(job, [], key_groups, parallelism, Target.ANY)
    new.publish(folder, {0: operator}, results, {(0, 0): rows})


def _encoded(shape: Shape, job: Job, entries: int, seed: int, key_groups: int) -> Iterator[pa.RecordBatch]:
    """Give encoded rows, each batch sorted by key group; all rows of a key are in one batch."""
    random = np.random.default_rng(seed)
    encoder: RowEncoder | None = None
    for first in range(0, entries, shape.at_once):
        numbers = np.arange(first, min(first + shape.at_once, entries), dtype=np.int64)
        table = shape.table(random, np.repeat(numbers, shape.rows))
        if not shape.columns:
            yield _sorted(_complete(table))
            continue
        batch = pa.RecordBatch.from_pydict(table)
        if encoder is None:
            source = StateColumns(UID, STATE, **shape.columns)
            encoder = RowEncoder(resolve(job, [(source, batch.schema)])[0], key_groups, _no_rows)
        for rows in encoder.encode([batch]):
            yield _sorted(rows)


def _sorted(rows: pa.RecordBatch) -> pa.RecordBatch:
    return rows.take(pa.array(np.argsort(rows.column("key_group").to_numpy(), kind="stable")))


def _complete(entries: dict[str, Any]) -> pa.RecordBatch:
    """Give encoded entries of the one state of the one operator as rows."""
    count = len(entries["key"])
    zeros, nothing = pa.array(np.zeros(count, np.int32)), pa.nulls(count, pa.binary())
    same = {"operator": zeros, "state": zeros, "place": [b""] * count, "error": nothing}
    return pa.RecordBatch.from_pydict(same | entries, schema=ENCODED_ROWS)


def _no_rows(_: Any) -> Any:
    raise NotImplementedError("columns are encoded by blocks, and not by rows")


@contextmanager
def _kept(batches: Iterator[pa.RecordBatch], file: Path) -> Iterator[list[pa.RecordBatch]]:
    """Write batches to a file, and give them as they lie there: what is read of them the system may take again."""
    first = next(batches)
    with pa.OSFile(str(file), "wb") as sink, pa.ipc.new_file(sink, first.schema) as writer:
        for batch in itertools.chain([first], batches):
            writer.write_batch(batch)
    with pa.memory_map(str(file)) as source, pa.ipc.open_file(source) as reader:
        yield [reader.get_batch(index) for index in range(reader.num_record_batches)]


def _by_key_group(batches: list[pa.RecordBatch], key_groups: int) -> Iterator[pa.RecordBatch]:
    """Merge batches, each of which is sorted by key group."""
    edges = [np.searchsorted(one.column("key_group").to_numpy(), np.arange(key_groups + 1)) for one in batches]
    for group, (batch, edge) in itertools.product(range(key_groups), zip(batches, edges, strict=True)):
        if edge[group] < edge[group + 1]:
            yield batch.slice(edge[group], edge[group + 1] - edge[group])


def _texts(random: np.random.Generator, count: int, shortest: int, longest: int, *, other: float = 0.0) -> pa.Array:
    """Give texts of letters and digits, a share `other` of them with an accent and a Chinese character at the end."""
    drawn = "".join(_LETTERS[index] for index in random.integers(len(_LETTERS), size=_TEXTS + longest))
    lengths = random.integers(shortest, longest + 1, size=_TEXTS)
    ends = np.where(random.random(_TEXTS) < other, "é語", "")
    pool = [
        drawn[at : at + length - len(end)] + end
        for at, (length, end) in enumerate(zip(lengths.tolist(), ends.tolist(), strict=True))
    ]
    return pa.array(pool).take(pa.array(random.integers(_TEXTS, size=count)))


def _or_null(random: np.random.Generator, values: pa.Array, share: float = 0.3) -> pa.Array:
    kept = random.random(len(values)) >= share
    return pa.compute.if_else(pa.array(kept), values, None)


def _text_keys(numbers: Numbers) -> pa.Array:
    return pa.compute.binary_join_element_wise("u", pa.array(numbers * 17).cast(pa.string()), "-")


def _record(random: np.random.Generator, count: int) -> dict[str, pa.Array]:
    """The record: ids of mixed magnitudes, so that varints have mixed lengths; three of ten tags are null."""
    bits = 8 + 5 * (np.arange(count) % 9)
    return {
        "active": pa.array(random.random(count) < 0.5),
        "amount": pa.array(random.random(count) * 1e6),
        "count": pa.array(random.integers(-100, 65_436, size=count, dtype=np.int32)),
        "id": pa.array((random.random(count) * 2.0**bits).astype(np.int64)),
        "name": _texts(random, count, 8, 20),
        "tag": _or_null(random, _texts(random, count, 3, 10)),
    }


def _s1(random: np.random.Generator, numbers: Numbers) -> dict[str, pa.Array]:
    count = len(numbers)
    first = pa.array(random.integers(-(2**31), 2**31, size=count, dtype=np.int64).astype(np.int32))
    second = pa.array(random.integers(-(2**63), 2**63, size=count, dtype=np.int64, endpoint=False))
    return {"key": pa.array(numbers * 7919), "value": pa.StructArray.from_arrays([first, second], ["_0", "_1"])}


def _s2(random: np.random.Generator, numbers: Numbers) -> dict[str, pa.Array]:
    return {"key": _text_keys(numbers)} | _record(random, len(numbers))


def _wide(random: np.random.Generator, numbers: Numbers) -> dict[str, pa.Array]:
    """The record with a tag of a thousand letters: a gigabyte for each million entries."""
    return _s2(random, numbers) | {"tag": _texts(random, len(numbers), 900, 1100)}


def _s3(random: np.random.Generator, numbers: Numbers) -> dict[str, pa.Array]:
    columns = _record(random, len(numbers))
    value = pa.StructArray.from_arrays(list(columns.values()), list(columns))
    return {"key": _text_keys(numbers), "value": value}


def _map(random: np.random.Generator, numbers: Numbers) -> dict[str, pa.Array]:
    """Five entries a key."""
    item = pa.compute.binary_join_element_wise("item", pa.array(numbers % _ELEMENTS).cast(pa.string()), "-")
    return {"key": pa.array(numbers // _ELEMENTS * 7919), "item": item} | _record(random, len(numbers))


def _list(random: np.random.Generator, numbers: Numbers) -> dict[str, pa.Array]:
    """Five elements a key."""
    count = len(numbers)
    return {"key": pa.array(numbers * 7919), "place": pa.array(np.arange(count))} | _record(random, count)


def _nested(random: np.random.Generator, numbers: Numbers) -> dict[str, pa.Array]:
    count = len(numbers)
    customer = pa.StructArray.from_arrays(
        [
            _texts(random, count, 4, 12, other=0.05),
            _texts(random, count, 8, 20, other=0.05),
            pa.array(random.integers(0, 1000, size=count, dtype=np.int32)),
        ],
        ["city", "name", "visits"],
    )
    return {
        "key": _text_keys(numbers),
        "customer": customer,
        "id": pa.array(numbers),
        "note": _or_null(random, _texts(random, count, 3, 30, other=0.05)),
        "total": pa.array(random.random(count) * 1e4),
    }


def _side(random: np.random.Generator, numbers: Numbers) -> dict[str, pa.Array]:
    """Five fields of a side of a join; a tenth of the texts is null."""
    count = len(numbers)
    return {
        "customer": pa.array(random.integers(-100, 65_436, size=count, dtype=np.int32)),
        "id": pa.array(numbers),
        "item": _or_null(random, _texts(random, count, 3, 20), 0.1),
        "price": pa.array(random.random(count) * 1e4),
        "time": pa.array(random.integers(1 << 40, 1 << 41, size=count)),
    }


def _totals(random: np.random.Generator, numbers: Numbers) -> dict[str, pa.Array]:
    """Five accumulators."""
    count = len(numbers)
    return {
        "count": pa.array(random.integers(1, 1000, size=count)),
        "highest": pa.array(random.random(count) * 1e4),
        "paid": pa.array(random.integers(1, 1 << 40, size=count)),
        "seen": pa.array(random.integers(1, 1 << 20, size=count)),
        "units": pa.array(random.integers(-100, 65_436, size=count, dtype=np.int32)),
    }


def _of_sql(make: Callable[..., dict[str, Any]], columns: Table, **more: object) -> Table:
    return lambda random, numbers: make(columns(random, numbers), numbers, KEY_GROUPS, **more)


SHAPES = {
    shape.name: shape
    for shape in (
        Shape("S1", "a tuple of two numbers, one widened", _s1, {"key_by": "key", "value": "value"}),
        Shape("S2", "a POJO: dropped, widened, added, renamed", _s2, {"key_by": "key"}),
        Shape("S2n", "a POJO: dropped and added, as far as Flink goes", _s2, {"key_by": "key"}, stored_as="S2"),
        Shape("wide", "as S2n, a thousand letters a value", _wide, {"key_by": "key"}, at_once=50_000),
        Shape("S3", "plain Avro binary, as S2", _s3, {"key_by": "key", "value": "value"}, is_avro=True),
        Shape("map", "map state of S2's POJOs", _map, {"key_by": "key", "user_key": "item"}),
        Shape(
            "list",
            "list state, five of S2's POJOs a key",
            _list,
            {"key_by": "key", "order_by": "place"},
            rows=_ELEMENTS,
        ),
        Shape("nested", "a POJO in a POJO, 5 % of the texts not ASCII", _nested, {"key_by": "key"}),
        Shape("ttl", "as S2, and TTL is switched on", _s2, {"key_by": "key"}, stored_as="S2"),
        Shape("join", "rows of SQL that a join counts", _of_sql(sql_rows.sides, _side, counted=True), {}),
        Shape("side", "rows of SQL by key", _of_sql(sql_rows.sides, _side), {}),
        Shape("record", "a POJO of these fields, by a row", _of_sql(sql_rows.records, _side, of=Side), {}),
        Shape("counted", "these POJOs as keys of a map", _of_sql(sql_rows.records, _side, of=Side, counted=True), {}),
        Shape("aggregate", "five accumulators of SQL", _of_sql(sql_rows.totals, _totals), {}),
        Shape("totals", "a POJO of these fields, by a row", _of_sql(sql_rows.records, _totals, of=Totals), {}),
    )
}
