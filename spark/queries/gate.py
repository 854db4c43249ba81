"""The gate for the streaming queries of a repository: each is compared with its description, which is kept there.

[tool.stateshift]
queries = { clicks = "clicks:build_query" }

    state_history/queries/clicks.json    the query as it runs in production, in a sealed file

There is no checkpoint: a change is found before it meets one. Spark plans all queries in one session, and starts none.
"""

from __future__ import annotations

import datetime as dt
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

import attrs

from ...compat.explain import obstacles
from ...compat.gate import levels
from ...compat.gate.losses import Guard
from ...compat.gate.recorded_queries import FOLDER, SUFFIX, read_query, same
from ...compat.queries.verdict import judge
from ...compat.report import worst_decision
from ...serializers.compatibility import Decision
from ...serializers.errors import DeclarationError, located
from ...serializers.ways_out import WayOut
from ...serializers.wording import shell_word
from ...state.project import Project
from ...state.project_settings import FILE
from .check import load_query
from .description import describe_planned
from .planning import UnstartedQuery, planned

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from pyspark.sql import SparkSession

    from ...compat.description import JobDescription
    from ...compat.gate.levels import GateReport, Level
    from ...compat.report import CheckReport

_ZONE = "spark.sql.session.timeZone"
_RECORD = "stateshift snapshot --queries"


@attrs.frozen
class QueryCheck:
    """The verdict on a listed query.

    Attributes:
        name: Its name in the settings.
        report: The verdict on its operators.
        gate: The same against the levels, overrides and allowed losses of the project.
        drift: How it differs from its description in the repository; "": it does not.
    """

    name: str
    report: CheckReport
    gate: GateReport
    drift: str = ""

    @property
    def decision(self) -> Decision:
        """Whether it is refused by the gate; else whether its state must be migrated."""
        if not self.gate.passes:
            return Decision.REFUSE
        is_migrated = any(one.is_migrated and one.level is not levels.Level.NONE for one in self.gate.states)
        return Decision.MIGRATE if is_migrated else Decision.START


@attrs.frozen
class QueryChecks:
    """The verdicts on all listed queries.

    Attributes:
        checks: A verdict for each, in the order of the settings.
    """

    checks: tuple[QueryCheck, ...]

    @property
    def reports(self) -> dict[str, CheckReport]:
        """The reports by the name of the query."""
        return {one.name: one.report for one in self.checks}

    @property
    def decision(self) -> Decision:
        """The worst decision of all."""
        return worst_decision(one.decision for one in self.checks)

    def assert_start(self) -> None:
        """Assert that each query can go on from the state of the query that its description says.

        Raises:
            AssertionError: One cannot, or it can and differs from its description.
        """
        __tracebackhide__ = True
        found = [
            f"{one.name}: {one.decision}: " + ("; ".join(obstacles(one.report)) or one.drift)
            for one in self.checks
            if one.decision is not Decision.START or one.drift
        ]
        if found:
            found.append(f"if that is meant, and the state is taken care of: {_RECORD}, and commit the file")
            raise AssertionError("\n".join(found))


