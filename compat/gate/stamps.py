"""Stamps: the recorded revision that runs in each deployment. A stamp is a name that moves with each deployment.

state_history/stamps.json
{"format": "stateshift stamps", "version": 2, "stamps": [{"name": "production", "revision": id, "on": date}],
 "seal": digest of the whole document, since version 2}
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import attrs

from ...serializers.errors import CorruptFile, DeclarationError, located, shown
from ..json_files import parse_document, print_sealed
from ..plain_data import plain

if TYPE_CHECKING:
    import datetime as dt

FILE, FORMAT, VERSION, SEALED_SINCE = "stamps.json", "stateshift stamps", 2, 2

_NAME = re.compile(r"[A-Za-z](?!.*\.\.)[A-Za-z0-9._-]{0,99}")


def _is_name(name: str) -> bool:
    return name != "head" and _NAME.fullmatch(name) is not None


@attrs.frozen
class Stamp:
    """A deployment and the revision that runs there.

    Attributes:
        name: The name of the deployment: `production`.
        revision: The id of a recorded revision.
        on: The day on which the stamp was set.
    """

    name: str
    revision: str
    on: dt.date


@attrs.frozen
class Stamps:
    """All stamps of a history, by name."""

    stamps: tuple[Stamp, ...] = ()

    @classmethod
    def from_json(cls, text: str | bytes) -> Stamps:
        """Read the file of stamps.

        Raises:
            CorruptFile: It is not a file of stamps.
        """
        with located(file=FILE):
            facts = parse_document(text, FORMAT, VERSION, sealed_since=SEALED_SINCE)
            stamps = []
            for one in facts.objects("stamps"):
                stamps.append(Stamp(one.text("name"), one.text("revision"), one.date("on")))
                one.require_empty()
            facts.require_empty()
            facts.require_unedited()
            names = [stamp.name for stamp in stamps]
            wrong = next((name for name in names if not _is_name(name) or names.count(name) > 1), None)
            if wrong is not None:
                raise CorruptFile(f"{shown(wrong)} occurs twice, or is not a valid name for a stamp")
            return cls(tuple(stamps))

    def to_json(self) -> str:
        """Return the text of the file."""
        return print_sealed(FORMAT, VERSION, plain(self))

    def stamped(self, name: str, revision: str, on: dt.date) -> Stamps:
        """Return the stamps with one set or moved.

        Raises:
            DeclarationError: The name could be mistaken for a revision, a file or a job.
        """
        if not _is_name(name):
            raise DeclarationError(
                f"{name!r} is not a valid name for a stamp",
                advice="start with a letter, then use letters, digits, '.', '_' and '-', such as production",
            )
        others = [one for one in self.stamps if one.name != name]
        return Stamps(tuple(sorted([*others, Stamp(name, revision, on)], key=lambda one: one.name)))

    def find(self, name: str) -> Stamp | None:
        """Return the stamp with a name, or None."""
        return next((one for one in self.stamps if one.name == name), None)
