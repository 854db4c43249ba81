"""What type checkers make of code that reads, checks and migrates savepoints (`make types`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, assert_type

from stateshift import (
    BadValues,
    BootstrapReport,
    CheckReport,
    Compression,
    Decision,
    IfTargetExists,
    Job,
    MigrationOptions,
    MigrationReport,
    Operator,
    Repartition,
    Savepoint,
    SavepointWriter,
    StateSource,
    StateTransform,
    Target,
    Timer,
    ValueStateDescriptor,
    VerifyReport,
    bootstrap,
    check,
    load_job,
    migrate,
    open_savepoint,
    parse_edits,
    repartition,
    verify,
)

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

    import stateshift

    assert_type(stateshift.__version__, str)


def reads(place: Path) -> None:
    savepoint = open_savepoint(place, allow_roots=["s3://bucket/shared"])
    assert_type(savepoint, Savepoint)
    state = savepoint.operator("accounts").state("account")
    for entry in state.read_entries():
        assert_type(entry.key, Any)
        assert_type(entry.value, Any)
    for timer in state.read_timers():
        assert_type(timer, Timer[Any, Any])
    report = verify(savepoint, trust_digests=True)
    assert_type(report, VerifyReport)
    assert_type(report.ok, bool)
    assert_type(verify("s3://bucket/savepoint").checks[0].detail, str)


def writes(place: str) -> Savepoint:
    job = Job([Operator("accounts", key=str, states=[ValueStateDescriptor("account", int)])])
    with SavepointWriter(place, job) as writer:
        assert_type(writer, SavepointWriter)
        writer.put("accounts", "account", "Ada", 1)
    return open_savepoint(place)


def migrates(source: str, target: Path) -> None:
    job = load_job("accounts:job")
    report = check(open_savepoint(source).describe(), job.describe(), target=Target.FLINK)
    assert_type(report, CheckReport)
    assert_type(report.decision, Decision)
    options = MigrationOptions(
        parallelism=8,
        compression=Compression.SNAPPY,
        bad_values=BadValues.QUARANTINE,
        edits=parse_edits(drop=["coupon"], rename_uids=["old=new"]),
        repartition=Repartition(max_parallelism={"accounts": 1000}, merge={"total": lambda one, other: one + other}),
    )
    assert_type(migrate(source, target, job, options, target_exists=IfTargetExists.RESUME), MigrationReport)
    done = repartition(source, target, max_parallelism=1000, merge={"total": max}, dry_run=True)
    assert_type(done.bytes_written, int)


def starts(target: str, job: Job, totals: DataFrame) -> None:
    def sources(session: SparkSession) -> list[StateSource]:
        return [StateSource("accounts", "account", session.table("totals"), key_by="person", value="total")]

    one = StateSource("accounts", "account", totals, key_by=("person", "year"), aggregate=sum)
    assert_type(bootstrap(target, job, sources), BootstrapReport)
    assert_type(bootstrap(target, job, one).entries, int)


def changes() -> StateTransform:
    return StateTransform.from_value(lambda value: [value])
