"""The pages of the API, made of the docstrings: one entry for each public name, by what it is for."""

from __future__ import annotations

import ast
import enum
import inspect
import re
from importlib import import_module
from importlib.util import resolve_name
from itertools import pairwise

import attrs

PAGES = {
    "serializers": {
        "Declaring types": (
            "stateshift",
            """
            record Field enum_options row_of Array Either Int8 Int16 Int32 BigInt Float32 Char AwareDatetime
            NaiveDatetime ByteArrayWrapper serializer_for register_serializer AvroSerializer PickleSerializer
            CloudPickleSerializer
            """,
        ),
        "Values": (
            "stateshift",
            """
            Record Row RowKind Left Right Instant LocalDate LocalTime LocalDateTime JavaDate SqlDate SqlTime
            SqlTimestamp TimeWindow SqlTimeWindow CountWindow GlobalWindow VoidNamespace Timer TtlValue Symbol
            KryoBytes PickledValue from_pickled RowData TimestampData
            """,
        ),
        "Writing a serializer": (
            "stateshift",
            """
            TypeSerializer TypeDeserializer TypeSerializerConfigSnapshot register_snapshot DataInputView
            DataOutputView Family Ability register_family
            """,
        ),
        "Byte rewrites": (
            "stateshift.serializers",
            "rewrite_of ByteRewrite Fixed Boolean Float Text Blob Widened Constant Sequence Nullable Counted",
        ),
        "Errors": (
            "stateshift",
            """
            StateShiftError CorruptSavepoint CorruptFile SavepointNotFound UnsupportedFormat UnknownSnapshot
            SnapshotVersionError IncompatibleState NothingInCommon StateNotFound CompatibilityCheckError
            OldReaderUnavailable DeclarationError JobNotFound LibraryNotFound PlanChanged TargetExists UntrustedCode
            UserCodeFailed UntrustedPlace ValueNotConvertible ValuesCollide MigrationFailed FunctionFailed
            SourceChanged StorageFailed NoSpaceLeft redact_values
            """,
        ),
    },
    "compat": {
        "Checking": (
            "stateshift",
            (
                "check CheckReport Target Policy Repartition Decision Verdict Flag Finding WayOut by_migration"
                " CompatibilityResult"
            ),
        ),
        "Comparing": ("stateshift.compat", "compare"),
        "Testing": (
            "stateshift.compat.testing",
            "SerializerContract UpgradeCase assert_migrates V1 V2 NeedsReconfig NeedsFallback Refuses Unrestorable",
        ),
        "Types and values at random": ("stateshift.compat.testing", "types values_of evolutions Evolution"),
    },
    "state": {
        "Declaring a job": (
            "stateshift",
            """
            Job Operator load_job ValueStateDescriptor ListStateDescriptor MapStateDescriptor
            ReducingStateDescriptor AggregatingStateDescriptor FoldingStateDescriptor StateTtlConfig
            TimerServiceDescriptor StateTransform
            """,
        ),
        "Savepoints": ("stateshift", "open_savepoint Savepoint SavepointWriter verify VerifyReport"),
        "Migrating": ("stateshift", "migrate MigrationReport Progress Follower FollowStatus"),
        "What a migration is told": (
            "stateshift",
            "MigrationOptions Edits parse_edits BadValues Compression SavepointFormatType IfTargetExists",
        ),
        "Plan files": ("stateshift.state", "make_plan PlanFile NewTypes describe_plans"),
        "Progress of long work": ("stateshift", "show_progress"),
        "Checkpoints": ("stateshift", "open_checkpoints configured_checkpoints CheckpointStorage"),
        "State backends": (
            "stateshift",
            """
            Configuration EmbeddedRocksDBStateBackend HashMapStateBackend RocksDBOptionsFactory RestoreCheck
            RestoreRefused configured_backend restorable
            """,
        ),
    },
    "functions": {
        "Functions with state": (
            "stateshift",
            """
            MapFunction FlatMapFunction FilterFunction ReduceFunction AggregateFunction ProcessFunction
            KeyedProcessFunction CoMapFunction CoFlatMapFunction CoProcessFunction KeyedCoProcessFunction
            BroadcastProcessFunction KeyedBroadcastProcessFunction OutputTag CheckpointedFunction ListCheckpointed
            CheckpointedRestoring CheckpointListener SourceFunction RuntimeContext TimeDomain
            """,
        ),
        "Handles of states": ("stateshift", "ValueState ListState MapState ReducingState AggregatingState"),
        "Handles of broadcast states": ("stateshift", "BroadcastState ReadOnlyBroadcastState"),
        "Timers of functions": ("stateshift", "TimerService"),
        "Operator state of functions": (
            "stateshift",
            "FunctionInitializationContext FunctionSnapshotContext OperatorStateStore KeyedStateStore",
        ),
        "Windows": (
            "stateshift",
            """
            WindowedStream WindowOperation ProcessWindowFunction WindowFunction TumblingEventTimeWindows
            TumblingProcessingTimeWindows SlidingEventTimeWindows SlidingProcessingTimeWindows
            EventTimeSessionWindows ProcessingTimeSessionWindows SessionWindowTimeGapExtractor GlobalWindows
            EventTimeTrigger ProcessingTimeTrigger CountTrigger PurgingTrigger NeverTrigger Trigger TriggerResult
            WindowAssigner MergingWindowAssigner
            """,
        ),
        "What windows are given": (
            "stateshift",
            "ProcessWindowContext TriggerContext OnMergeContext WindowAssignerContext",
        ),
        "Running functions in tests": (
            "stateshift.state.testing",
            """
            KeyedProcessHarness ProcessHarness TwoInputHarness BroadcastHarness SourceHarness HarnessSnapshot
            TaskInfo snapshot_together StateMutated jobs contents_of
            """,
        ),
    },
    "environment": {
        "The environment": (
            "stateshift.pyflink.datastream",
            "StreamExecutionEnvironment CheckpointConfig RuntimeExecutionMode CheckpointingMode",
        ),
        "Its streams": (
            "stateshift.pyflink.datastream.data_stream",
            """
            DataStream KeyedStream WindowedStream AllWindowedStream ConnectedStreams BroadcastStream
            BroadcastConnectedStream DataStreamSink CloseableIterator
            """,
        ),
        "Its settings and results": (
            "stateshift.pyflink.common",
            "Configuration ExecutionConfig JobExecutionResult WatermarkStrategy SimpleStringSchema Encoder",
        ),
        "Its files": (
            "stateshift.pyflink.datastream.connectors.file_system",
            """
            FileSource FileSourceBuilder FileSink StreamFormat RollingPolicy BucketAssigner OutputFileConfig
            """,
        ),
    },
    "spark": {
        "Spark": (
            "stateshift.spark",
            """
            register StreamJob split_outputs print_progress take_savepoint check_query describe start
            migrate_checkpoint verify_checkpoint FieldChanges Backfill position_of rewind
            """,
        ),
        "Streams on Spark": ("stateshift.spark", "DataStream KeyedStream BroadcastStream ConnectedStreams"),
        "Sessions": ("stateshift.spark", "session"),
        "Bootstrapping": ("stateshift", "bootstrap StateSource BootstrapReport"),
    },
}
"""Page -> heading -> module and names."""

