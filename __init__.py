"""Change the types of streaming state without losing the state.

The names below are the face of the package; the rooms are `stateshift.serializers`, `stateshift.compat`,
`stateshift.state` and, with pyspark, `stateshift.spark`. A name is loaded when it is first used: the command line and
the pytest plugin start without the rest.
"""

from __future__ import annotations

import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from importlib.machinery import ModuleSpec

    from .compat.check import check
    from .compat.description import StateTransform
    from .compat.policy import Policy
    from .compat.repartition import Repartition
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
    from .serializers.kryo import KryoBytes
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
    from .serializers.symbols import Symbol
    from .serializers.temporal_values import Instant, LocalDate, LocalDateTime, LocalTime
    from .serializers.timers import Timer
    from .serializers.ttl import TtlValue
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
    "KryoBytes",
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
    "Repartition",
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
    "Symbol",
    "Target",
    "TimeWindow",
    "Timer",
    "TimerServiceDescriptor",
    "TtlValue",
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

_PLACES = {
    "AggregatingStateDescriptor": ".state.descriptors",
    "Array": ".serializers.hints",
    "AvroSerializer": ".serializers.avro",
    "AwareDatetime": ".serializers.hints",
    "BigInt": ".serializers.hints",
    "Char": ".serializers.hints",
    "CloudPickleSerializer": ".serializers.pickled",
    "CompatibilityResult": ".serializers.compatibility",
    "CorruptSavepoint": ".serializers.errors",
    "DataInputView": ".serializers.views",
    "DataOutputView": ".serializers.views",
    "Decision": ".serializers.compatibility",
    "Either": ".serializers.either",
    "Field": ".serializers.record_classes",
    "Finding": ".serializers.compatibility",
    "Flag": ".serializers.compatibility",
    "Float32": ".serializers.hints",
    "GlobalWindow": ".serializers.windows",
    "Instant": ".serializers.temporal_values",
    "Int16": ".serializers.hints",
    "Int32": ".serializers.hints",
    "Int8": ".serializers.hints",
    "JavaDate": ".serializers.sql_temporal_values",
    "Job": ".state.job",
    "KryoBytes": ".serializers.kryo",
    "Left": ".serializers.either",
    "ListStateDescriptor": ".state.descriptors",
    "LocalDate": ".serializers.temporal_values",
    "LocalDateTime": ".serializers.temporal_values",
    "LocalTime": ".serializers.temporal_values",
    "MapStateDescriptor": ".state.descriptors",
    "NaiveDatetime": ".serializers.hints",
    "Operator": ".state.job",
    "PickleSerializer": ".serializers.pickled",
    "PickledValue": ".serializers.pickled_values",
    "Policy": ".compat.policy",
    "Record": ".serializers.record_values",
    "ReducingStateDescriptor": ".state.descriptors",
    "Repartition": ".compat.repartition",
    "Right": ".serializers.either",
    "Row": ".serializers.row_values",
    "RowKind": ".serializers.row_values",
    "Savepoint": ".state.savepoint.reader",
    "SavepointWriter": ".state.savepoint.writer",
    "SqlDate": ".serializers.sql_temporal_values",
    "SqlTime": ".serializers.sql_temporal_values",
    "SqlTimestamp": ".serializers.sql_temporal_values",
    "StateShiftError": ".serializers.errors",
    "StateTransform": ".compat.description",
    "Symbol": ".serializers.symbols",
    "Target": ".compat.targets",
    "TimeWindow": ".serializers.windows",
    "Timer": ".serializers.timers",
    "TimerServiceDescriptor": ".state.timers",
    "TtlValue": ".serializers.ttl",
    "TypeDeserializer": ".serializers.serializer",
    "TypeSerializer": ".serializers.serializer",
    "TypeSerializerConfigSnapshot": ".serializers.snapshot",
    "ValueNotConvertible": ".serializers.errors",
    "ValueStateDescriptor": ".state.descriptors",
    "Verdict": ".serializers.compatibility",
    "VoidNamespace": ".serializers.windows",
    "check": ".compat.check",
    "enum_options": ".serializers.enums",
    "from_pickled": ".serializers.opened_pickles",
    "load_job": ".state.job",
    "record": ".serializers.record_classes",
    "redact_values": ".serializers.errors",
    "register_serializer": ".serializers.registry",
    "register_snapshot": ".serializers.registry",
    "row_of": ".serializers.row_hints",
    "serializer_for": ".serializers.hints",
}
"""Where each name of the face is; a test holds them against the imports above, which are for tools."""


def __getattr__(name: str) -> Any:
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(_PLACES[name], __name__), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


class _FormerModules:
    """Finds modules by names that they once had, which pickles keep. Python asks it where nothing else finds one."""

    @staticmethod
    def find_spec(name: str, *_: object) -> ModuleSpec | None:
        if not name.startswith(f"{__name__}."):
            return None
        found: ModuleSpec | None = import_module(".serializers.stored_names", __name__).spec_of(name)
        return found


sys.meta_path.append(_FormerModules)
