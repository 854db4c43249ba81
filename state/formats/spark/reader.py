"""`SparkCheckpoint`: read access to the state of a Spark query after its last committed batch.

checkpoint = SparkCheckpoint.open("/data/checkpoints/clicks")
for store in checkpoint.operators[0].stores:
    for block in store.blocks():
        print(block.key, block.value)

Nothing is changed, and neither the query nor Spark is needed.
"""

from __future__ import annotations

from functools import cached_property
from itertools import chain
from typing import TYPE_CHECKING, Any, ClassVar

import attrs

from ....compat.description import Computation, JobDescription, OperatorDescription
from ....compat.plain_data import fields_of
from ....compat.queries.description import describe_query_operator, describe_store
from ....compat.queries.kinds import OF_VARIABLES, derived_from
from ....serializers.errors import (
    CorruptFile,
    LibraryNotFound,
    SavepointNotFound,
    StateNotFound,
    UnsupportedFormat,
    located,
)
from ....serializers.wording import many, repr_of
from ...rocksdb.database import require_library
from ...storage.files import Folder
from .checksums import crc32c, read_checked
from .families import SCHEMAS, Family, families_of
from .logs import BatchLog, read_logs
from .operators import DEFAULT_STORE, METADATA, OperatorFacts, StoreFacts, read_operators
from .rocksdb_files import DatabaseFiles, Databases
from .schema_files import KeyLayout, read_schema
from .store_files import PartitionFiles

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterator, Sequence
    from datetime import datetime

    import pyarrow as pa

    from ....compat.description import StateDescription
    from ....compat.profiles import Profile
    from ....serializers.spark_rows.spark_types import StoreSchema
    from ...progress import Progress
    from .chosen_rows import ChosenRows
    from .store_files import Entries


PREFIX = "spark:"
DEFAULT_PROVIDER, ROCKSDB = "HDFSBackedStateStoreProvider", "RocksDBStateStoreProvider"
PROVIDERS = (DEFAULT_PROVIDER, ROCKSDB)


@attrs.frozen
class Block:
    """Some entries of a store, by columns.

    Attributes:
        partition: The number of the partition.
        key: The keys.
        value: The values.
        stored_keys: The bytes of the keys, as they are stored.
        stored_values: The bytes of the values, where all entries of the partition are read.
    """

    partition: int
    key: pa.StructArray
    value: pa.StructArray
    stored_keys: Sequence[bytes] = attrs.field(repr=False)
    stored_values: Sequence[bytes] = attrs.field(default=(), repr=False)


@attrs.frozen
class PartitionSize:
    """The number of entries of a partition, and the bytes of their keys and values."""

    entries: int
    size_bytes: int


