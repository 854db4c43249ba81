"""The entries of a store, compared with those that should be there.

Each entry becomes a text (`texts`), whose digest is added to a sum by partition and bucket, a part of the keys.
The sums are all that is held, and do not depend on the order of entries. Where they differ, the entries of some buckets
are compared one by one, and the first keys are named: at most about 100,000 entries are held, or those of one bucket.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import TYPE_CHECKING

import attrs
import numpy as np
import pyarrow as pa
from xxhash import xxh3_64_intdigest, xxh3_128_intdigest

from ....serializers.errors import CorruptFile, shown
from ....serializers.spark_rows.json_values import json_values
from ....serializers.wording import many
from ...formats.spark.partitioning import partitions_of
from .expected_entries import Rows, odd_keys
from .texts import texts_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from ....serializers.spark_rows.spark_types import SparkType
    from ...formats.spark.reader import SparkStore
    from .expected_entries import Source

    Sums = dict[tuple[int, int], int]
    """The sum of the digests of rows, by partition and bucket."""

_BUCKETS = 256
"""The parts of the keys of a partition of which sums are compared: what differs is looked for in these alone."""
_MOST_COMPARED, _MOST_NAMED = 100_000, 3
_MASK = (1 << 128) - 1
_ODD = b"!"
"""Before the text of a key that is stored in odd bytes; no text begins so."""


@attrs.frozen
class Table:
    """A store of the copy, and what should be in it.

    Attributes:
        store: The store.
        expected: Yields the entries that should be there.
        kind: The kind of its operator.
        unknown: What is not known of its entries: the paths of fields, and from where they were.
        fields: These fields, by their numbers: those of keys, those of values.
        grouping: Where a field of the keys is not known, what has the partition of a key.
    """

    store: SparkStore
    expected: Source
    kind: str
    unknown: dict[str, str]
    fields: tuple[frozenset[int], frozenset[int]]
    grouping: SparkType | None = None

    @property
    def where(self) -> str:
        """The store in words."""
        return f"operator {self.store.operator} ({self.kind}), {self.store.name}"

    def should(self) -> Iterator[Rows]:
        """Yield the entries that should be there; where keys are not known, they are of no partition."""
        for one in self.expected():
            yield one if self.grouping is None else attrs.evolve(one, partition=np.zeros_like(one.partition))

    def found(self) -> Iterator[Rows]:
        """Yield the entries that are there.

        Raises:
            CorruptFile: A key that is not known again lies where Spark does not look for it.
        """
        for block in self.store.blocks():
            partition = np.full(len(block.key), block.partition, np.int64)
            if self.grouping is not None:
                if (partitions_of(block.key, self.grouping, self.store.partitions) != partition).any():
                    raise CorruptFile(f"keys of partition {block.partition} belong to others")
                partition = np.zeros_like(partition)
            yield Rows(block.key, block.value, partition, odd_keys(self.store, block))

    def digested(self, rows: Iterable[Rows]) -> Iterator[tuple[Rows, list[bytes], list[int]]]:
        """Yield rows, the texts of their keys, and the digest of each row; of a list its place counts, too."""
        last, place = (-1, b""), 0
        for one in rows:
            keys = texts_of(_kept(one.key, self.fields[0]))
            if one.odd is not None:
                keys = [_ODD + key if is_odd else key for key, is_odd in zip(keys, one.odd, strict=True)]
            texts = [key + value for key, value in zip(keys, texts_of(_kept(one.value, self.fields[1])), strict=True)]
            if self.store.kind == "list":
                for at, pair in enumerate(zip(one.partition.tolist(), keys, strict=True)):
                    place = place + 1 if pair == last else 0
                    last = pair
                    texts[at] += b"%d" % place
            yield one, [*keys], [*map(xxh3_128_intdigest, texts)]


def _kept(column: pa.StructArray, without: frozenset[int]) -> pa.Array:
    if not without:
        return column
    kept = [column.field(at) for at in range(column.type.num_fields) if at not in without]
    fields = [pa.field(str(at), one.type) for at, one in enumerate(kept)]
    return pa.Array.from_buffers(pa.struct(fields), len(column), [None], children=kept)


@attrs.define
class Side:
    """The sums of one side of a store.

    Attributes:
        counts: The entries of each partition.
        sums: The sums of digests, modulo 2^128.
    """

    counts: Counter[int] = attrs.field(factory=Counter)
    sums: Sums = attrs.field(factory=lambda: defaultdict(int))

    def add(self, rows: Rows, keys: list[bytes], digests: list[int]) -> None:
        """Add rows as `Table.digested` yields them."""
        partitions = rows.partition.tolist()
        self.counts.update(partitions)
        sums = self.sums
        for partition, key, digest in zip(partitions, keys, digests, strict=True):
            sums[partition, _bucket(key)] += digest

    def differing(self, other: Side) -> list[tuple[int, int]]:
        """Return the partitions and buckets whose sums differ."""
        found = sorted({*self.sums, *other.sums})
        return [at for at in found if (self.sums.get(at, 0) - other.sums.get(at, 0)) & _MASK]


def _bucket(key: bytes) -> int:
    return xxh3_64_intdigest(key) % _BUCKETS


def differences(table: Table, should: Side, there: Side) -> Iterator[str]:
    """Yield the differences of the first keys, and whether there are others."""
    differing = should.differing(there)
    if not differing:
        return
    wanted = _few(differing, max(sum(one.counts.values()) for one in (should, there)), table.store.partitions)
    sides = [_by_key(table.digested(rows), wanted) for rows in (table.should(), table.found())]
    wrong = [
        key for key in dict.fromkeys([*sides[0], *sides[1]]) if Counter(sides[0].get(key)) != Counter(sides[1].get(key))
    ]
    names = _names(table, wrong[:_MOST_NAMED])
    for key in wrong[:_MOST_NAMED]:
        yield f"{names.get(key, 'a key')}: {_difference(*(side.get(key, []) for side in sides))}"
    if len(wrong) > _MOST_NAMED or len(wanted) < len(differing):
        yield "and others"


def _few(differing: list[tuple[int, int]], entries: int, partitions: int) -> set[tuple[int, int]]:
    """Return as many of the differing places as can be held: whole buckets, as a key may lie in a wrong partition."""
    by_bucket: dict[int, list[tuple[int, int]]] = {}
    for place in differing:
        by_bucket.setdefault(place[1], []).append(place)
    each, found = entries / (_BUCKETS * partitions), set[tuple[int, int]]()
    for places in by_bucket.values():
        if found and (len(found) + len(places)) * each > _MOST_COMPARED:
            break
        found.update(places)
    return found


def _by_key(
    digested: Iterable[tuple[Rows, list[bytes], list[int]]], wanted: set[tuple[int, int]]
) -> dict[bytes, list[tuple[int, int]]]:
    """Return partition and digest of each entry in some places, by the text of its key."""
    found: dict[bytes, list[tuple[int, int]]] = defaultdict(list)
    for rows, keys, digests in digested:
        for at, key, digest in zip(rows.partition.tolist(), keys, digests, strict=True):
            if (at, _bucket(key)) in wanted:
                found[key].append((at, digest))
    return found


def _names(table: Table, wanted: list[bytes]) -> dict[bytes, str]:
    """Return some keys as they are shown, by their texts; the sides are read until all are found."""
    names: dict[bytes, str] = {}
    schema = table.store.require_schema()
    for side in (table.should, table.found):
        for rows, keys, _ in table.digested(side()):
            new = {key: number for number, key in enumerate(keys) if key in wanted and key not in names}
            if new:
                found = json_values(rows.take(np.asarray([*new.values()], np.int64)).key, schema.key)
                for key, name in zip(new, found, strict=True):
                    names[key] = shown(name) + (" in other bytes than Spark looks for" if key.startswith(_ODD) else "")
            if len(names) == len(wanted):
                return names
    return names


def _difference(should: Sequence[tuple[int, int]], there: Sequence[tuple[int, int]]) -> str:
    """Return in words how the entries of a key differ."""
    if not there:
        return "it is missing"
    if not should:
        return "it should not be there"
    places = sorted({one for one, _ in should}), sorted({one for one, _ in there})
    if places[0] != places[1]:
        belongs, lies = (", ".join(map(str, one)) for one in places)
        return f"it is in partition {lies}, and belongs to {belongs}"
    if len(should) != len(there):
        return f"it has {many(len(there), 'entry', 'entries')}, and should have {len(should):,}"
    return "its value is another one"
