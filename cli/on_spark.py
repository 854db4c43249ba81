"""What commands that may run on Spark share: its options, and the error when Spark itself fails."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

from ..serializers.errors import MigrationFailed, StateShiftError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


def spark_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add `--master` and `--py-files`, which become the arguments `master` and `py_files`."""
    master = click.option(
        "--master",
        metavar="URL",
        help="Spark master. By default local[*,4], with 4 attempts for each task; for little state, Spark is not used.",
    )
    py_files = click.option(
        "--py-files",
        multiple=True,
        metavar="FILE[,FILE…]",
        callback=lambda _context, _parameter, given: [name for names in given for name in names.split(",") if name],
        help="Further .py, .zip, .egg or .whl files for Spark's workers. Modules in the job's folder are sent "
        "automatically.",
    )
    return master(py_files(command))


@contextmanager
def spark_failures_told(written: str) -> Iterator[None]:
    """Turn errors of Spark itself into the error that the run failed.

    Args:
        written: What was written by then, in a sentence.
    """
    try:
        yield
    except StateShiftError:
        raise
    except Exception as error:
        if type(error).__module__.partition(".")[0] not in {"py4j", "pyspark"}:
            raise
        from ..spark.jobs import cause_of

        raise MigrationFailed(
            f"Spark failed: {cause_of(error)}",
            advice="check --master and Spark's own messages above; the same command starts again from the beginning",
            written=written,
        ) from error