@attrs.frozen(slots=False)
class SparkStore:
    """A state store of an operator, or a column family of it. Schema and entries are read when they are first needed.

    Attributes:
        folder: The folder of the operator.
        facts: What the operator's metadata says of the store.
        log: The batches of the query.
        operator: The number of the operator.
        family: The column family; None: the store is one.
        databases: The partitions in RocksDB, which the column families of a store share.
        chosen: The entries that are read; None: all.
    """

    folder: Folder = attrs.field(repr=False)
    facts: StoreFacts
    log: BatchLog = attrs.field(repr=False)
    operator: int
    family: Family | None = None
    databases: Databases = attrs.field(factory=Databases, eq=False, repr=False)
    chosen: ChosenRows | None = attrs.field(default=None, eq=False, repr=False)

    is_empty: ClassVar[bool] = False
    """Whether it is known without reading that it has no entries."""

    def __repr__(self) -> str:
        return repr_of(self, f"{self.name} of operator {self.operator}")

    @property
    def name(self) -> str:
        """The name of the store, or of the column family."""
        return self.facts.name if self.family is None else self.family.name

    @property
    def kind(self) -> str:
        """What an entry is: a `value`, an element of a `list`, one of a `map`, of `timers`, or of an `index`."""
        return "value" if self.family is None else self.family.kind

    @property
    def is_index(self) -> bool:
        """Whether it follows from other stores."""
        return self.kind == "index"

    @property
    def unsupported(self) -> str:
        """Why this release does not read the entries, or ""."""
        planned = self.log.last
        if planned is not None and planned.provider not in {DEFAULT_PROVIDER, ROCKSDB}:
            known = f"{DEFAULT_PROVIDER} and {ROCKSDB}"
            return f"entries of {planned.provider} are not read by this release, only those of {known}"
        if planned is not None and planned.provider == ROCKSDB:
            try:
                require_library()
            except LibraryNotFound as error:
                return f"{error.what}: {error.advice}"
        if self.family is None and not self._partition(0).exists(f"{METADATA}/schema"):
            return "the store has no schema file of a kind that this release reads"
        return ""

    @property
    def description(self) -> StateDescription | None:
        """What a check compares; None: its types are not known."""
        return None if self.schema is None else describe_store(self.name, self.kind, self.schema)

    @property
    def sql_types(self) -> dict[str, str]:
        """The types of keys and values, as SQL spells them; none if they are not known."""
        schema = self.schema
        return {} if schema is None else {"key": schema.key.describe(), "value": schema.value.describe()}

    @cached_property
    def schema(self) -> StoreSchema | None:
        """The types of keys and values; None where there is no schema file of a kind that this release reads.

        Raises:
            CorruptFile: The file is damaged.
        """
        if self.family is not None:
            return self.family.schema
        partition, name = self._partition(0), f"{METADATA}/schema"
        if not partition.exists(name):
            return None
        label = f"{self._label(0)}/{name}"
        with located(file=label):
            return read_schema(read_checked(partition, name), label)

    @property
    def partitions(self) -> int:
        """The number of partitions with files.

        A limit and an aggregate of all rows have one key and so one partition, whatever their metadata says.
        """
        schema = self.schema
        has_one_key = schema is not None and all(field.type.word == "void" for field in schema.key.fields)
        return min(self.facts.partitions, 1) if has_one_key else self.facts.partitions

    def measure(self) -> tuple[PartitionSize, ...]:
        """Count the entries of each partition, without decoding them.

        Raises:
            SavepointNotFound: A file is missing.
            CorruptFile: A file is damaged.
        """
        sizes = []
        for partition in range(self.partitions):
            if self.family is not None:
                is_empty = self.log.committed is None
                found = (0, 0) if is_empty else self._database(partition).size_of(self.family.name)
                sizes.append(PartitionSize(*found))
                continue
            entries = size = 0
            for keys, values in self.stored_blocks(partition):
                entries += len(keys)
                size += sum(map(len, keys)) + sum(map(len, values))
            sizes.append(PartitionSize(entries, size))
        return tuple(sizes)

    def blocks(self) -> Iterator[Block]:
        """Yield all entries, partition by partition, in blocks of some MiB, decoded; errors as in `blocks_of`."""
        for partition in self.read_partitions:
            yield from self.blocks_of(partition)

    @property
    def read_partitions(self) -> Sequence[int]:
        """The partitions that are read: those that may have the chosen entries, or all."""
        chosen = None if self.chosen is None else self.chosen.partitions
        return range(self.partitions) if chosen is None else sorted(chosen)

    def blocks_of(self, partition: int) -> Iterator[Block]:
        """Yield the entries of a partition in blocks of some MiB, decoded.

        Raises:
            SavepointNotFound: A file is missing.
            CorruptFile: A file is damaged.
            UnsupportedFormat: The entries are of a kind that this release does not read.
            LibraryNotFound: numpy is not installed.
        """
        if self.unsupported or self.schema is None:
            raise UnsupportedFormat(
                self.unsupported, operator=self.operator, state=self.name, advice="leave out the state"
            )
        try:
            decode = self._decoder()
        except ModuleNotFoundError as error:
            raise LibraryNotFound(
                f"entries are decoded with a library that is not installed: {error.name}",
                advice="pip install 'stateshift[spark]'",
            ) from error
        for keys, values in self.stored_blocks(partition):
            with located(file=self._label(partition), operator=self.operator, state=self.name):
                key, value = decode(keys, values)
            block = Block(partition, key, value, keys, values)
            yield block if self.chosen is None else self.chosen.among(block)

    def _decoder(self) -> Callable[[Sequence[bytes], Sequence[bytes]], tuple[pa.StructArray, pa.StructArray]]:
        """Return the function that decodes keys and values."""
        from ....serializers.spark_rows.rows import decode_rows

        schema, planned, family = self.require_schema(), self.log.last, self.family
        if planned is None or planned.provider != ROCKSDB:
            return lambda keys, values: (decode_rows(keys, schema.key), decode_rows(values, schema.value))
        from .layouts import RowEncoding

        encoding = RowEncoding(family.writers if family is not None and planned.encoding == "avro" else None)
        layout = self.key_layout
        return lambda keys, values: (
            encoding.decode_keys(keys, schema.key, layout),
            encoding.decode_values(values, schema.value),
        )

    def require_schema(self) -> StoreSchema:
        """Return the types of keys and values.

        Raises:
            UnsupportedFormat: There are none that this release reads.
            CorruptFile: As `schema`.
        """
        if self.schema is None:
            raise UnsupportedFormat.before_writing(
                self.unsupported or "its types are not read by this release",
                operator=self.operator,
                state=self.name,
                advice="start the new query with a new checkpoint",
            )
        return self.schema

    @property
    def arrow_schema(self) -> pa.Schema:
        """The types of keys and values as those of Arrow; raises as `require_schema`."""
        import pyarrow as pa

        from ....serializers.spark_rows.rows import decode_rows

        stored = self.require_schema()
        return pa.schema(
            [(name, decode_rows([], of).type) for name, of in (("key", stored.key), ("value", stored.value))]
        )

    @property
    def key_layout(self) -> KeyLayout:
        """The layout of keys in RocksDB; without column families, those of session windows have a prefix."""
        if self.family is not None:
            return self.family.layout
        schema, columns = self.schema, self.facts.prefix_columns
        if columns is None and schema is not None and schema.key.names[-1:] == ("sessionStartTime",):
            columns = len(schema.key.fields) - 1  # before Spark 4.0
        return KeyLayout.of_prefix(columns or 0)

    def stored_blocks(self, partition: int) -> Iterator[Entries]:
        """Yield the keys and values of a partition as they are stored, in blocks of some MiB.

        Raises:
            SavepointNotFound: A file is missing.
            CorruptFile: A file is damaged.
        """
        committed, planned = self.log.committed, self.log.last
        if committed is None or planned is None:
            return iter(())
        if planned.provider == ROCKSDB:
            return self._database(partition).blocks("" if self.family is None else self.family.name)
        files = self._files(partition)
        assert isinstance(files, PartitionFiles)  # noqa: S101 - of the other provider
        return files.blocks()

    def count(self, partition: int) -> int:
        """Return the number of entries of a partition; errors as for its entries."""
        planned, is_alone = self.log.last, self.family is None
        if is_alone and planned is not None and planned.provider == ROCKSDB and self.log.committed is not None:
            return self._database(partition).count()
        return sum(len(keys) for keys, _ in self.stored_blocks(partition))

    def files(self, partition: int) -> tuple[str, ...]:
        """Return the names of the files that are the last committed version of a partition; errors as for its entries.

        Column families of one store have the same files.
        """
        committed, planned = self.log.committed, self.log.last
        if committed is None or planned is None:
            return ()
        files = self._files(partition)
        return files.files if isinstance(files, DatabaseFiles) else files.names

    @property
    def lacks_checksums(self) -> bool:
        """Whether files of the last committed version could be damaged so that they read as other values.

        Of Spark's codecs only lz4 has checksums.
        """
        committed, planned = self.log.committed, self.log.last
        if committed is None or planned is None or planned.codec == "lz4":
            return False
        if planned.has_row_checksums and crc32c() is not None:
            return False
        return any(self._files(partition).without_sums for partition in range(self.partitions))

    def unique_id(self, partition: int) -> str:
        """Return the id in the names of a partition's files, "" with checkpoint format 1."""
        ids = {*self.log.ids_of(self.operator, partition)}
        return self._database(partition).unique_id if len(ids) > 1 else "".join(ids)

    def _files(self, partition: int) -> DatabaseFiles | PartitionFiles:
        committed, planned = self.log.committed, self.log.last
        assert committed is not None  # noqa: S101 - checked by the caller
        assert planned is not None  # noqa: S101 - as above
        if planned.provider == ROCKSDB:
            return self._database(partition)
        return PartitionFiles.of_version(
            self._partition(partition), self._label(partition), committed + 1, has_checksums=planned.has_row_checksums
        )

    def _database(self, partition: int) -> DatabaseFiles:
        committed, planned = self.log.committed, self.log.last
        assert committed is not None  # noqa: S101 - checked by the caller
        assert planned is not None  # noqa: S101 - as above
        if partition not in self.databases.of:
            self.databases.of[partition] = DatabaseFiles(
                self._partition(partition),
                self._label(partition),
                committed + 1,
                self.log.ids_of(self.operator, partition),
                planned.has_row_checksums,
                planned.delimiter,
                self.databases.lists,
            )
        return self.databases.of[partition]

    def _partition(self, partition: int) -> Folder:
        folder = self.folder.folder(str(partition))
        return folder if self.facts.name == DEFAULT_STORE else folder.folder(self.facts.name)

    def _label(self, partition: int) -> str:
        store = "" if self.facts.name == DEFAULT_STORE else f"/{self.facts.name}"
        return f"state/{self.operator}/{partition}{store}"