PLACES = {heading: place for headings in PAGES.values() for heading, place in headings.items()}

HEAD = """# API

Every public name, with what its docstring says, on a page for each part of the package.
A test makes the pages of the docstrings, and holds them against these.
What is not here may change at any time; [What is public, and what may change](stability.md) says more.
"""
TITLES = {
    "serializers": "types, their values, serializers, errors",
    "compat": "checking, comparing, tests of serializers",
    "state": "jobs, savepoints, migrations, checkpoints",
    "functions": "functions with state, their handles, timers and windows, and harnesses to test them",
    "environment": "whole programs of PyFlink's API, run in this process",
    "spark": "Spark queries, streams, bootstrapping",
}
_SECTION = re.compile(r"(Args|Attributes|Returns|Return|Yields|Yield|Raises|Raise):$")
_ITEM = re.compile(r"([\w`*., |]+?): (.*)")


def pages():
    """Give the texts of the pages, by their paths from the folder of the reference."""
    lists = [HEAD]
    texts = {}
    for name, headings in PAGES.items():
        lists.append(f"## [{name.capitalize()}](api/{name}.md): {TITLES[name]}\n")
        parts = [f"# API: {TITLES[name]}\n\n[All pages](../api.md)\n"]
        for heading, (module, names) in headings.items():
            anchor = heading.lower().replace(" ", "-")
            listed = ", ".join(f"`{name}`" for name in names.split())
            lists.append(f"- [{heading}](api/{name}.md#{anchor}), from `{module}`: {listed}")
            parts += [f"## {heading}\n", f"From `{module}`.\n"]
            parts += [_entry(module, name) for name in names.split()]
        lists.append("")
        texts[f"api/{name}.md"] = "\n".join(parts).rstrip() + "\n"
    return {"api.md": "\n".join(lists).rstrip() + "\n", **texts}


