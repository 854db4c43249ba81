"""The plan file: what a migration would do, for people to review and for a later run to be checked against.

    {"format": "stateshift plan", "version": 1, "stateshift": release, "source": …, "new_types": …, "options": …,
     "summary": …, "rollback": …, "operators": [ … {"states": [ … ]} ]}

A plan for the checkpoint of a Spark query is such a file, too: its new types come from a query, its options are those
of the command as they were typed, and `query` in its summary has the digest of all that the copy will contain. What
only a savepoint has is null there.
A run reads from it the origin of the new types and the options, makes the plan again, and compares the rest of the file
with it. So nothing is done that the file does not say, even if the file, the job or the savepoint was changed.
Sentences are not compared: they explain facts that are, and another release may have other words.
"""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Any, Final

import attrs

from ...compat.called_code import DEFAULTS_IN_ORDER
from ...compat.json_files import parse_document, print_document
from ...compat.plain_data import plain
from ...serializers.errors import CorruptFile, DeclarationError, PlanChanged, located
from ...serializers.stored_names import in_known_names
from ...serializers.wording import many, repr_of
from .options import MigrationOptions
from .options_data import options_from_data, options_to_data

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ...compat.entry_samples import EntrySamples
    from ...compat.plain_data import Fields
    from ...compat.plan import MigrationPlan
    from ..savepoint.reader import Savepoint

FORMAT, VERSION = "stateshift plan", 1
JOB, PROBE, SAME, QUERY, PLAN = "job", "probe", "same types", "query", "plan"

RECORDED = "recorded"
"""The field of a rollback with the result according to the old job's code, if the project's history has that code."""
_MEASURED: Final = frozenset({"entries", "bytes", "tried", RECORDED})
"""The fields that a run does not compare: counts of entries, which `_metadata` fixes, and the project's history."""
_DIGEST: Final = frozenset({"plan_sha256"})
_SENTENCES: Final = _DIGEST | {
    *("reason", "reasons", "ways_out", "conversion", "unreadable", "source", "notes", "not_compared", "not_shown"),
    "warnings",
}
"""The fields with sentences, and the digest over them: a difference in these alone is none."""
_MERGES = "merges"
"""The field whose names are those of states, so that none of them is a sentence."""
OF_QUERIES = "spark:"
"""What the place of a source begins with, if it is the checkpoint of a Spark query."""
_FORMER_ACTIONS = {"starts empty": "new", "dropped": "drop"}
"""What was done with states of queries, in files that say nothing else of them."""
_LIMIT = "max_bad_values"
"""The option that may be edited in a file."""
_MOST_DIFFERENCES = 30
CODE = "code"
FILES = "files"
"""The field of a state in databases with what is kept and read of its files."""
STARTS_EMPTY = "starts_empty"
"""The field of a summary with the states that only the new job has, if there are any."""
_LATER = frozenset({FILES, STARTS_EMPTY})
"""The fields that files of earlier releases lack."""


@attrs.frozen
class StoredPlace:
    """The identity of a savepoint, wherever it is.

    Attributes:
        place: The location that the maker of the plan used; for people.
        metadata_sha256: The SHA-256 of its file `_metadata`, in hexadecimal.
    """

    place: str
    metadata_sha256: str

    @classmethod
    def of(cls, savepoint: Savepoint, place: str = "") -> StoredPlace:
        """Return the identity of a savepoint; `place` is the location to show."""
        return cls(place or savepoint.place, savepoint.metadata_sha256)


_SAID = ("allows_partial", "allows_stale", "keeps_newest")
_TEMPLATE = ("template", "template_metadata_sha256")


