"""The kinds of stateful operators, as a query's author calls them; and the names that Spark has within them."""

from __future__ import annotations

import re

AGGREGATION, SESSION, JOIN, LIMIT = "aggregation", "session window", "stream-stream join", "limit"
DEDUPLICATION, WITHIN_WATERMARK = "dropDuplicates", "dropDuplicatesWithinWatermark"
GROUPS, GROUPS_OF_SCALA = "applyInPandasWithState", "flatMapGroupsWithState"
TRANSFORM = "transformWithState"
"""What the names of all its flavours begin with: of rows, of frames, and of Scala."""
TRANSFORM_IN_PANDAS, TRANSFORM_OF_SCALA = "transformWithStateInPandas", "transformWithState (Scala)"
OF_VARIABLES = frozenset({TRANSFORM, TRANSFORM_IN_PANDAS, TRANSFORM_OF_SCALA})
"""Operators whose state is in variables."""
OF_SCALA = frozenset({GROUPS_OF_SCALA, TRANSFORM_OF_SCALA})
"""Operators whose state is what an encoder made of objects of Scala."""
WITH_FUNCTION = OF_VARIABLES | {GROUPS, GROUPS_OF_SCALA}
"""Operators whose values are their author's own: a function decides what they have."""
KNOWN = WITH_FUNCTION | {AGGREGATION, SESSION, JOIN, LIMIT, DEDUPLICATION, WITHIN_WATERMARK}
"""All kinds that this release knows."""
TIME_TO_LIVE = "time to live of "
"""What the name of a fact begins with, in front of its variable."""
TIMERS_BY_TIME = {f"${kind}Timers_timestampToKey": f"${kind}Timers_keyToTimestamp" for kind in ("proc", "event")}
"""The families of timers by time, and those by key from which they follow."""
TIMERS = frozenset(TIMERS_BY_TIME.values())

_DERIVED = re.compile(r"\$(?:ttl|min|count|rowCounter)_(.*)", re.DOTALL)


def variable_of(fact: str) -> str:
    """Return the variable whose time to live a fact is; "": it is another one."""
    return fact.removeprefix(TIME_TO_LIVE) if fact.startswith(TIME_TO_LIVE) else ""


def derived_from(name: str) -> str:
    """Return the variable from which a family follows that Spark keeps beside it; "": it is none of these."""
    found = _DERIVED.fullmatch(name)
    return found[1] if found else ""
