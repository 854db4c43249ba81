"""Parser of the edits given on the command line: `STATE`, `OLD=NEW`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...compat.description import operator_id_of_uid
from ...compat.edits import Edits, NewIdentity
from ...serializers.errors import DeclarationError
from ...serializers.ways_out import Option, WayOut

if TYPE_CHECKING:
    from collections.abc import Iterable


def parse_edits(
    *,
    drop: Iterable[str] = (),
    rename_states: Iterable[str] = (),
    rename_uids: Iterable[str] = (),
    convert: Iterable[str] = (),
) -> Edits:
    """Parse the edits to stored state.

    Args:
        drop: Names of states; `UID/STATE` where a name alone is not unique.
        rename_states: `OLD=NEW`, with OLD as in `drop`.
        rename_uids: `OLD=NEW`: OLD is an operator's uid or id, NEW the uid in the new job.
        convert: Names of states, as in `drop`, or `UID/<key>`, whose values have not been converted yet (rule STATE-8).

    Raises:
        DeclarationError: A string does not have this form.
    """
    return Edits(
        tuple(drop),
        tuple(_pair(text, Option.RENAME_STATE) for text in rename_states),
        tuple(
            (old, NewIdentity(operator_id_of_uid(new).hex(), new))
            for old, new in (_pair(text, Option.RENAME_UID) for text in rename_uids)
        ),
        tuple(convert),
    )


def _pair(text: str, option: Option) -> tuple[str, str]:
    old, separator, new = text.partition("=")
    if not separator or not old or not new:
        raise DeclarationError(
            f"{text!r} is not of the form OLD=NEW", advice=WayOut.telling("write", option, "OLD", "NEW")
        )
    return old, new
