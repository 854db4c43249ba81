"""A batch whose results are larger than the memory of Java."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from stateshift.spark.streaming.carriers import CARRIERS

pytestmark = [pytest.mark.faults, pytest.mark.slow]

RUN = """
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from stateshift import KeyedProcessFunction, ValueStateDescriptor
from stateshift.spark import StreamJob
from stateshift.spark.sessions import session

class Many(KeyedProcessFunction):
    def open(self, runtime_context):
        self.count = runtime_context.get_state(ValueStateDescriptor("count", int, default_value=0))

    def process_element(self, value: Any, ctx: Any) -> Iterator[tuple[str, int]]:
        for number in range(300):
            self.count.update(self.count.value() + 1)
            yield f"{value.user}-{number:04}-" + "x" * 380, self.count.value()

place = Path(sys.argv[1])
spark = session("local[2]", conf={"spark.driver.memory": "1g", "spark.ui.enabled": "false"})
users = spark.range(10_000).selectExpr("concat('user ', id % 100) as user")
users.coalesce(2).write.parquet(str(place / "in"))
job = StreamJob(place / "state", place / "checkpoint", slots=2, carrier=sys.argv[2])
stream = job.stream(spark.readStream.schema("user string").parquet(str(place / "in"))).key_by("user")
results = stream.process(Many(), uid="many")
writer = results.writeStream.format("parquet").option("path", str(place / "out"))
job.start(writer, available_now=True).awaitTermination()
print("results:", spark.read.parquet(str(place / "out")).count())
"""


@pytest.mark.parametrize("carrier", CARRIERS)
def test_three_million_results_of_a_batch_pass_a_driver_with_one_gigabyte(tmp_path, carrier):
    ran = subprocess.run(
        [sys.executable, "-c", RUN, str(tmp_path), carrier], capture_output=True, text=True, check=False, timeout=900,
        cwd=Path(tmp_path),
    )  # fmt: skip
    assert "results: 3000000" in ran.stdout, ran.stderr[-3000:]
