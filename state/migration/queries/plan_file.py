"""The plan file of a copy: what `stateshift plan spark:OLD` showed, and what a run that is given the file has to do.

    {"format": "stateshift plan of a checkpoint", "version": 1, "stateshift": release, "options": …, "report": …,
     "seal": digest of the whole document}

A run plans again with the options of the file, and compares: nothing is done that the file does not say.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import attrs

from ....compat.json_files import parse_document, print_sealed
from ....compat.structuring import plain, structured
from ....serializers.errors import PlanChanged, located
from .report import CheckpointReport  # noqa: TC001 - its fields are read from the annotation

if TYPE_CHECKING:
    from collections.abc import Iterator

FORMAT, VERSION = "stateshift plan of a checkpoint", 1
_COMPARED: Final = ("source", "query_id", "batch", "dropped_batch", "dropped_operators", "has_new_id", "known_from")


@attrs.frozen
class CheckpointPlanFile:
    """The content of a plan file.

    Attributes:
        stateshift: The release that made the plan.
        options: The options of the command, by the names of its arguments.
        report: What the plan does: the report of a run that wrote nothing.
    """

    stateshift: str
    options: dict[str, Any]
    report: CheckpointReport

    def to_json(self) -> str:
        """Return the text of the file."""
        return print_sealed(FORMAT, VERSION, plain(self))

    @classmethod
    def from_json(cls, text: str | bytes, *, file: str) -> CheckpointPlanFile:
        """Read the text of a file. Nothing in it is imported or opened.

        Raises:
            CorruptFile: The content is no plan, or was edited.
            UnsupportedFormat: The file was made by a later release.
        """
        with located(file=file):
            facts = parse_document(text, FORMAT, VERSION, sealed_since=1)
            facts.require_unedited()
            found: CheckpointPlanFile = structured(cls, facts.rest(), "the plan")
            return found

    def require_same(self, now: CheckpointReport) -> None:
        """Check that a run would do exactly what the file says.

        Raises:
            PlanChanged: It would not; the error lists the differences.
        """
        if differences := tuple(self._differences(now)):
            raise PlanChanged(
                "the run would not do what the plan describes",
                differences=differences,
                advice="make the plan again",
                written="Nothing was written.",
            )

    def _differences(self, now: CheckpointReport) -> Iterator[str]:
        """Yield what is another than in the plan; the digest has all that the copy will contain."""
        if self.report.plan_sha256 == now.plan_sha256:
            return
        sides = self.report, now
        found = [(name, *(getattr(one, name) for one in sides)) for name in _COMPARED]
        stores = [{(one.operator, one.store): one.notes or (one.done,) for one in side.stores} for side in sides]
        found += [
            (f"operator {place[0]}, {place[1]}", *("; ".join(of.get(place, ("not there",))) for of in stores))
            for place in dict.fromkeys([*stores[0], *stores[1]])
        ]
        differing = [f"{name}: {planned} in the plan, {here} here" for name, planned, here in found if planned != here]
        yield from differing or ("the types of stores, or what is said of their fields, are others",)
