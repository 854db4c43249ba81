"""What PyFlink has and this package has not, by module: what does the same here, or why it is not there.

An import of such a name, or of such a module, is an error that says so. The page of PyFlink's names is made of it, too.
"""

from __future__ import annotations

import re
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator
    from importlib.machinery import ModuleSpec

PAGE = "docs/reference/pyflink.md of stateshift"

JAVA = "a part of PyFlink's bridge to Java"
NO_CLUSTER = "a program here runs in one process, or as a query of Spark: there is no cluster"
NO_ASYNC = "functions are called one after the other"
CONNECTOR = "a connector of Java; on Spark: a source and a sink of Spark"
FORMAT = "a format of Java; on Spark: a source and a sink of Spark"
OWN = "a part of PyFlink's own runtime"
SETTINGS = "[keys of the configuration](configuration.md)"

ELSEWHERE = {
    "common.serializer": {
        "TypeSerializer": "`stateshift.TypeSerializer`, whose methods take views, and which has a snapshot",
        "VoidNamespaceSerializer": "the type hint `stateshift.VoidNamespace`",
    },
    "datastream.checkpoint_storage": {
        "CheckpointStorage FileSystemCheckpointStorage": "`stateshift.open_checkpoints`, or " + SETTINGS
    },
    "datastream.externalized_checkpoint_retention": {"ExternalizedCheckpointRetention": SETTINGS},
    "datastream.state_backend": {
        "EmbeddedRocksDBStateBackend HashMapStateBackend": SETTINGS,
        "PredefinedOptions": "`stateshift.RocksDBOptionsFactory`, or " + SETTINGS,
    },
}
"""Module -> names, and what does the same. A module that re-exports a name of another one need not be named."""

NOT = {
    "common": {
        "CompletableFuture ConfigOption ConfigOptions": JAVA,
        "InputDependencyConstraint JobClient JobID JobStatus": NO_CLUSTER,
        "RestartStrategies RestartStrategyConfiguration": NO_CLUSTER,
        "AssignerWithPeriodicWatermarksWrapper": JAVA,
    },
    "common.completable_future": {"*": JAVA},
    "common.config_options": {"*": JAVA},
    "common.input_dependency_constraint": {"*": NO_CLUSTER},
    "common.io": {"*": JAVA},
    "common.job_client": {"*": NO_CLUSTER},
    "common.job_id": {"*": NO_CLUSTER},
    "common.job_status": {"*": NO_CLUSTER},
    "common.restart_strategy": {"*": NO_CLUSTER},
    "common.serialization": {
        "BulkWriterFactory RowDataBulkWriterFactory RowFieldExtractorSchema": CONNECTOR,
        "SerializationSchema DeserializationSchema ByteArraySchema": CONNECTOR,
    },
    "common.typeinfo": {
        "BasicArrayTypeInfo BasicType BasicTypeInfo DateTypeInfo ExternalTypeInfo InstantTypeInfo ListTypeInfo"
        " LocalTimeTypeInfo MapTypeInfo ObjectArrayTypeInfo PickledBytesTypeInfo PrimitiveArrayTypeInfo RowTypeInfo"
        " SqlTimeTypeInfo TimeTypeInfo TimestampTypeInfo TupleTypeInfo": "a class of what `Types` returns, which is a"
        " type hint here"
    },
    "common.utils": {"*": JAVA},
    "common.watermark_strategy": {"AssignerWithPeriodicWatermarksWrapper": JAVA},
    "datastream": {"AsyncDataStream": NO_ASYNC, "MemorySize SlotSharingGroup": NO_CLUSTER},
    "datastream.async_data_stream": {"*": NO_ASYNC},
    "datastream.async_retry_predicates": {"*": NO_ASYNC},
    "datastream.async_retry_strategies": {"*": NO_ASYNC},
    "datastream.checkpoint_storage": {
        "JobManagerCheckpointStorage": NO_CLUSTER,
        "CustomCheckpointStorage": "it wraps a class of Java",
    },
    "datastream.connectors": {"DeliveryGuarantee Sink Source": CONNECTOR},
    "datastream.connectors.base": {"*": CONNECTOR},
    "datastream.connectors.cassandra": {"*": CONNECTOR},
    "datastream.connectors.dynamic_kafka": {"*": CONNECTOR},
    "datastream.connectors.elasticsearch": {"*": CONNECTOR},
    "datastream.connectors.file_system": {
        "BulkFormat": FORMAT,
        "FileCompactStrategy FileCompactor FileEnumeratorProvider FileSplitAssignerProvider": NO_CLUSTER,
        "StreamingFileSink": "deprecated in Flink: use FileSink",
        "DefaultRollingPolicy OnCheckpointRollingPolicy": "a `RollingPolicy`, as its two functions return it",
    },
    "datastream.connectors.hybrid_source": {"*": CONNECTOR},
    "datastream.connectors.jdbc": {"*": CONNECTOR},
    "datastream.connectors.kafka": {"*": CONNECTOR},
    "datastream.connectors.kinesis": {"*": CONNECTOR},
    "datastream.connectors.number_seq": {"*": CONNECTOR},
    "datastream.connectors.pulsar": {"*": CONNECTOR},
    "datastream.connectors.rabbitmq": {"*": CONNECTOR},
    "datastream.data_stream": {
        "CachedDataStream": NO_CLUSTER,
    },
    "datastream.formats.avro": {
        "AvroSchema GenericRecordAvroTypeInfo": "no word of `Types`: state of Avro records is carried over as bytes",
        "*": FORMAT,
    },
    "datastream.formats.csv": {"*": FORMAT},
    "datastream.formats.json": {"*": FORMAT},
    "datastream.formats.orc": {"*": FORMAT},
    "datastream.formats.parquet": {"*": FORMAT},
    "datastream.functions": {
        "AsyncFunction AsyncFunctionDescriptor AsyncRetryPredicate AsyncRetryStrategy": NO_ASYNC,
        "FunctionWrapper ReduceFunctionWrapper NullByteKeySelector PassThroughWindowFunction"
        " PassThroughAllWindowFunction": OWN,
        "InternalWindowFunction InternalSingleValueWindowFunction InternalSingleValueAllWindowFunction"
        " InternalIterableWindowFunction InternalIterableAllWindowFunction InternalProcessWindowContext"
        " InternalProcessAllWindowContext InternalSingleValueProcessWindowFunction"
        " InternalSingleValueProcessAllWindowFunction InternalIterableProcessWindowFunction"
        " InternalIterableProcessAllWindowFunction": OWN,
        "JavaFunctionWrapper": JAVA,
    },
    "datastream.slot_sharing_group": {"*": NO_CLUSTER},
    "datastream.state_backend": {
        "StateBackend": "it wraps a class of Java",
        "CustomStateBackend": "it wraps a class of Java",
    },
    "datastream.utils": {"*": JAVA},
    "table": {"*": "the Table API; a stream begins with from_collection, a FileSource or a SourceFunction"},
    "datastream.window": {
        "Min": OWN,
        "WindowOperationDescriptor": OWN,
        "long_to_int_with_bit_mixing mod_inverse": OWN,
    },
}
"""Module -> names, and why they are not there; `*` is all of a module that is not there."""