@attrs.frozen
class NewTypes:
    """The origin of the new types.

    Attributes:
        job: The job as `module:attribute`; "" for a probe, for unchanged types, and for a job passed in Python.
        probe: The probe savepoint that has the new types, or None.
        stay: Whether the types do not change.
        query: The query of Spark as `module:function`, or "".
        plan: The compiled plan of the new query of Flink SQL, or "".
        old_plan: That of the old one, or "".
        allows_partial: Whether aggregates of it may begin now.
        allows_stale: Whether rows that were sent may stay.
        template: A savepoint of the new plan, which has what this release does not write, or None.
        keeps_newest: Whether of stored rows that get one unique key the newest stays.
        old_job: The job that wrote the state, as `module:attribute`, or "".
    """

    job: str = ""
    probe: StoredPlace | None = None
    stay: bool = False
    query: str = ""
    plan: str = ""
    old_plan: str = ""
    allows_partial: bool = False
    allows_stale: bool = False
    template: StoredPlace | None = None
    keeps_newest: bool = False
    old_job: str = ""

    @property
    def said(self) -> dict[str, Any]:
        """What is allowed, or asked for, of a compiled plan; by the names in files, and those of `describe_plans`."""
        return {name: getattr(self, name) for name in _SAID}

    @classmethod
    def read(cls, facts: Fields) -> NewTypes:
        """Read the origin from the fields of a file."""
        kind, place = facts.text("from"), facts.text("place", optional=True)
        digest = facts.text("metadata_sha256", optional=True)
        old_plan = facts.text("old_plan", optional=True) if "old_plan" in facts else ""
        old_job = facts.text("old_job") if "old_job" in facts else ""
        said: dict[str, Any] = {name: name in facts and facts.flag(name) for name in _SAID}
        template = StoredPlace(*map(facts.text, _TEMPLATE)) if _TEMPLATE[0] in facts else None
        facts.require_empty()
        kinds = (JOB, PROBE, QUERY, PLAN, SAME)
        if kind not in kinds:
            raise CorruptFile(f"new types come from one of {', '.join(map(repr, kinds))}, not from {kind[:80]!r}")
        if kind == PLAN:
            return cls(plan=place, old_plan=old_plan, template=template, **said)
        probe = StoredPlace(place, digest) if kind == PROBE else None
        return cls(place if kind == JOB else "", probe, kind == SAME, place if kind == QUERY else "", old_job=old_job)

    def to_data(self) -> dict[str, Any]:
        """Return the origin as plain data."""
        if self.plan:
            given: dict[str, Any] = {"from": PLAN, "place": self.plan, "metadata_sha256": None}
            given["old_plan"] = self.old_plan or None
            given |= {name: True for name, is_said in self.said.items() if is_said}
            if self.template is not None:
                given |= dict(zip(_TEMPLATE, attrs.astuple(self.template), strict=True))
            return given
        kind = SAME if self.stay else PROBE if self.probe else QUERY if self.query else JOB
        place, digest = self.query or self.job, ""
        if self.probe is not None:
            place, digest = self.probe.place, self.probe.metadata_sha256
        former = {"old_job": self.old_job} if self.old_job else {}
        return {"from": kind, "place": place or None, "metadata_sha256": digest or None, **former}

    def __str__(self) -> str:
        if self.stay:
            return "the same types"
        if self.query:
            return f"query {self.query}"
        if self.plan:
            return f"plan {self.plan}" + (f", objects of Java from {self.template.place}" if self.template else "")
        return f"probe {self.probe.place}" if self.probe else f"job {self.job}" if self.job else "a job in Python"


