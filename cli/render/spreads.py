"""How entries are spread over key groups, subtasks or partitions: a sentence, and bars; from the data of `--json`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...serializers.wording import many
from ...state.progress import size_text
from ..output import Column, styled_table
from .bars import bar, percent

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from ..output import Block, Line

    Data = Mapping[str, Any]

_NUMBERS = (Column("entries", is_number=True), Column("bytes", is_number=True), Column("share", is_number=True))
_MOST = 16
_MUCH = 2.0


def spread_lines(name: str, spread: Data, shares: Sequence[Data], *, with_bars: bool = True) -> Iterator[Block]:
    """Yield how entries are spread.

    Args:
        name: key_groups, subtasks or partitions.
        spread: The distribution of their bytes: `smallest`, `largest`, `median`, `average`.
        shares: Each of them, in order; of key groups, ranges of them.
        with_bars: Whether each has a bar, or the largest if they are many.
    """
    of, order = name.replace("_", " ").removesuffix("s"), list(range(len(shares)))
    title = many(shares[-1]["last"] + 1 if name == "key_groups" else len(shares), of)
    if with_bars and len(shares) > _MOST:
        order = sorted(order, key=lambda at: -shares[at]["bytes"])[:_MOST]
        title = f"the {_MOST} largest of {title}"
    sizes = [size_text(int(spread[one])) for one in ("smallest", "largest", "median")]
    average = spread["average"]
    skew = f", largest {spread['largest'] / average:.1f} x the average" if average else ""
    yield [(f"  {title} of {sizes[0]} to {sizes[1]}, median {sizes[2]}{skew}", "bold")]
    if not with_bars:
        return
    whole, groups = sum(one["bytes"] for one in shares), sum(map(_width, shares))
    largest = max(one["bytes"] for one in shares)
    rows: list[Line] = []
    for at, one in ((at, shares[at]) for at in order):
        is_much = one["bytes"] > _MUCH * whole * _width(one) / groups
        span = f"{one['first']}-{one['last']}" if _width(one) > 1 else str(one["first"])
        names = [str(at)] * (name == "subtasks") + [span]
        numbers = [f"{one['entries']:,}", f"{one['bytes']:,}", percent(one["bytes"], whole)]
        drawn = (bar(one["bytes"], largest), "red" if is_much else "green")
        rows.append([*((text, "") for text in (*names, *numbers)), drawn])
    titles = {"subtasks": ("subtask", "key groups"), "partitions": ("partition",)}.get(name, ("key groups",))
    yield from styled_table((*(Column(one, is_number=True) for one in titles), *_NUMBERS, Column("")), rows, indent=4)


def _width(share: Data) -> int:
    return int(share["last"] - share["first"] + 1)