def said_of(module: str, name: str) -> str:
    """Return what is said of a name of one of PyFlink's modules, or of a name that it re-exports; "": nothing."""
    for words, places in _said(module):
        for listed, text in places.items():
            if name in listed.split():
                return f"{words}: {_plain(text)}"
    return ""


def _said(module: str) -> Iterator[tuple[str, dict[str, str]]]:
    """Yield what is said of the names of a module and of those within it."""
    for words, table in (("is elsewhere here", ELSEWHERE), ("is not there", NOT)):
        for place, names in table.items():
            if place == module or place.startswith(f"{module}."):
                yield words, names


def _plain(text: str) -> str:
    """Return a text without links."""
    return re.sub(r"\[(.+?)\]\((.+?)\)", r"\1 (docs/reference/\2)", text)


def explain_absent(module: str) -> None:
    """Have a module of this package say, where a name is imported that PyFlink has, why it is not there."""
    own = module.partition(".pyflink.")[2]

    def get(name: str) -> Any:
        said = said_of(own, name)
        if said:  # an AttributeError would become an ImportError without the reason
            raise ImportError(f"{name} of pyflink.{own} {said}; see {PAGE}", name=module)
        raise AttributeError(f"module {module!r} has no attribute {name!r}")

    vars(sys.modules[module])["__getattr__"] = get


class AbsentModules:
    """A finder of modules that PyFlink has and this package has not: it says why, and finds none."""

    @staticmethod
    def find_spec(name: str, *_: Any) -> ModuleSpec | None:
        """Raise `ModuleNotFoundError` for such a module."""
        own = name.partition(f"{__package__}.")[2]
        for words, names in _said(own) if own else ():
            text = "; ".join(_plain(text if listed == "*" else f"{listed}: {text}") for listed, text in names.items())
            raise ModuleNotFoundError(f"pyflink.{own} {words}: {text}; see {PAGE}", name=name)
        return None


if AbsentModules not in sys.meta_path:
    sys.meta_path.append(AbsentModules)  # the last one: it is asked for what no other finds