@attrs.frozen(kw_only=True)
class PlanFile:
    """The content of a plan file.

    Attributes:
        stateshift: The release that made the plan.
        source: The savepoint to migrate.
        new_types: The origin of the new types.
        options: The options of the migration.
        summary: The counts of states by action, of streams, entries and bytes; for people.
        rollback: How to go back, and whether the old job could use the result.
        operators: The operators, each with its states; plain data, as in the file.
        typed: Of a query's checkpoint, the options of the command as they were typed; None: it is of a savepoint.
        options_sha256: The digest of the options with which it was made; "" if a file does not say it.
        samples: Entries before and after, if they were asked for; no file has them.
        made: What a run does, which the file tells; None: it was read from a file.
    """

    stateshift: str
    source: StoredPlace
    new_types: NewTypes
    options: MigrationOptions
    summary: dict[str, Any]
    rollback: dict[str, Any]
    operators: list[dict[str, Any]]
    typed: dict[str, Any] | None = None
    options_sha256: str = attrs.Factory(lambda self: self._options_digest(), takes_self=True)
    samples: EntrySamples | None = attrs.field(default=None, eq=False, repr=False)
    made: MigrationPlan | None = attrs.field(default=None, eq=False, repr=False)

    def __repr__(self) -> str:
        counts = ", ".join(f"{count:,} {action}" for action, count in self.summary.get("states", {}).items() if count)
        told = f"{self.summary.get('decision')}; states: {counts or 'none'}"
        return repr_of(self, told, f"from {self.source.place}", f"to {self.new_types}")

    def _repr_html_(self) -> str:
        from ...compat.pages.pieces import Commands
        from ...compat.pages.plan import plan_pieces
        from ...compat.pages.rendering import fragment

        facts = [("source", self.source.place), ("new types", str(self.new_types))]
        states = many(sum(self.summary["states"].values()), "state")
        return fragment(plan_pieces(self.to_data(), self.made, states, facts, Commands(), samples=self.samples))

    def to_data(self) -> dict[str, Any]:
        """Return the plan as plain data, without the file's format and version; equal plans have equal data."""
        return {
            "stateshift": self.stateshift,
            "source": plain(self.source),
            "new_types": self.new_types.to_data(),
            "options": options_to_data(self.options) if self.typed is None else self.typed,
            "options_sha256": self.options_sha256 or None,
            "summary": self.summary,
            "rollback": self.rollback,
            "operators": self.operators,
        }

    def to_json(self) -> str:
        """Return the text of the file."""
        return print_document(FORMAT, VERSION, self.to_data())

    @classmethod
    def from_json(cls, text: str | bytes, *, file: str = "") -> PlanFile:
        """Read the text of a file. Nothing in it is imported, evaluated or unpickled.

        Args:
            text: The content.
            file: The name of the file in messages.

        Raises:
            CorruptFile: The content is no plan.
            UnsupportedFormat: The file was made by a later release.
        """
        with located(file=file or None):
            facts = parse_document(text, FORMAT, VERSION)
            source, new_types = facts.required("source"), NewTypes.read(facts.required("new_types"))
            place = source.text("place")
            options = facts.required("options")
            typed = options.rest() if place.startswith(OF_QUERIES) else None
            found = cls(
                stateshift=facts.text("stateshift"),
                source=StoredPlace(place, source.text("metadata_sha256")),
                new_types=new_types,
                options=options_from_data(options) if typed is None else MigrationOptions(),
                typed=typed,
                summary=facts.required("summary").rest(),
                rollback=facts.required("rollback").rest(),
                operators=[_in_present_words(operator.rest()) for operator in facts.objects("operators")],
                options_sha256=facts.text("options_sha256", optional=True) if "options_sha256" in facts else "",
            )
            source.require_empty()
            facts.require_empty()
            return found

    def require_same_source(self, savepoint: Savepoint) -> None:
        """Check that a savepoint is the one that was planned for.

        Raises:
            PlanChanged: Its `_metadata` differs.
        """
        found = savepoint.metadata_sha256
        if found != self.source.metadata_sha256:
            raise PlanChanged.before_writing(
                f"the plan is for another savepoint: the one at {self.source.place}, whose _metadata has a different "
                "sha256",
                differences=(f"source: sha256 of _metadata: {self.source.metadata_sha256} in the plan, {found} here",),
                advice="migrate the savepoint that the plan was made for, or make the plan again",
                savepoint=savepoint.place,
            )

    def require_same_options(self, options: MigrationOptions) -> None:
        """Check that options are those of the plan.

        Raises:
            DeclarationError: They differ; the message has their names.
        """
        if options != self.options:
            fields = [field.name for field in attrs.fields(MigrationOptions)]
            names = ", ".join(name for name in fields if getattr(options, name) != getattr(self.options, name))
            raise DeclarationError.before_writing(
                f"the options of the plan differ from those given: {names}",
                advice="leave them out: the options of a plan are in its file",
            )

    def require_same(self, now: PlanFile) -> None:
        """Check that a run would do exactly what the file says.

        Args:
            now: The plan that was made from the present savepoint and job.

        Raises:
            PlanChanged: The plans differ; the error lists the differences, by operator, state and field.
        """
        if self.typed is not None and "query" not in self.summary:
            now = now.in_former_shape()
        differences = self._differences(now, _SENTENCES)
        if not differences:
            return
        if self.stateshift == now.stateshift:  # the same words, so that a sentence that differs explains a difference
            differences = self._differences(now, _DIGEST)
        shown = differences[:_MOST_DIFFERENCES]
        if len(differences) > len(shown):
            shown.append(f"and {len(differences) - len(shown):,} more")
        others = f"; it was made by stateshift {self.stateshift}, this is {now.stateshift}"
        raise PlanChanged.before_writing(
            "the run would not do what the plan describes" + (others if self.stateshift != now.stateshift else ""),
            differences=tuple(shown),
        )

    def in_former_shape(self) -> PlanFile:
        """Return the plan of a query with what its first files said, and nothing else."""
        query = self.summary["query"]
        dropped = [one["was"] for one in query["operators"] if not one["becomes"]]
        facts = {name: query[name] for name in query if name not in {"operators", "warnings"}}
        summary = facts | {"decision": self.summary["decision"], "dropped_operators": dropped}
        operators = [
            {
                **{name: one[name] for name in ("operator_id", "uid")},
                "states": [
                    {"name": of["new_name"] or of["name"], **{name: of[name] for name in ("kind", "action")}}
                    for of in one["states"]
                ],
            }
            for one in self.operators
        ]
        return attrs.evolve(self, summary=summary, operators=operators)

    def _options_digest(self) -> str:
        """Return the digest of the options that are not the default ones, so that further options do not change it."""
        said = self.typed
        if said is None:
            defaults, given = options_to_data(MigrationOptions()), options_to_data(self.options).items()
            said = {name: value for name, value in given if value != defaults[name] and name != _LIMIT}
        return hashlib.sha256(json.dumps(said, sort_keys=True).encode()).hexdigest()

    def _differences(self, now: PlanFile, ignored: frozenset[str]) -> list[str]:
        is_edited = self.options_sha256 not in {"", self._options_digest()}
        return [
            *(["options: they were edited after the plan was made"] if is_edited else []),
            *([] if self.typed is None else _fact_differences("source", self.source.place, now.source.place, ignored)),
            *_fact_differences("summary", self.summary, now.summary, ignored),
            *_fact_differences("rollback", self.rollback, now.rollback, ignored),
            *_operator_differences(self.operators, now.operators, ignored),
        ]


