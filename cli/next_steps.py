"""What a person does next: how the job starts on a savepoint."""

from __future__ import annotations

from ..serializers.escaping import shell_word
from ..state.savepoint.stores import parted


def start_lines(place: str, *, flink_restorable: bool | None, with_orphans: bool) -> list[str]:
    """Say how a Flink job starts on a savepoint, or why none can.

    Args:
        place: The savepoint, as the person wrote it. The options of a URI are pyarrow's, and left out: Flink is told
            elsewhere how a store is reached.
        flink_restorable: Whether Flink knows every snapshot of the job's operators; None: it cannot be told.
        with_orphans: Whether the savepoint has operators that the job does not: Flink then wants to be told so.
    """
    if flink_restorable is False:
        reason = "which does not know stateshift's own serializers (for it, give each record its java_class)"
        return [f"start the job: not in Flink, {reason}"]
    place, _ = parted(place)
    orphans = " --allowNonRestoredState" if with_orphans else ""
    lines = [f"start the job: flink run -s {shell_word(place)}{orphans} …"]
    if with_orphans:
        lines.append("  (the job lacks an operator of the savepoint; Flink drops its state only when told so)")
    return lines
