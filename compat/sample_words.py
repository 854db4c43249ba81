"""What reports say of entries before and after: where each is, what was done at each path, or why there are none."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs

from ..serializers.errors import values_are_redacted
from ..serializers.plain_forms import plain, value_text
from ..serializers.wording import many
from .entry_samples import Did
from .reference_time import millis_text

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .entry_samples import EntryChange, EntrySamples, SampledEntry, SampledState

_MOST_OF_PART = 100


def text_of(form: Any, most: int = _MOST_OF_PART) -> str:
    """Return a value as a text of limited length."""
    text = form if isinstance(form, str) and values_are_redacted() else value_text(form)
    return text if len(text) <= most else f"{text[: most - 1]}…"


def title_of(samples: EntrySamples) -> str:
    """Return the title of all of them."""
    of = f" of key {', '.join(samples.keys)}" if samples.keys else ""
    return f"entries{of} before and after"


def name_of(state: SampledState, arrow: str) -> str:
    """Return the name and kind of a state, and what of them is another after it."""
    pairs = ((state.state, state.new_state), (state.kind, state.new_kind))
    becomes = ", ".join(new for old, new in pairs if new not in {old, ""})
    return f"{state.title}, {state.kind}" + (f" {arrow} {becomes}" if becomes else "")


def told_of(state: SampledState, *, of_keys: bool) -> str:
    """Return how many entries of a state are shown, or why there are none."""
    if state.not_shown:
        return f"entries cannot be shown: {state.not_shown}"
    if state.entries:
        others = "" if state.is_all else ", and there are others"
        merged = "; shown before those of keys that become equal are merged" if state.may_be_merged else ""
        return many(len(state.entries), "entry", "entries") + others + merged
    if not state.is_all:
        return "no entry was found"
    return "nothing is stored under it" if of_keys else "no entry is stored"


def place_of(entry: SampledEntry, arrow: str) -> str:
    """Return where an entry is: its key, namespace, key in a map, time or subtask."""
    return ", ".join(_place(entry, arrow))


def _place(entry: SampledEntry, arrow: str) -> Iterator[str]:
    def pair(old: Any, new: Any) -> str:
        return text_of(old) if new is None or plain(new) == plain(old) else f"{text_of(old)} {arrow} {text_of(new)}"

    if entry.subtask is not None:
        yield f"subtask {entry.subtask}"
    if entry.key is not None:
        yield f"key {pair(entry.key, entry.new_key)}"
    if entry.namespace is not None:
        yield f"namespace {text_of(entry.namespace)}"
    if entry.user_key is not None:
        yield f"key in the map {pair(entry.user_key, entry.new_user_key)}"
    if entry.timestamp_ms is not None:
        yield f"fires at {millis_text(entry.timestamp_ms)}"


_SIDES = {
    Did.CONVERTED: (True, True),
    Did.WIDENED: (False, True),
    Did.DEFAULTED: (False, True),
    Did.DROPPED: (True, False),
    Did.RENAMED: (False, False),
    Did.STAMPED: (False, False),
    Did.UNSTAMPED: (False, False),
}
"""Whether the old and the new value are told; a widened value is the same."""


@attrs.frozen
class ToldChange:
    """A change in words.

    Attributes:
        old: The old value; None: it is not told.
        new: The new value, likewise.
        more: What else there is to say.
        rule: The rule in brackets, or "".
    """

    old: str | None
    new: str | None
    more: tuple[str, ...]
    rule: str

    @classmethod
    def of(cls, change: EntryChange, entry: SampledEntry) -> ToldChange:
        """Return a change of an entry in words."""
        has_old, has_new = _SIDES[change.did]
        stamp = {Did.STAMPED: entry.new_stamp_ms, Did.UNSTAMPED: entry.old_stamp_ms}.get(change.did)
        more = [f"was {change.old_path}"] if change.did is Did.RENAMED else []
        more += [] if stamp is None else [millis_text(stamp)]
        more += [f"by {change.by}"] if change.by else []
        more += [f"at {change.count:,} places"] if change.count > 1 else []
        old, new = (text_of(value) if has else None for value, has in ((change.old, has_old), (change.new, has_new)))
        return cls(old, new, tuple(more), f"[{change.rule}]" if change.rule else "")
