"""The new types of the job of `tests/interop/flink-restore/src/main/fx/Changing.java`."""

from __future__ import annotations

from datetime import timedelta

from stateshift import BigInt, Job, ListStateDescriptor, MapStateDescriptor, Operator, ValueStateDescriptor

NEW = Job(
    [
        Operator(
            "changing",
            key=int,
            states=[
                ValueStateDescriptor("count", BigInt),
                ListStateDescriptor("events", BigInt),
                MapStateDescriptor("counts", str, BigInt),
                ValueStateDescriptor("session", BigInt, time_to_live=timedelta(seconds=5)),
            ],
        )
    ]
)