def _in_present_words(operator: dict[str, Any]) -> dict[str, Any]:
    """Return an operator of a file with the present words for what is done with its states."""
    states = operator.get("states")
    for state in states if isinstance(states, list) else ():
        if isinstance(state, dict) and (word := _FORMER_ACTIONS.get(str(state.get("action")))):
            state["action"] = word
    return operator


def _operator_differences(
    planned: list[dict[str, Any]], now: list[dict[str, Any]], ignored: frozenset[str]
) -> Iterator[str]:
    ours, theirs = ({_text(operator.get("operator_id")): operator for operator in side} for side in (planned, now))
    for operator_id in dict.fromkeys([*ours, *theirs]):
        one, other = ours.get(operator_id), theirs.get(operator_id)
        named = one or other or {}
        title = f"operator {_text(named.get('uid') or operator_id)}"
        if one is None or other is None:
            yield f"{title}: {_presence(one)}"
            continue
        yield from _fact_differences(title, _without_states(one), _without_states(other), ignored)
        yield from _state_differences(title, one.get("states"), other.get("states"), ignored)
    if len(ours) < len(planned):
        yield "operators: one is listed twice in the plan"


def _without_states(operator: dict[str, Any]) -> dict[str, Any]:
    return {name: fact for name, fact in operator.items() if name != "states"}


