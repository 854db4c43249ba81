"""`_stateshift-types.json`: the types of the job that wrote a savepoint, recorded beside it.

A savepoint of PyFlink holds bytes, and the job that wrote it says what they are. The file is a recorded description,
with the digest of the `_metadata` for which it was made: beside another savepoint it is refused, not believed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from ...compat.gate.recorded_text import RecordedText, print_recorded
from ...compat.gate.recording import Parsed, from_recorded, to_data
from ...serializers.errors import CorruptFile, located
from ...serializers.ways_out import WayOut
from .lineage import TYPES

if TYPE_CHECKING:
    from ...compat.description import JobDescription
    from ..storage.files import Folder

_FORMAT = "stateshift types"


def write_recorded_types(folder: Folder, job: JobDescription, metadata_sha256: str) -> None:
    """Write the file.

    Args:
        folder: The savepoint.
        job: The job that wrote it.
        metadata_sha256: The digest of its `_metadata`.
    """
    folder.write(TYPES, print_recorded(_FORMAT, {"metadata": metadata_sha256, **to_data(job)}).encode())


def read_recorded_types(folder: Folder, metadata_sha256: str) -> JobDescription:
    """Read the file; arguments as `write_recorded_types`.

    Raises:
        CorruptFile: It was made for another savepoint, or is damaged.
    """
    with located(file=TYPES):
        text = RecordedText.of(folder.read(TYPES), _FORMAT)
        if text.head.text("metadata") != metadata_sha256:
            raise CorruptFile(
                "the types recorded beside the savepoint are those of another one",
                advice=(
                    WayOut("record those of the job that wrote it:", command="stateshift record JOB SAVEPOINT --force"),
                    "remove the file, so that nothing is known of its bytes",
                ),
            )
        job = from_recorded(text, text.head.text("sha256"), Parsed())
    return attrs.evolve(job, origin=f"{job.origin}, recorded beside the savepoint")
