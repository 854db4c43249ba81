"""Windows, their assigners and triggers."""

from typing import TypeAlias

from ...serializers.flink.namespaces import (
    CountWindow,
    CountWindowSerializer,
    GlobalWindow,
    GlobalWindowSerializer,
    TimeWindow,
    TimeWindowSerializer,
)
from ...state.runtime.windows.assigners import (
    CountSlidingWindowAssigner,
    CountTumblingWindowAssigner,
    EventTimeSessionWindows,
    GlobalWindows,
    MergingWindowAssigner,
    ProcessingTimeSessionWindows,
    SessionWindowTimeGapExtractor,
    SlidingEventTimeWindows,
    SlidingProcessingTimeWindows,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
    WindowAssigner,
)
from ...state.runtime.windows.triggers import (
    ContinuousEventTimeTrigger,
    ContinuousProcessingTimeTrigger,
    CountTrigger,
    EventTimeTrigger,
    NeverTrigger,
    ProcessingTimeTrigger,
    PurgingTrigger,
    Trigger,
    TriggerResult,
)
from ..absent import explain_absent

Window: TypeAlias = TimeWindow | CountWindow | GlobalWindow
DynamicEventTimeSessionWindows = EventTimeSessionWindows
DynamicProcessingTimeSessionWindows = ProcessingTimeSessionWindows

__all__ = [
    "ContinuousEventTimeTrigger", "ContinuousProcessingTimeTrigger", "CountSlidingWindowAssigner", "CountTrigger",
    "CountTumblingWindowAssigner", "CountWindow", "CountWindowSerializer", "DynamicEventTimeSessionWindows",
    "DynamicProcessingTimeSessionWindows", "EventTimeSessionWindows", "EventTimeTrigger", "GlobalWindow",
    "GlobalWindowSerializer", "GlobalWindows", "MergingWindowAssigner", "NeverTrigger", "ProcessingTimeSessionWindows",
    "ProcessingTimeTrigger", "PurgingTrigger", "SessionWindowTimeGapExtractor", "SlidingEventTimeWindows",
    "SlidingProcessingTimeWindows", "TimeWindow", "TimeWindowSerializer", "Trigger", "TriggerResult",
    "TumblingEventTimeWindows", "TumblingProcessingTimeWindows", "Window", "WindowAssigner",
]  # fmt: skip

explain_absent(__name__)
