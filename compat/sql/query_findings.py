"""What two plans say of a query beside its state: other releases, other options of tables, other rows for a sink.

Rules SQL-16 to SQL-18. None of them refuses: they name what nobody has compared, or what stays as it was sent.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...serializers.compatibility import Finding, Flag, Path, Verdict

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .query import SqlQuery, SqlUpgrade

_NOT_IN_PLANS = (
    "what only the running job says, and no plan: table.exec.async-state.enabled, table.exec.emit.early-fire and"
    " late-fire, the time to live of OVER and temporal joins"
)


def query_findings(upgrade: SqlUpgrade) -> tuple[Finding, ...]:
    """Return what is found on a query as a whole; nothing where the old one is not known."""
    if upgrade.old is None:
        return ()
    return tuple(_found(upgrade.old, upgrade.new))


def not_compared(upgrade: SqlUpgrade) -> tuple[str, ...]:
    """Return what decides what the state is, and was not compared; a line each."""
    functions = (f"the code of the function {name}" for name in upgrade.new.functions)
    return (*(f"{one} is not compared" for one in functions), f"{_NOT_IN_PLANS}, is not compared")


def _found(old: SqlQuery, new: SqlQuery) -> Iterator[Finding]:
    versions = old.flink_version, new.flink_version
    if versions[0] != versions[1]:
        is_other = _minor(versions[0]) != _minor(versions[1])
        reason = (
            "another release plans other layouts: they are compared as far as the plans show them"
            if is_other else "the plans are of two patches of one release"
        )  # fmt: skip
        flags = (Flag.UNVERIFIED,) if is_other else ()
        yield Finding(Path.naming("flinkVersion"), "SQL-16", Verdict.COMPATIBLE, *versions, reason, flags=flags)
    for table in sorted(old.tables.keys() & new.tables.keys()):
        were, are = old.tables[table], new.tables[table]
        names = sorted(name for name in were.keys() | are.keys() if were.get(name) != are.get(name))
        if names:
            yield Finding(
                Path.naming(f"table {table}"), "SQL-17", Verdict.COMPATIBLE, "", "",
                f"the table has other options, whose values are not shown: {', '.join(names)}",
                flags=(Flag.UNVERIFIED,),
            )  # fmt: skip
    for table in sorted(old.sinks.keys() & new.sinks.keys()):
        if old.sinks[table] != new.sinks[table]:
            yield Finding(
                Path.naming(f"sink {table}"), "SQL-18", Verdict.COMPATIBLE, " and ".join(old.sinks[table]),
                " and ".join(new.sinks[table]),
                "the query sends other rows to the table now; what it has sent before stays as it is there",
                flags=(Flag.UNVERIFIED,),
            )  # fmt: skip


def _minor(version: str) -> list[str]:
    return version.split(".")[:2]
