"""The job of `downtime`, as a user has it: a module with its classes, and nothing that takes time to import."""

from __future__ import annotations

import attrs

from stateshift import Int32, Job, Operator, ValueStateDescriptor, record


@record(java_class="bench.Rec")
@attrs.frozen
class FlinkRec:
    """As far as Flink goes by itself: `active` is dropped, `region` added (null, as nothing else can be said)."""

    amount: float
    count: Int32
    id: int
    name: str
    region: str | None = None
    tag: str | None = None


job = Job([Operator("bench", key=str, states=[ValueStateDescriptor("s", FlinkRec)])])
