"""The column families of an operator's store in RocksDB: the variables of transformWithState, or the sides of a join.

Variables have the names that the processor has for them. Beside them Spark keeps families whose names begin with `$`:
timers by key, and indexes, which follow from the others: timers by time, keys by the end of their time to live, the
length of lists. A join of state format 4 has an index of its rows by time. Source: `TTLState`, `TimerStateImpl` and
`SymmetricHashJoinStateManager` of Spark 4.3.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from ....compat.queries.kinds import TIMERS
from ....serializers.errors import CorruptFile, SavepointNotFound
from .checksums import read_checked
from .schema_files import ColumnFamily, KeyLayout, read_families

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ....serializers.spark_rows.spark_types import SparkType, StoreSchema
    from ...storage.files import Folder
    from .operators import OperatorFacts, StoreFacts

SCHEMAS = "_stateSchema"
_INTERNAL = "$"
_KINDS = {"ValueState": "value", "ListState": "list", "MapState": "map"}
_ROWS_OF_JOINS, _INDEX_OF_JOINS = "-keyWithTsToValues", "-tsWithKey"
_COUNTED_APART = ("-keyToNumValues", _INDEX_OF_JOINS)


@attrs.frozen
class Family:
    """A column family.

    Attributes:
        name: Its name.
        kind: What an entry is: a `value`, an element of a `list`, one of a `map`, of `timers`, or of an `index`.
        schema: The types of keys and values.
        layout: How keys are laid out.
        is_list: Whether a stored value consists of several.
        writers: The types of stored values by their ids, which they have with avro.
    """

    name: str
    kind: str
    schema: StoreSchema
    layout: KeyLayout
    is_list: bool
    writers: Mapping[int, SparkType] = attrs.field(repr=False)

    @property
    def is_internal(self) -> bool:
        """Whether Spark counts its entries apart: it made the family for itself."""
        return self.name.startswith(_INTERNAL) or self.name.endswith(_COUNTED_APART)


def families_of(folder: Folder, facts: OperatorFacts, store: StoreFacts) -> tuple[Family, ...]:
    """Return the column families of a store: variables first, indexes last, each kind by name.

    Args:
        folder: The folder of the operator.
        facts: What its metadata says of it.
        store: What its metadata says of the store.

    Raises:
        SavepointNotFound: A schema file is missing.
        CorruptFile: A schema file is damaged.
        UnsupportedFormat: A newer Spark wrote it.
    """
    labels: dict[str, str] = {}
    latest: dict[str, ColumnFamily] = {}
    writers: dict[str, dict[int, SparkType]] = {}
    place = folder.folder(SCHEMAS).folder(store.name)
    for name in store.schemas:
        label = f"state/{facts.number}/{SCHEMAS}/{store.name}/{name}"
        if not place.exists(name):
            raise SavepointNotFound(
                "a schema file that the operator's metadata names is missing", file=label,
                advice="take the whole folder of the checkpoint; a copy or a download may be incomplete",
            )  # fmt: skip
        for one in read_families(read_checked(place, name), label):
            latest[one.name] = one
            labels[one.name] = label
            writers.setdefault(one.name, {})[one.value_id] = one.schema.value
    found = [_family(one, facts.variables, writers[one.name]) for one in latest.values()]
    for family in found:
        _require_shape(family, facts, labels[family.name])
    return tuple(sorted(found, key=lambda one: (one.kind == "index", one.name.startswith(_INTERNAL), one.name)))


def _require_shape(one: Family, facts: OperatorFacts, file: str) -> None:
    """Raise `CorruptFile` unless a family has the parts of its kind: two of a key, or a value and its deadline."""
    parts = {"map": "a grouping key and a key of its own", "timers": "a grouping key and a time"}
    if one.kind in parts and len(one.schema.key.fields) != 2:
        what = f"the key of {one.name!r} is not {parts[one.kind]}"
    elif one.name in facts.expiring and len(one.schema.value.fields) != 2:
        what = f"the value of {one.name!r} is not a value and its deadline"
    else:
        return
    raise CorruptFile(f"a schema file is damaged, or the metadata of its operator: {what}", file=file)


def _family(one: ColumnFamily, variables: Mapping[str, str], writers: Mapping[int, SparkType]) -> Family:
    kind = _KINDS.get(variables.get(one.name, ""), "value")
    is_index_of_rows = one.name.endswith(_INDEX_OF_JOINS)
    if one.name in TIMERS:
        kind = "timers"
    elif one.name.startswith(_INTERNAL) or is_index_of_rows:
        kind = "index"
    elif one.name.endswith(_ROWS_OF_JOINS):
        kind = "list"
    return Family(one.name, kind, one.schema, one.layout, kind == "list" or is_index_of_rows, writers)
