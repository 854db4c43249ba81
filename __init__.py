"""Change the types of streaming state without losing the state.

The names below are the face of the package; the rooms are `stateshift.serializers`, `stateshift.compat`,
`stateshift.state` and, with pyspark, `stateshift.spark`.
"""

__version__ = "0.1.0"

from .compat.check import check
from .compat.description import StateTransform
from .compat.policy import Policy
from .compat.targets import Target
from .serializers.avro import AvroSerializer
from .serializers.compatibility import CompatibilityResult, Decision, Finding, Flag, Verdict
from .serializers.either import Either, Left, Right
from .serializers.enums import enum_options
from .serializers.errors import CorruptSavepoint, StateShiftError, ValueNotConvertible, redact_values
from .serializers.hints import (
    Array,
    AwareDatetime,
    BigInt,
    Char,
    Float32,
    Int8,
    Int16,
    Int32,
    NaiveDatetime,
    serializer_for,
)
from .serializers.opened_pickles import from_pickled
from .serializers.pickled import CloudPickleSerializer, PickleSerializer
from .serializers.pickled_values import PickledValue
from .serializers.record_classes import Field, record
from .serializers.record_values import Record
from .serializers.registry import register_serializer, register_snapshot
from .serializers.row_hints import row_of
from .serializers.row_values import Row, RowKind
from .serializers.serializer import TypeDeserializer, TypeSerializer
from .serializers.snapshot import TypeSerializerConfigSnapshot
from .serializers.sql_temporal_values import JavaDate, SqlDate, SqlTime, SqlTimestamp
from .serializers.temporal_values import Instant, LocalDate, LocalDateTime, LocalTime
from .serializers.timers import Timer
from .serializers.views import DataInputView, DataOutputView
from .serializers.windows import GlobalWindow, TimeWindow, VoidNamespace
from .state.descriptors import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    ValueStateDescriptor,
)
from .state.job import Job, Operator, load_job
from .state.savepoint.reader import Savepoint
from .state.savepoint.writer import SavepointWriter
from .state.timers import TimerServiceDescriptor

__all__ = [
    "AggregatingStateDescriptor",
    "Array",
    "AvroSerializer",
    "AwareDatetime",
    "BigInt",
    "Char",
    "CloudPickleSerializer",
    "CompatibilityResult",
    "CorruptSavepoint",
    "DataInputView",
    "DataOutputView",
    "Decision",
    "Either",
    "Field",
    "Finding",
    "Flag",
    "Float32",
    "GlobalWindow",
    "Instant",
    "Int8",
    "Int16",
    "Int32",
    "JavaDate",
    "Job",
    "Left",
    "ListStateDescriptor",
    "LocalDate",
    "LocalDateTime",
    "LocalTime",
    "MapStateDescriptor",
    "NaiveDatetime",
    "Operator",
    "PickleSerializer",
    "PickledValue",
    "Policy",
    "Record",
    "ReducingStateDescriptor",
    "Right",
    "Row",
    "RowKind",
    "Savepoint",
    "SavepointWriter",
    "SqlDate",
    "SqlTime",
    "SqlTimestamp",
    "StateShiftError",
    "StateTransform",
    "Target",
    "TimeWindow",
    "Timer",
    "TimerServiceDescriptor",
    "TypeDeserializer",
    "TypeSerializer",
    "TypeSerializerConfigSnapshot",
    "ValueNotConvertible",
    "ValueStateDescriptor",
    "Verdict",
    "VoidNamespace",
    "check",
    "enum_options",
    "from_pickled",
    "load_job",
    "record",
    "redact_values",
    "register_serializer",
    "register_snapshot",
    "row_of",
    "serializer_for",
]
