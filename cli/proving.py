"""`--prove flink`: real Flink restores a savepoint, and what it has restored is compared."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import attrs
import click

from ..serializers.errors import StorageFailed
from .options import as_one, open_savepoint
from .output import print_notice
from .progress import show_progress

if TYPE_CHECKING:
    from ..state.proof.installation import FlinkInstallation
    from ..state.savepoint.verify import VerifyReport


def _part(_: click.Context, __: click.Parameter, text: str) -> float:
    found = re.fullmatch(r"(\d+(?:\.\d+)?)%", text)
    if found is None or not 0 < float(found[1]) <= 100:
        raise click.BadParameter(f"{text!r} is not a part of the key groups; give it as 1% or 12.5%, up to 100%")
    return float(found[1]) / 100


@attrs.frozen
class Proving:
    """The values of `--prove` and what belongs to it.

    Attributes:
        by: `flink`, or "" if nothing is to be proven.
        sample: The part of the key groups.
        flink_home: The installation of Flink, or "".
        job_jars: The jars with the classes of the job.
    """

    by: str
    sample: float
    flink_home: str
    job_jars: tuple[str, ...]

    def installation(self) -> FlinkInstallation | None:
        """Find Flink before anything else is done; return None if nothing is to be proven.

        Raises:
            UsageError: An option was given that only a proof takes.
            FlinkNotFound: Flink or a JDK is missing.
        """
        if not self.by:
            if self.sample != 1 or self.flink_home or self.job_jars:
                raise click.UsageError("--prove-sample, --flink-home and --job-jar belong to --prove flink")
            return None
        from ..state.proof.installation import FlinkInstallation

        return FlinkInstallation.find(self.flink_home, self.job_jars)

    def proven(self, report: VerifyReport, flink: FlinkInstallation) -> tuple[VerifyReport, dict[str, Any] | None]:
        """Prove a savepoint that is intact, and write the certificate beside it.

        Returns:
            The report with the checks of the proof, and the certificate; None if Flink was not asked.
        """
        from ..state.proof.proof import prove
        from ..state.savepoint.verify import Check, Outcome

        if not report.ok:
            detail = "Flink was not asked, since a check before it failed"
            return attrs.evolve(report, checks=(*report.checks, Check("flink", Outcome.UNPROVEN, detail))), None
        savepoint = open_savepoint(report.place)
        with show_progress() as show:
            proof = prove(savepoint, flink, sample=self.sample, progress=show)
        try:
            proof.write(savepoint)
        except StorageFailed as error:
            print_notice(f"the certificate is only in this report: {error.what}")
        return attrs.evolve(report, checks=(*report.checks, *proof.checks)), proof.certificate


proving_options = as_one(
    "proving",
    lambda prove, prove_sample, flink_home, job_jars: Proving(prove or "", prove_sample, flink_home, tuple(job_jars)),
    click.option(
        "--prove",
        type=click.Choice(["flink"]),
        help="Let real Flink restore the savepoint, and compare every entry with what it has restored.",
    ),
    click.option(
        "--prove-sample",
        metavar="PERCENT",
        default="100%",
        show_default=True,
        callback=_part,
        help="Let it restore only a part of the key groups, such as 1%; of native snapshots, of the subtasks.",
    ),
    click.option(
        "--flink-home",
        metavar="PLACE",
        default="",
        help="The installation of Flink, or a folder with its jars. [default: FLINK_HOME, else PyFlink's]",
    ),
    click.option(
        "--job-jar",
        "job_jars",
        metavar="JAR",
        multiple=True,
        help="A jar with classes of the job that serializers need; repeatable.",
    ),
)
"""`--prove`, `--prove-sample`, `--flink-home` and `--job-jar`."""