@attrs.frozen
class SparkOperator:
    """A stateful operator of a query, with its stores."""

    facts: OperatorFacts
    stores: tuple[SparkStore, ...] = attrs.field(repr=False)

    is_of_spark: ClassVar[bool] = True
    has_state: ClassVar[bool] = True
    size_bytes: ClassVar[int | None] = None
    """Files of several operators' stores may be one: only the bytes of entries are known."""
    unreadable: ClassVar[str] = ""
    """Each store says by itself why it is not read."""

    def __repr__(self) -> str:
        return repr_of(self, f"{self.title}: {', '.join(store.name for store in self.stores)}")

    @property
    def number(self) -> int:
        """Its number in the query."""
        return self.facts.number

    @property
    def kind(self) -> str:
        """The kind of the operator, as a query's author calls it."""
        return self.facts.kind

    @property
    def title(self) -> str:
        """The operator in messages."""
        return f"{self.number} ({self.kind})"

    @property
    def heading(self) -> str:
        """The operator as the heading of what is said of it."""
        name = self.facts.name
        return f"operator {self.number}: {self.kind}" + (f" ({name})" if name not in {"", self.kind} else "")

    @property
    def states(self) -> tuple[SparkStore, ...]:
        """Its stores."""
        return self.stores

    @property
    def description(self) -> OperatorDescription:
        """The description for a compatibility check; the operator is known by its kind and number, as Spark has them.

        Its states are all stores but those that follow from others; a query goes on from those that are not forgotten.
        """
        schemas, unreadable = {}, ""
        for store in self.stores:
            if store.schema is None:
                unreadable = f"{store.name}: {store.unsupported or 'its types are not read by this release'}"
            elif store not in self.forgotten:
                schemas[store.name] = store.schema
        states = (store.description for store in self.stores if not store.is_index)
        return attrs.evolve(
            describe_query_operator(Computation(self.number, self.kind, schemas, modes=self.facts.modes), unreadable),
            name=self.facts.name,
            states=tuple(one for one in states if one is not None),
            parallelism=max((store.partitions for store in self.stores), default=0),
        )

    def own_facts(self, *, is_damaged: bool, foreign: int | None) -> dict[str, Any]:
        """Return what only operators of Spark's queries have, as plain data."""
        return fields_of(self.facts, "number kind properties")

    @property
    def forgotten(self) -> tuple[SparkStore, ...]:
        """The stores of variables that an older version of the query had, and what follows from them."""
        if self.kind not in OF_VARIABLES:
            return ()
        gone = {one.name for one in self.stores if not one.is_index and one.name not in self.facts.variables}
        return tuple(one for one in self.stores if one.name in gone or derived_from(one.name) in gone)

    def index(self, name: str) -> SparkStore:
        """Return a column family that follows from another one.

        Raises:
            CorruptFile: The schema file does not describe it.
        """
        for store in self.stores:
            if store.name == name:
                return store
        raise CorruptFile(
            f"a schema file is damaged: it has no column family {name!r}, which follows from one that it has",
            file=f"state/{self.number}/{SCHEMAS}",
            operator=self.title,
        )

    def state(self, name: str) -> SparkStore:
        """Return a store by name.

        Raises:
            StateNotFound: There is no such store.
        """
        for store in self.stores:
            if store.name == name:
                return store
        names = ", ".join(store.name for store in self.stores) or "none"
        raise StateNotFound(f"the operator has no store {name!r}; it has: {names}", operator=self.title)