def _presence(planned: object) -> str:
    return "not in the plan" if planned is None else "only in the plan"


def _state_differences(title: str, planned: Any, now: Any, ignored: frozenset[str]) -> Iterator[str]:
    if not isinstance(planned, list) or not all(isinstance(state, dict) for state in planned):
        yield f"{title}: the plan has no list of states"
        return
    ours, theirs = ({(_text(s.get("kind")), _text(s.get("name"))): s for s in side} for side in (planned, now))
    for place in dict.fromkeys([*ours, *theirs]):
        where = f"{title}, state {place[1]}"
        one, other = ours.get(place), theirs.get(place)
        if one is None or other is None:
            yield f"{where}: {_presence(one)}"
        else:
            yield from _fact_differences(where, one, other, ignored)
    if len(ours) < len(planned):
        yield f"{title}: a state is listed twice in the plan"


def _fact_differences(where: str, planned: Any, now: Any, ignored: frozenset[str], name: str = "") -> Iterator[str]:
    """Yield a text for each innermost fact that differs; `ignored` names facts that do not count."""
    if isinstance(planned, dict) and isinstance(now, dict):
        skipped = ignored if name else ignored | _MEASURED
        if name.endswith(_MERGES):
            skipped = frozenset()
        for key in dict.fromkeys([*planned, *now]):
            if key == CODE:
                yield from _code_differences(where, planned.get(key), now.get(key))
            elif key not in skipped and (key not in _LATER or key in planned):
                inner = f"{name}.{key}" if name else _text(key)
                yield from _fact_differences(where, planned.get(key), now.get(key), ignored, inner)
    elif isinstance(planned, list) and isinstance(now, list):
        ours, theirs = _labelled(planned), _labelled(now)
        for label in dict.fromkeys([*ours, *theirs]):
            one, other = ours.get(label), theirs.get(label)
            if one is None or other is None:
                yield f"{where}: {name}: {label}: {_presence(one)}"
            else:
                yield from _fact_differences(where, one, other, ignored, f"{name}: {label}")
    elif _known(planned) != _known(now) or isinstance(planned, bool) is not isinstance(now, bool):
        yield f"{where}: {name}: {_text(planned)} in the plan, {_text(now)} here"


def _known(fact: Any) -> Any:
    """Return a fact with former names of things in this package replaced by their present ones."""
    return in_known_names(fact) if isinstance(fact, str) else fact


def _code_differences(where: str, planned: Any, now: Any) -> Iterator[str]:
    """Yield a text for each function whose code differs."""
    ours, theirs = (side if isinstance(side, dict) else {} for side in (planned, now))
    for name in dict.fromkeys([*ours, *theirs]):
        if name == DEFAULTS_IN_ORDER and name not in ours:
            continue  # plans of earlier releases do not have it
        if ours.get(name) != theirs.get(name):
            one, other = _text(ours.get(name)), _text(theirs.get(name))
            yield f"{where}: code of {_text(name)}, or what it calls: {one} in the plan, {other} here"


def _labelled(items: list[Any]) -> dict[str, Any]:
    """Return the items of a list by labels for people: the path and the rule, the text, else the index."""
    found: dict[str, Any] = {}
    for index, item in enumerate(items):
        label = _text(item) if isinstance(item, str) else str(index)
        if isinstance(item, dict) and "path" in item:
            label = f"{_text(item['path'])}  [{_text(item['rule'])}]" if "rule" in item else _text(item["path"])
        found[f"{label} ({index})" if label in found else label] = item
    return found


def _text(value: Any) -> str:
    text = "nothing" if value is None else str(value)
    return text if len(text) <= 200 else text[:199] + "…"