def _entry(module, name):
    thing = getattr(import_module(module), name)
    if not callable(thing) or not hasattr(thing, "__qualname__"):
        return f"### {name}\n\n{_rendered(_comment_below(module, name))}\n"
    lines = [
        f"### {name}",
        "",
        f"`{name}{_signature(thing)}`" if not _is_plain(thing) else "",
        "",
        _rendered(_doc(thing)),
    ]
    if inspect.isclass(thing):
        near = {thing.__module__, _place(module, name)}
        shared = [base for base in inspect.getmro(thing)[1:] if base.__module__ in near and _doc(base)]
        lines += [f"\n**As every {base.__name__}**\n\n{_rendered(_doc(base))}" for base in shared]
        lines += [_member(name, member, found) for member, found in _members(thing)]
    return re.sub(r"\n{3,}", "\n\n", "\n".join(lines)) + "\n"


def _place(module, name):
    """Give the module of a name: values have that of the public package."""
    package = import_module(module)
    found = getattr(package, name)
    return found.__module__ if hasattr(found, "__module__") else resolve_name(package._PLACES[name], module)


def _is_plain(thing):
    """Whether users do not call it: an enum, an abstract class, an error."""
    return inspect.isclass(thing) and (issubclass(thing, enum.Enum | BaseException) or inspect.isabstract(thing))


def _doc(thing):
    own = vars(thing).get("__doc__") if inspect.isclass(thing) else thing.__doc__
    return inspect.cleandoc(own or "")


def _comment_below(module, name):
    """Give the text that stands below an assignment; of one that has none, the assignment itself."""
    place = import_module(_place(module, name))
    source = inspect.getsource(place)
    body = ast.parse(source).body
    for statement, following in pairwise(body):
        targets = [target.id for target in getattr(statement, "targets", ()) if isinstance(target, ast.Name)]
        if name in targets:
            is_text = isinstance(following, ast.Expr) and isinstance(following.value, ast.Constant)
            said = [inspect.cleandoc(following.value.value)] if is_text else []
            return "\n\n".join([f"`{ast.get_source_segment(source, statement)}`", *said])
    raise AssertionError(f"{name} is not assigned in {place.__name__}")


def _signature(thing):
    try:
        signature = inspect.signature(thing)
    except (TypeError, ValueError):
        return ""
    bare = [
        parameter.replace(annotation=inspect.Parameter.empty, default=_shown(parameter.default))
        for parameter in signature.parameters.values()
        if not parameter.name.startswith("_") and parameter.name != "self"
    ]
    return str(signature.replace(parameters=bare, return_annotation=inspect.Signature.empty))


class _Shown:
    def __init__(self, text):
        self.text = text

    def __repr__(self):
        return self.text


def _shown(default):
    """Give a default whose text is the same in every process."""
    if default is attrs.NOTHING:
        return _Shown("...")
    if isinstance(default, enum.Enum):
        return _Shown(f"{type(default).__name__}.{default.name}")
    if default is inspect.Parameter.empty or isinstance(default, bool | int | float | str | None | tuple):
        return default
    return _Shown("...")


def _members(cls):
    """Give the public methods and properties that the class, or a base of ours, documents."""
    seen = set()
    for base in inspect.getmro(cls):
        if not base.__module__.startswith("stateshift"):
            continue
        for name, member in vars(base).items():
            function = getattr(member, "__func__", getattr(member, "fget", getattr(member, "func", member)))
            is_told = inspect.isfunction(function) and function.__doc__ and not name.startswith("_")
            if is_told and name not in seen:
                yield name, member
            seen.add(name)


def _member(owner, name, member):
    function = getattr(member, "__func__", getattr(member, "fget", getattr(member, "func", member)))
    is_property = isinstance(member, property) or hasattr(member, "func")
    called = "" if is_property else re.sub(r"^\(cls(, )?", "(", _signature(function))
    return f"\n#### {owner}.{name}\n\n`{name}{called}`\n\n{_rendered(inspect.cleandoc(function.__doc__))}"


def _rendered(text):
    """Turn the sections of a docstring into headed lists, and what is indented into blocks of code."""
    out, section, code = [], False, []
    for line in [*text.splitlines(), ""]:
        found = _SECTION.fullmatch(line)
        if found:
            out += [f"**{found[1]}**", ""]
            section = True
        elif section and line.startswith("    ") and not line.startswith("     "):
            item = _ITEM.match(line.strip())
            out.append(f"- `{item[1]}`: {item[2]}" if item and " " not in item[1].strip("`") else f"- {line.strip()}")
        elif section and line.startswith("     "):
            out[-1] += f" {line.strip()}"
        elif line.startswith("    "):
            code.append(line[4:])
        else:
            if code and line:
                out += ["```text", *code, "```", ""]
                code = []
            section = section and not line
            out.append(line) if not code else code.append(line)
    if code:
        out += ["```text", *"\n".join(code).rstrip().splitlines(), "```"]
    return re.sub(r"\n{3,}", "\n\n", "\n".join(out)).strip()