@attrs.frozen
class SparkCheckpoint:
    """A checkpoint of a Spark query, which is only read. Created with `open`.

    Attributes:
        folder: The folder of the checkpoint.
        log: Its batches.
        operators: The stateful operators, by number.
    """

    folder: Folder
    log: BatchLog
    operators: tuple[SparkOperator, ...] = attrs.field(repr=False)

    def __repr__(self) -> str:
        batch = f"after batch {self.log.committed}" if self.log.committed is not None else "before its first batch"
        told = f"{self.place}: {many(len(self.operators), 'operator')}, {batch}"
        return repr_of(self, told, *(f"operator {one.title}" for one in self.operators))

    def _repr_html_(self) -> str:
        from ....compat.pages.description import description_pieces
        from ....compat.pages.rendering import fragment

        batch = "none" if self.log.committed is None else f"{self.log.committed:,}"
        facts = [("written by", "Spark"), ("last committed batch", batch)]
        return fragment(description_pieces(self.describe(), "checkpoint", self.place, facts))

    written_by: ClassVar[str] = "Spark"
    is_of_spark: ClassVar[bool] = True
    """Whether its operators are Spark's own."""

    @classmethod
    def open(cls, place: str | os.PathLike[str]) -> SparkCheckpoint:
        """Open a checkpoint: read its logs and the metadata of its operators; entries are read later.

        Args:
            place: A local path, or a URI of any store (s3:, gs:, hdfs:); `spark:` may stand before it.

        Raises:
            SavepointNotFound: The folder is no checkpoint of a Spark query.
            CorruptFile: A file is damaged.
            UnsupportedFormat: A newer Spark wrote it.
        """
        return cls.of(Folder.at(str(place).removeprefix(PREFIX)))

    @classmethod
    def of(cls, folder: Folder, batch: int | None = None) -> SparkCheckpoint:
        """Open the checkpoint in a folder; raises as `open`.

        Args:
            folder: The folder.
            batch: A committed batch, after which the state is read; None: the last one.
        """
        with located(savepoint=folder.place, checkpoint=folder.place):
            if not (folder.exists("metadata") and folder.exists("offsets")):
                raise SavepointNotFound(
                    f"there is no checkpoint of a Spark query in {folder.place}: metadata or offsets is missing",
                    advice="name the folder that the query has as its checkpointLocation",
                )
            log = read_logs(folder, batch)
            state = folder.folder("state")
            operators = tuple(
                SparkOperator(
                    facts, tuple(chain.from_iterable(_stores(state, facts, one, log) for one in facts.stores))
                )
                for facts in read_operators(folder, log.committed)
            )
            return cls(folder, log, operators)

    @property
    def place(self) -> str:
        """The place of the checkpoint."""
        return self.folder.place

    @property
    def where(self) -> dict[str, Any]:
        """Where an error is."""
        return {"savepoint": self.place, "checkpoint": self.place}

    def own_facts(self) -> dict[str, Any]:
        """Return what only checkpoints of Spark's queries have, as plain data."""
        planned = self.log.last
        return {
            **fields_of(self.log, "query_id committed unfinished watermark_ms format provider=last.provider"),
            "sources": [] if planned is None else [fields_of(one, "name offset=text") for one in planned.sources],
            "settings": {} if planned is None else dict(planned.settings),
        }

    def describe(self) -> JobDescription:
        """Return the stateful operators, with types and without what stands in them."""
        last = self.log.last
        return JobDescription(
            f"Spark checkpoint {self.place}",
            tuple(operator.description for operator in self.operators),
            sources=() if last is None else tuple(source.name for source in last.sources),
            settings={} if last is None else last.settings,
        )

    def profile(
        self,
        *,
        operator: str | None = None,
        state: str | None = None,
        reference_time: datetime | None = None,
        progress: Callable[[Progress], None] = lambda _: None,
    ) -> Profile:
        """Return what the entries are: how many, how large, how old, of which keys and values; found in one pass.

        Args:
            operator: The number or kind of an operator; None: all.
            state: The name of a store; None: all.
            reference_time: The time at which values with TTL have expired or not; None: now.
            progress: Called with the progress.

        Raises:
            StateNotFound: There is no such operator or store.
            DeclarationError: The reference time has no time zone.
            CorruptFile, SavepointNotFound, UnsupportedFormat, LibraryNotFound: As `SparkStore.blocks_of`.
        """
        from ...profiles.savepoint_profile import profile  # Arrow and numpy are not needed for most work

        return profile(self, operator=operator, state=state, reference_time=reference_time, progress=progress)

    @property
    def partitions(self) -> int:
        """The number of partitions of the query's state."""
        return max((store.facts.partitions for one in self.operators for store in one.stores), default=0)

    def operator(self, name: str) -> SparkOperator:
        """Return an operator by its number, or by its kind where no other has that.

        Raises:
            StateNotFound: There is no such operator, or several are of that kind.
        """
        found = [one for one in self.operators if name in {str(one.number), one.kind, one.facts.name}]
        if len(found) != 1:
            known = ", ".join(one.title for one in self.operators) or "none"
            what = f"{len(found)} operators are {name!r}" if found else f"there is no operator {name!r}"
            raise StateNotFound(f"{what}; there are: {known}", savepoint=self.place, checkpoint=self.place)
        return found[0]


def _stores(state: Folder, facts: OperatorFacts, store: StoreFacts, log: BatchLog) -> Iterator[SparkStore]:
    """Yield a store, or its column families if it has them."""
    folder = state.folder(str(facts.number))
    families = families_of(folder, facts, store) if store.schemas else (None,)
    databases = Databases(frozenset(one.name for one in families if one is not None and one.is_list))
    yield from (SparkStore(folder, store, log, facts.number, family, databases) for family in families)