@attrs.frozen
class QueryGate:
    """The queries that a project lists, and the folder of what is recorded of it.

    Attributes:
        project: Its settings.
        history: The folder of what is recorded; descriptions of queries are in its folder `queries`.
    """

    project: Project
    history: Path

    @property
    def folder(self) -> Path:
        """The folder of its `pyproject.toml`."""
        return self.project.folder

    @property
    def places(self) -> Mapping[str, str]:
        """The functions that build the queries, as `module:function`, by the name of the query."""
        return self.project.queries

    @classmethod
    def find(cls, start: Path) -> QueryGate:
        """Return the queries that the nearest `pyproject.toml` with settings lists, in a folder or above it.

        Raises:
            DeclarationError: It lists none, or not as it should.
        """
        project = Project.find(start)
        if not project.queries:
            raise DeclarationError(
                "[tool.stateshift] lists no queries",
                advice='list the functions that build them: queries = { clicks = "clicks:build_query" }',
                file=str(project.folder / FILE),
            )
        return cls(project, project.history)

    def file(self, name: str) -> Path:
        """Return the file with the description of a query."""
        return self.history / FOLDER / f"{name}{SUFFIX}"

    def shown(self, file: Path) -> str:
        """Return a file as messages name it: from the project's folder."""
        return file.relative_to(self.folder).as_posix() if file.is_relative_to(self.folder) else str(file)

    def stored(self) -> dict[str, JobDescription]:
        """Return the descriptions of all listed queries.

        Raises:
            DeclarationError: A query has none, or there is one of a query that is not listed.
            CorruptFile: One was edited, or is no description.
        """
        for file in sorted((self.history / FOLDER).glob(f"*{SUFFIX}")):
            if file.name.removesuffix(SUFFIX) not in self.places:
                raise DeclarationError(
                    f"{self.shown(file)} is of no listed query, so that nothing is compared with it",
                    advice=f"list the query in {FILE}, or rename the file, if the query has another name; or delete it,"
                    " if the query and its state are given up",
                )
        for name in self.places:
            if not self.file(name).exists():
                raise DeclarationError(
                    f"query {name!r} has no description: there is no {self.shown(self.file(name))}",
                    advice=WayOut(
                        "with the code that runs in production:", command=_RECORD, more=", and commit the file"
                    ),
                )
        return {name: self.read(name) for name in self.places}

    def read(self, name: str) -> JobDescription:
        """Return the description of a query; see `stored`."""
        file = self.file(name)
        return read_query(file.read_bytes(), self.shown(file))

    def describe(self, name: str, spark: SparkSession, settings: Mapping[str, str] | None = None) -> JobDescription:
        """Return the description of a query as its function builds it now.

        Args:
            name: Its name.
            spark: The session; settings that the function changes are set back.
            settings: Those of an earlier description, under which Spark plans; None: those of the session.

        Raises:
            JobNotFound: There is no such function, or it fails.
            StateShiftError: Spark does not plan the query.
        """
        place = self.places[name]
        with located(file=str(self.folder / FILE)), settings_kept(spark), _searched(str(self.folder)):
            if settings and _ZONE in settings:  # casts between times and dates have it in their text
                spark.conf.set(_ZONE, settings[_ZONE])
            query = UnstartedQuery.of(load_query(place, spark))
            with planned(query, settings) as plan:
                described = describe_planned(plan, f"query {place}")
            zone = {_ZONE: str(query.frame.sparkSession.conf.get(_ZONE))}
        return attrs.evolve(described, settings={**described.settings, **zone})

    def check(
        self,
        spark: SparkSession,
        *,
        earlier: Mapping[str, JobDescription] | None = None,
        level: Level | None = None,
        strict: bool = False,
        guard: Guard | None = None,
    ) -> QueryChecks:
        """Compare all listed queries with their descriptions.

        Args:
            spark: The session that plans them.
            earlier: Other descriptions to compare with, such as those of a branch; those in the repository stand in
                for what is not there.
            level: The level in place of the project's own.
            strict: Whether a required migration is refused.
            guard: Losses that are allowed besides the project's; rules that are accepted, flags that are refused.

        Raises:
            DeclarationError, CorruptFile: As `stored`.
            JobNotFound, StateShiftError: As `describe`.
        """
        kept, checks = self.stored(), []
        guard = guard or Guard()
        guard = attrs.evolve(guard, allow=(*self.project.allow, *guard.allow))
        for name, described in kept.items():
            old = (earlier or {}).get(name, described)
            new = self.describe(name, spark, old.settings)
            command = f"stateshift migrate spark:OLD spark:NEW --query {shell_word(self.places[name])}"
            report = judge(old, new, known=old, accept=guard.accept, policy=guard.policy, command=command)
            project = self.project.of_query(name)
            project.require_known((new, old))
            gate = levels.judge(
                [levels.Revision(old.origin, old)],
                new,
                levels.Levels(level) if level else project.levels,
                today=dt.datetime.now(tz=dt.UTC).date(),
                overrides=project.overrides,
                strict=strict,
                guard=guard,
            )
            drift = "" if same(new, described) else f"differs from {described.origin}"
            checks.append(QueryCheck(name, report, gate, drift))
        return QueryChecks(tuple(checks))


@contextmanager
def settings_kept(spark: SparkSession) -> Iterator[None]:
    """Restore the settings of a session after the `with` block: the next query is planned without them."""
    before = spark.conf.getAll
    try:
        yield
    finally:
        for name, value in spark.conf.getAll.items():
            if name not in before:
                spark.conf.unset(name)
            elif before[name] != value:
                spark.conf.set(name, before[name])


@contextmanager
def _searched(folder: str) -> Iterator[None]:
    """Import modules from the project's folder, too, within the `with` block."""
    if folder in sys.path:
        yield
        return
    sys.path.insert(0, folder)
    try:
        yield
    finally:
        sys.path.remove(folder)
