"""The report of any check as Markdown: a comment on a pull request, or the summary that GitHub shows of a step."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING

import attrs

from ...compat.explain import change, reason_of
from ...compat.likeness import alike
from ...serializers.ways_out import on_command_line
from ...serializers.wording import log_line, many, markdown_code, markdown_text, one_line
from ..output import print_notice

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from .forms import Entry, Place

_MOST = 60_000
"""Characters: GitHub takes 65,536 in a comment."""
_WORDS = {"error": "**fails**", "warning": "accepted for a while", "note": "note"}
_FENCE = re.compile("`{3,}")


@attrs.frozen
class Head:
    """What is said of a check as a whole.

    Attributes:
        title: The verdict, and how many states it is about.
        about: Lines on what was compared.
        closing: What to do, in words; "" if the steps say it.
        steps: The lines to copy: commands, and what is said of them.
    """

    title: str
    about: tuple[str, ...] = ()
    closing: str = ""
    steps: tuple[str, ...] = ()


def markdown(head: Head, places: Iterable[Place], *, everything: bool = False) -> str:
    """Return a report as Markdown: the verdict, what changed with its ways out, and what to do; failures come first.

    What GitHub would not take for its length is left out, and the text says so.

    Args:
        head: What is said of the check as a whole.
        places: What is said of each state and key.
        everything: Whether equal reports are printed for each place, instead of once for all.
    """
    listed = sorted(places, key=lambda place: not place.fails)
    told = [place for place in listed if place.entries]
    about = [f"{markdown_text(line)}  " for line in head.about]  # each is a line of its own
    before = [f"### {markdown_text(head.title)}", "", *about, ""]
    after = list(_closing(head))
    if fine := len(listed) - len(told):
        other = "other " if told else ""
        after = [f"{many(fine, f'{other}state or key', f'{other}states and keys')}: nothing to do.", "", *after]
    groups = [(place, "") for place in told] if everything else alike(told, _told, lambda place: place.title)
    blocks = ["\n".join(_of(place, others)) for place, others in groups]
    room = _MOST - sum(len(line) + 1 for line in (*before, *after))
    kept = 0
    while kept < len(blocks) and (room := room - len(blocks[kept]) - 1) >= 0:
        kept += 1
    left = len(blocks) - kept
    more = [f"{many(left, 'more report')} would be too long for GitHub; `--json` has all.", ""] if left else []
    lines = "\n".join([*before, *blocks[:kept], *more, *after]).rstrip().split("\n")
    return "".join(f"{log_line(line)}\n" for line in lines)


def write_step_summary(text: str) -> None:
    """Append Markdown to the summary of this step of a GitHub workflow, if this is one.

    Source: GitHub's documentation of workflow commands, "Adding a job summary".
    """
    file = os.environ.get("GITHUB_STEP_SUMMARY", "")
    if not file:
        return
    try:
        with Path(file).open("a", encoding="utf-8") as stream:
            stream.write(text)
    except OSError as error:  # the answer stands: it is in the annotations, and the status
        print_notice(f"GITHUB_STEP_SUMMARY names {file}, which cannot be written: {error.strerror or error}")


def _told(place: Place) -> tuple[object, ...]:
    """Return what is shown of a place beside its name, as data."""
    return place.entries, "" if all(entry.findings for entry in place.entries) else place.about


def _of(place: Place, others: str) -> Iterator[str]:
    yield from (f"#### {markdown_code(place.title)}" if place.title else "#### The job", "")
    for entry in place.entries:
        said = markdown_text(entry.sentence)
        if not entry.findings and place.about and place.about != entry.sentence:
            said += f": {markdown_text(place.about)}"
        yield from (f"{_WORDS[entry.level]}: {said}", "", *_table(entry))
    if others:
        yield from (markdown_text(others), "")


def _table(entry: Entry) -> Iterator[str]:
    if not entry.findings:
        return
    overrides = entry.overrides or (None,) * len(entry.findings)
    rows = []
    for finding, override in zip(entry.findings, overrides, strict=True):
        ways = [] if entry.level == "note" else list(map(on_command_line, finding.ways_out))
        ways = ways if override is None else [f"accepted until {override.expires}: {override.reason}"]
        cells = markdown_code(finding.path), markdown_code(change(finding)), markdown_text(reason_of(finding))
        rows.append([*cells, "<br>or ".join(map(markdown_text, ways))])
    titles = ["where", "what changed", "why", *(["ways out"] if any(row[-1] for row in rows) else [])]
    for row in (titles, ["---"] * len(titles), *rows):
        yield f"| {' | '.join(row[: len(titles)])} |"
    yield ""


def _closing(head: Head) -> Iterator[str]:
    if head.closing:
        yield from (f"**{markdown_text(head.closing)}**", "")
    if head.steps:
        steps = list(map(one_line, head.steps))
        fence = "`" * max([3, *(len(run) + 1 for step in steps for run in _FENCE.findall(step))])
        yield from (f"{fence}text", *steps, fence)
