"""Names, the order of arguments, and defaults are PyFlink's.

`tests/fixtures/pyflink-signatures.json` was read from PyFlink's source, which does not install beside our Python
everywhere. It is written again with STATESHIFT_PYFLINK=FOLDER, a folder with the package `pyflink`.
"""

from __future__ import annotations

import ast
import enum
import inspect
import json
import os
from pathlib import Path

import pytest

from stateshift.pyflink.datastream import window
from stateshift.state import timers
from stateshift.state.runtime import (
    checkpointed,
    descriptors,
    functions,
    metrics,
    output_tag,
    runtime_context,
    states,
    time_to_live,
    timer_service,
)
from stateshift.state.runtime.windows import assigners, triggers
from stateshift.state.runtime.windows import functions as window_functions

FIXTURE = Path(__file__).parents[2] / "fixtures" / "pyflink-signatures.json"
SOURCES = [
    "datastream/state.py", "datastream/functions.py", "datastream/timerservice.py", "datastream/time_domain.py",
    "datastream/output_tag.py", "datastream/window.py", "metrics/metricbase.py",
]  # fmt: skip
OURS = (
    states,
    descriptors,
    time_to_live,
    functions,
    runtime_context,
    timer_service,
    timers,
    output_tag,
    metrics,
    checkpointed,
    window_functions,
    assigners,
    triggers,
    window,
)
NOT_OURS = (
    "AsyncFunction", "AsyncRetry", "FunctionWrapper", "Internal", "JavaFunctionWrapper", "Metric.",
    "NullByteKeySelector", "PassThrough", "ReduceFunctionWrapper", "SinkFunction", "SourceFunction",
    "CountWindowSerializer", "GlobalWindowSerializer", "Min.", "TimeWindowSerializer", "WindowOperationDescriptor",
    "Window.", "StateTtlConfig.CleanupStrategies.", "OutputTag.get_java_output_tag",
    "ContinuousEventTimeTrigger.register_next", "ContinuousProcessingTimeTrigger.register_next",
)  # fmt: skip
"""What is not there yet, what belongs to Java, and what only the TTL builder creates."""
CREATED = (
    "AggregatingStateDescriptor", "Continuous", "Count", "EventTimeSessionWindows", "ListStateDescriptor",
    "MapStateDescriptor", "OutputTag", "ProcessingTimeSessionWindows", "PurgingTrigger", "ReducingStateDescriptor",
    "Sliding", "StateTtlConfig", "TimeWindow", "Tumbling", "ValueStateDescriptor",
)  # fmt: skip
"""The classes that a program creates, so that their constructors matter."""


def arguments(node):
    """Return the arguments of a function with their defaults, without `self`."""
    found = [argument.arg for argument in node.args.args]
    defaults = [ast.unparse(default) for default in node.args.defaults]
    from_first = [None] * (len(found) - len(defaults)) + defaults
    return [pair for pair in zip(found, from_first, strict=True) if pair[0] != "self"]


def signatures(node, prefix=""):
    """Yield the public methods of all classes, and the members of enums, each with its arguments."""
    for item in node.body:
        if isinstance(item, ast.ClassDef):
            yield from signatures(item, f"{prefix}{item.name}.")
        elif (
            prefix and isinstance(item, ast.FunctionDef) and (item.name == "__init__" or not item.name.startswith("_"))
        ):
            yield prefix + item.name, arguments(item)
        elif prefix and isinstance(item, ast.Assign) and isinstance(item.value, ast.Constant):
            yield prefix + item.targets[0].id, item.value.value


def is_called(name):
    return name.startswith(CREATED) or not name.endswith(".__init__")


def recorded():
    if "STATESHIFT_PYFLINK" in os.environ:
        package = Path(os.environ["STATESHIFT_PYFLINK"]) / "pyflink"
        found = {}
        for source in SOURCES:
            found |= dict(signatures(ast.parse((package / source).read_text(encoding="utf-8"))))
        version = ast.parse((package / "version.py").read_text(encoding="utf-8")).body[-1].value.value
        kept = {name: of for name, of in sorted(found.items()) if not name.startswith(NOT_OURS) and is_called(name)}
        text = json.dumps({"apache-flink": version, "signatures": kept}, indent=1)
        FIXTURE.write_text(text + "\n", encoding="utf-8")
    return json.loads(FIXTURE.read_text(encoding="utf-8"))["signatures"]


def ours(name):
    first, *rest = name.split(".")
    found = next(getattr(module, first) for module in OURS if hasattr(module, first))
    for part in rest:
        found = getattr(found, part)
    return found


@pytest.mark.parametrize(("name", "theirs"), recorded().items())
def test_a_method_takes_the_arguments_of_pyflink(name, theirs):
    found = ours(name.removesuffix(".__init__"))
    if isinstance(found, enum.Enum):
        assert name.endswith(f".{found.name}")
        return
    given = [item for item in inspect.signature(found).parameters.values() if item.name != "self"]
    defaults = [None if item.default is item.empty else repr(item.default) for item in given]

    assert theirs == [[item.name, default] for item, default in zip(given, defaults, strict=True)][: len(theirs)]
    assert all(default is not None for default in defaults[len(theirs) :])
