"""Of what Spark raises a person sees one line, and no stack trace."""

from __future__ import annotations

import pytest

from stateshift import MigrationFailed, NoSpaceLeft, redact_values
from stateshift.spark.jobs import cause_of, gave_up, run_in_group

CALL = "An error occurred while calling o112.collect.\n: "
IMPORT_ERROR = "a worker failed with ImportError: \"cannot import name 'Target'\""
LOST = "Job aborted due to stage failure: Task 0 in stage 0.0 failed 4 times, most recent failure: Lost task 0.3 in"
JAVA = "\tat java.base/java.io.FileOutputStream.writeBytes(Native Method)\n\nDriver stacktrace:\n\tat org.apache\n"
IN_PYTHON = """Traceback (most recent call last):
  File "/lib/pyspark/worker.py", line 7, in main
    process()
ImportError: cannot import name 'Target'
"""


@pytest.mark.parametrize(
    ("raised", "reason"),
    [
        (f"An exception was thrown from the Python worker:\n{IN_PYTHON}", IMPORT_ERROR),
        (f"called.\n: {LOST} stage 0.0 (TID 4) (localhost executor driver): a.b.PythonException: {IN_PYTHON}\n{JAVA}",
         IMPORT_ERROR),
        (f"{CALL}org.apache.spark.SparkException: {LOST} stage 0.0 (TID 4) (localhost executor driver): "  # noqa: ISC004
         f"java.io.IOException: Broken pipe\n{JAVA}", "Broken pipe"),
        (f"{LOST} stage 0.0 (TID 4) (10.0.0.7 executor 3): ExecutorLostFailure (executor 3 exited)\n{JAVA}",
         "ExecutorLostFailure (executor 3 exited)"),
        (f"{CALL}java.io.FileNotFoundException: no such file\n\tat a.b", "no such file"),
        ("[PATH_NOT_FOUND] Path does not exist: file:/x.", "[PATH_NOT_FOUND] Path does not exist: file:/x."),
        ("", "RuntimeError"),
    ],
)  # fmt: skip
def test_the_reason_is_the_line_with_the_cause(raised, reason):
    assert cause_of(RuntimeError(raised)) == reason


def test_a_full_scratch_folder_is_reported_with_its_place(monkeypatch):
    full = RuntimeError(f"{LOST} stage 0.0 (TID 4) (localhost executor driver): a.B: No space left on device\n{JAVA}")
    monkeypatch.setenv("SPARK_LOCAL_DIRS", "/small")

    told = gave_up(full, "look", operator="counter")

    assert type(told) is NoSpaceLeft
    assert told.what == "no space left in the folder where Spark sorts data: /small"
    assert told.where == {"operator": "counter"}
    assert "SPARK_LOCAL_DIRS" in told.advice
    assert type(gave_up(RuntimeError("other"), "look")) is MigrationFailed


def test_with_redaction_no_value_of_a_query_is_reported():
    cast = RuntimeError(f"{LOST} stage 0.0 (TID 4) (localhost executor driver): a.b.NumberException: 'secret' is none")
    redact_values()
    try:
        assert cause_of(cast) == "a.b.NumberException"
    finally:
        redact_values(False)


def test_no_place_breaks_a_line_on_the_pages_of_spark(spark):
    context = spark.sparkContext

    described = run_in_group(
        context,
        lambda: context.getLocalProperty("spark.job.description"),
        lambda _: None,
        "from a\nb\ud800 to \u202ec",
        lambda error: error,
    )

    assert described == r"from a\nb\ud800 to \u202ec"
