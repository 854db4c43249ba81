"""The plan file: it says what a run would do, and a run does that or nothing."""

from __future__ import annotations

import copy
import datetime as dt
import functools
import hashlib
import json
import operator
from pathlib import Path
from typing import Annotated

import attrs
import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

from stateshift import (
    BadValues,
    Compression,
    CorruptFile,
    DeclarationError,
    Edits,
    Field,
    Flag,
    IncompatibleState,
    Int32,
    Job,
    ListStateDescriptor,
    MigrationOptions,
    Operator,
    PlanChanged,
    Policy,
    Repartition,
    Savepoint,
    SavepointWriter,
    StateShiftError,
    StateTransform,
    Target,
    UnsupportedFormat,
    ValueNotConvertible,
    ValueStateDescriptor,
    parse_edits,
    record,
    serializer_for,
)
from stateshift.cli.render.plan import plan_lines
from stateshift.compat.plan_data import to_data
from stateshift.compat.rules import rule_book
from stateshift.serializers.primitives.text import StringSerializer
from stateshift.state.migration.options_data import options_to_data
from stateshift.state.migration.plan_file import NewTypes, PlanFile, StoredPlace
from stateshift.state.migration.planning import make_plan, new_side_of, prepare_as_planned


@record(java_class="fx.evo.Account")
@attrs.frozen
class Account:
    id: int
    name: str
    visits: int
    obsolete: str | None = None


@record(java_class="fx.evo.Account")
@attrs.frozen
class Renamed:
    id: int
    title: Annotated[str, Field(aliases=["name"])]
    visits: Int32
    obsolete: str | None = None


@attrs.frozen
class InPython:
    id: int


def in_python(account):
    return InPython(account.id)


@record(java_class="fx.evo.Account")
@attrs.frozen
class Scored:
    id: int
    name: str
    visits: int
    obsolete: str | None = None
    score: float = 0.5
    grade: float = 1.5


def job_of(account, **more):
    return Job([Operator("account-state", key=int, states=[ValueStateDescriptor("account", account, **more)])])


WIDER, RENAMED = job_of(Account), job_of(Renamed)
DEFAULTS = MigrationOptions()
IN_PYTHON = NewTypes()


@pytest.fixture
def savepoint(savepoint_of):
    return Savepoint.open(savepoint_of("rocksdb-account-v1"))


@pytest.fixture
def plan(savepoint):
    return make_plan(savepoint, WIDER, DEFAULTS, IN_PYTHON)


def state(plan, name):
    return next(state for one in plan.operators for state in one["states"] if state["name"] == name)


def edited(plan, change):
    data = json.loads(plan.to_json())
    change(data)
    return PlanFile.from_json(json.dumps(data))


class TestContent:
    """What a reviewer finds in the file."""

    def test_each_state_has_reader_conversion_writer_amount_and_proof(self, plan):
        """READ-5: the reader, and one entry of each state that is converted was tried."""
        account = state(plan, "account")

        assert ("convert", 10, 435, True) == tuple(account[name] for name in ("action", "entries", "bytes", "tried"))
        assert [
            {"path": "$", "reader": "snapshot", "converter": None, "writer": "PojoSerializer"},
        ] == account["rewrites"]
        widened = next(finding for finding in account["findings"] if finding["rule"] == "PRIM-2")
        assert ("$.visits", "int", "long") == (widened["path"], widened["old"], widened["new"])
        assert rule_book()["PRIM-2"].conversion == widened["conversion"]

    def test_a_state_that_stays_is_reported_too(self, plan):
        kept = state(plan, "version-free")

        assert ("copy", 10, [], []) == tuple(kept[name] for name in ("action", "entries", "rewrites", "findings"))
        assert {"decision": "start", "reasons": []} == kept["old_job"]

    def test_the_sums_are_those_of_the_states(self, plan):
        states = [state for one in plan.operators for state in one["states"]]

        assert sum(state["entries"] for state in states) == plan.summary["entries"]
        assert {"copy": 6, "relabel": 0, "rekey": 0, "convert": 1, "drop": 0} == plan.summary["states"]

    def test_whether_flink_restores_the_result_is_reported(self, savepoint):
        """Not with a record of Python alone; and of an operator that is not the job's, nothing is said."""
        told = [
            make_plan(savepoint, job, DEFAULTS, IN_PYTHON, counted=False).summary["flink_restorable"]
            for job in (WIDER, job_of(InPython, converter=in_python))
        ]

        assert [True, False] == told

    def test_a_new_uid_is_reported_and_a_uid_that_stays_is_not_called_new(self, savepoint):
        options = MigrationOptions(edits=parse_edits(rename_uids=["account-state=accounts"]))
        plan = make_plan(savepoint, None, options, NewTypes(stay=True))

        assert [("account-state", "accounts"), ("account-state-lists", None)] == sorted(
            (operator["uid"], operator["new_uid"]) for operator in plan.operators
        )

    def test_what_was_not_counted_is_null(self, savepoint):
        plan = make_plan(savepoint, WIDER, DEFAULTS, IN_PYTHON, counted=False)

        assert (None, None) == (state(plan, "account")["entries"], plan.summary["entries"])
        assert state(plan, "account")["tried"] is True

    def test_the_source_is_known_by_the_digest_of_its_metadata(self, savepoint_of, plan):
        file = savepoint_of("rocksdb-account-v1") / "_metadata"

        assert hashlib.sha256(file.read_bytes()).hexdigest() == plan.source.metadata_sha256

    def test_a_converter_and_a_fallback_are_reported_by_their_names(self, savepoint):
        job = job_of(Account, converter=to_account)

        plan = make_plan(savepoint, job, DEFAULTS, IN_PYTHON)

        assert [f"{__name__}.to_account"] == [rewrite["converter"] for rewrite in state(plan, "account")["rewrites"]]

    def test_an_entry_that_cannot_be_converted_is_found_and_there_is_no_plan(self, savepoint):
        job = job_of(Account, converter=dt.datetime.fromisoformat)

        with pytest.raises(ValueNotConvertible, match="fromisoformat"):
            make_plan(savepoint, job, DEFAULTS, IN_PYTHON)

    def test_what_the_check_refuses_has_no_plan(self, savepoint):
        job = Job([Operator("account-state", key=int, states=[ValueStateDescriptor("version-free", bool)])])

        with pytest.raises(IncompatibleState):
            make_plan(savepoint, job, DEFAULTS, IN_PYTHON)

    def test_a_plan_without_changes_says_start(self, savepoint):
        plan = make_plan(savepoint, None, DEFAULTS, NewTypes(stay=True))

        assert ("start", "start") == (plan.summary["decision"], plan.rollback["old_job_on_result"])


def to_account(old):
    return Account(old.id, old.name, old.visits, old.obsolete)


class TestRollback:
    """RUN-8: the source stays; what the old job could make of the result is asked, state by state."""

    def test_a_widened_number_does_not_go_back(self, plan):
        assert "refuse" == state(plan, "account")["old_job"]["decision"]
        assert "a stored long may not fit an int  [PRIM-3]" in state(plan, "account")["old_job"]["reasons"][0]
        assert "refuse" == plan.rollback["old_job_on_result"]

    def test_a_renamed_field_goes_back_with_a_loss(self, savepoint):
        plan = make_plan(savepoint, RENAMED, DEFAULTS, IN_PYTHON)

        loss = "which drops $.title and fills $.name with a default"
        assert {"decision": "migrate", "reasons": [f"only after a migration back, {loss}"]} == (
            state(plan, "account")["old_job"]
        )

    @pytest.mark.parametrize(
        ("edits", "reason"),
        [
            ({"drop": ["account"]}, "the state is dropped; the old job would start it empty"),
            ({"rename_states": ["account=konto"]}, "it is now called konto; the old job would start it empty"),
            (
                {"rename_uids": ["account-state=accounts"]},
                "its operator now has the uid accounts; the old job would start it empty",
            ),
        ],
    )
    def test_what_is_dropped_or_renamed_is_not_found_by_the_old_job(self, savepoint, edits, reason):
        plan = make_plan(savepoint, None, MigrationOptions(edits=parse_edits(**edits)), NewTypes(stay=True))

        assert {"decision": "refuse", "reasons": [reason]} == state(plan, "account")["old_job"]

    def test_other_key_groups_bind_an_old_job_that_sets_their_number(self, savepoint):
        """ROLE-4."""
        options = MigrationOptions(repartition=Repartition(max_parallelism=1000))

        plan = make_plan(savepoint, None, options, NewTypes(stay=True))

        reason = "unless it sets a max parallelism: that of the operator is now 1,000"
        assert {"decision": "start", "reasons": [reason]} == state(plan, "account")["old_job"]

    def test_a_key_of_another_type_does_not_go_back(self, savepoint):
        """ROLE-4."""
        keyed = Operator(
            "account-state", key=str, key_converter=str, states=[ValueStateDescriptor("version-free", int)]
        )

        plan = make_plan(savepoint, Job([keyed]), MigrationOptions(repartition=Repartition()), IN_PYTHON)

        rollback = {"decision": "refuse", "reasons": ["not checked: the key of its operator is refused"]}
        assert rollback == state(plan, "version-free")["old_job"]
        assert "refuse" == plan.rollback["old_job_on_result"]

    def test_another_parallelism_does_not_keep_the_old_job_from_the_result(self, savepoint):
        plan = make_plan(savepoint, None, MigrationOptions(parallelism=4), NewTypes(stay=True))

        assert "start" == plan.rollback["old_job_on_result"]
        assert {"old": 2, "new": 4} == plan.operators[0]["parallelism"]


class TestFile:
    """What is written is read back, the same for the same savepoint and types; nothing else is taken for a plan."""

    def test_it_is_read_back(self, plan):
        assert plan == PlanFile.from_json(plan.to_json())

    def test_it_is_the_same_when_made_again(self, savepoint, plan):
        assert plan.to_json() == make_plan(savepoint, WIDER, DEFAULTS, IN_PYTHON).to_json()

    def test_all_options_are_kept(self, savepoint):
        options = MigrationOptions(
            restore_target=Target.FLINK_2_3,
            edits=parse_edits(drop=["pending"], rename_states=["account=konto"], rename_uids=["account-state=a"]),
            parallelism=3,
            compression=Compression.SNAPPY,
            reference_time=dt.datetime(2026, 1, 31, 12, tzinfo=dt.UTC),
            trust_stored_serializers=True,
            policy=Policy([Flag.LOSSY, Flag.UNVERIFIED]),
            bad_values=BadValues.QUARANTINE,
            max_bad_values=7,
        )

        plan = make_plan(savepoint, None, options, NewTypes(stay=True))

        assert options == PlanFile.from_json(plan.to_json()).options

    def test_every_option_has_a_form_in_the_file(self):
        """An option without one could not be planned with."""
        assert [field.name for field in attrs.fields(MigrationOptions)] == list(options_to_data(DEFAULTS))

    @pytest.mark.parametrize(
        ("change", "message"),
        [
            (lambda data: data.pop("source"), "the document lacks 'source'"),
            (lambda data: data.update(more=1), "the document has 'more', which this release does not know"),
            (lambda data: data["options"].update(force=True), "'options' has 'force', which this release does not"),
            (lambda data: data["options"].update(compression="zip"), "'zip' is not a valid Compression"),
            (lambda data: data["options"]["policy"].update(forbid=["all"]), "'all' is not a valid Flag"),
            (lambda data: data["options"].update(max_bad_values=0), "the options are not valid"),
            (lambda data: data["options"].update(trust_stored_serializers="yes"), "should be true or false"),
            (lambda data: data["options"]["edits"].update(rename_states=["a"]), "a list of pairs of strings"),
            (lambda data: data["new_types"].update({"from": "air"}), "not from 'air'"),
            (lambda data: data.update(operators=[1]), "'operators' of the document should be a list of objects"),
            (lambda data: data.update(format="stateshift snapshot"), "its format is 'stateshift snapshot'"),
        ],
    )
    def test_what_is_no_plan_is_refused(self, plan, change, message):
        with pytest.raises(CorruptFile, match=message):
            edited(plan, change)

    def test_a_later_version_says_so(self, plan):
        with pytest.raises(UnsupportedFormat, match="has version 9, but this release reads 1"):
            edited(plan, lambda data: data.update(version=9))

    def test_a_name_given_twice_is_refused(self, plan):
        """A reviewer would see the one, and a program take the other."""
        text = plan.to_json().replace('"options": {', '"options": {}, "options": {', 1)

        with pytest.raises(CorruptFile, match="the name 'options' is given twice"):
            PlanFile.from_json(text)


class TestRun:
    """What would be done is held against the file, before anything is written."""

    def test_the_same_savepoint_and_job_are_what_was_planned(self, savepoint, plan):
        prepared = prepare_as_planned(savepoint, WIDER, DEFAULTS, PlanFile.from_json(plan.to_json()))

        assert "convert" == next(s for s in prepared.plan.operators[0].states if s.name == "account").action

    def test_options_come_from_the_file(self, savepoint):
        options = MigrationOptions(parallelism=5)
        plan = make_plan(savepoint, WIDER, options, IN_PYTHON)

        prepared = prepare_as_planned(savepoint, WIDER, DEFAULTS, plan)

        assert 5 == prepared.plan.operators[0].parallelism

    def test_other_options_are_refused(self, savepoint, plan):
        with pytest.raises(
            DeclarationError, match="the options of the plan differ from those given: parallelism, compression"
        ):
            prepare_as_planned(savepoint, WIDER, MigrationOptions(parallelism=5, compression=Compression.SNAPPY), plan)

    def test_another_savepoint_is_refused(self, savepoint_of, plan):
        other = Savepoint.open(savepoint_of("hashmap-account-v1"))

        with pytest.raises(PlanChanged, match="the plan is for another savepoint") as error:
            prepare_as_planned(other, WIDER, DEFAULTS, plan)

        assert other.place == error.value.where["savepoint"]
        assert "Nothing was written." == error.value.written

    def test_the_same_savepoint_elsewhere_is_taken(self, savepoint_copy, plan):
        moved = Savepoint.open(savepoint_copy("rocksdb-account-v1"))

        assert prepare_as_planned(moved, WIDER, DEFAULTS, plan).tasks

    def test_another_job_is_refused_with_every_difference(self, savepoint, plan):
        with pytest.raises(PlanChanged) as error:
            prepare_as_planned(savepoint, RENAMED, DEFAULTS, plan)

        place = "operator account-state, state account: "
        assert f"{place}findings: $.visits  [PRIM-2]: only in the plan" in error.value.differences
        assert f"{place}findings: $.title  [REC-6]: not in the plan" in error.value.differences
        assert any(line.startswith(f"{place}new.type: pojo") for line in error.value.differences)

    def test_a_plan_from_before_the_order_of_defaults_was_stored_is_accepted(self, savepoint):
        wanted = job_of(Scored)
        plan = make_plan(savepoint, wanted, DEFAULTS, IN_PYTHON)

        def as_before(data):
            found = [one["code"] for one in data["operators"][0]["states"] if one["name"] == "account"]
            del found[0]["defaults in their order"]

        assert prepare_as_planned(savepoint, wanted, DEFAULTS, edited(plan, as_before)).tasks

    def test_another_converter_is_refused_by_its_name(self, savepoint):
        def to_account(old):
            return Account(old.id, old.name, old.visits)

        plan = make_plan(savepoint, job_of(Account, converter=globals()["to_account"]), DEFAULTS, IN_PYTHON)

        with pytest.raises(PlanChanged) as error:
            prepare_as_planned(savepoint, job_of(Account, converter=to_account), DEFAULTS, plan)

        assert 1 == len([line for line in error.value.differences if "rewrites: $.converter: " in line])

    @pytest.mark.parametrize(
        ("change", "difference"),
        [
            (
                lambda data: data["operators"][0]["states"][2].update(action="copy"),
                "operator account-state, state account: action: copy in the plan, convert here",
            ),
            (
                lambda data: data["operators"][0]["states"].pop(2),
                "operator account-state, state account: not in the plan",
            ),
            (
                lambda data: data["operators"][0]["states"].append(data["operators"][0]["states"][0]),
                "operator account-state: a state is listed twice in the plan",
            ),
            (lambda data: data["operators"].pop(1), "operator account-state-lists: not in the plan"),
            (
                lambda data: data["operators"].append({"operator_id": "0" * 32}),
                f"operator {'0' * 32}: only in the plan",
            ),
            (
                lambda data: data["operators"][0].update(states="all"),
                "operator account-state: the plan has no list of states",
            ),
            (
                lambda data: data["summary"].update(flink_restorable=False),
                "summary: flink_restorable: False in the plan, True here",
            ),
            (
                lambda data: data["rollback"].update(old_job_on_result="start"),
                "rollback: old_job_on_result: start in the plan, refuse here",
            ),
            (
                lambda data: data["options"].update(parallelism=4),
                "operator account-state: parallelism.new: 2 in the plan, 4 here",
            ),
        ],
    )
    def test_a_file_that_was_edited_is_refused(self, savepoint, plan, change, difference):
        with pytest.raises(PlanChanged) as error:
            prepare_as_planned(savepoint, WIDER, DEFAULTS, edited(plan, change))

        assert difference in error.value.differences

    def test_sentences_may_have_other_words_and_nothing_else_may_differ(self, savepoint, plan):
        """A plan stays valid if a later release words its reasons differently: facts are compared, not prose."""
        sentences, facts = [], []
        for path in places_in(plan.operators):
            *above, last = path
            inner = functools.reduce(operator.getitem, above, plan.operators)
            if not isinstance(inner[last], dict | list):
                is_sentence = {"reason", "reasons", "conversion", "unreadable", "plan_sha256"} & set(path)
                (sentences if is_sentence else facts).append((above, last))

        def now(changes):
            operators = copy.deepcopy(plan.operators)
            for above, last in changes:
                functools.reduce(operator.getitem, above, operators)[last] = "in other words"
            return attrs.evolve(plan, operators=operators, rollback=plan.rollback | {"source": "in other words"})

        plan.require_same(now(sentences))
        assert len(sentences) > 10
        for change in facts:
            if change[1] not in {"entries", "bytes", "tried"}:
                with pytest.raises(PlanChanged):
                    plan.require_same(now([change]))

    @pytest.mark.parametrize("name", ["reason", "source", "entries"])
    def test_a_state_may_be_called_like_a_sentence(self, plan, name):
        merges = [[{"operator_id": "a", "key": {"rekeying": {"merges": {name: one}}}, "states": []}] for one in "fg"]
        planned, now = (attrs.evolve(plan, operators=operators) for operators in merges)

        with pytest.raises(PlanChanged, match=rf"key\.rekeying\.merges\.{name}: f in the plan, g here"):
            planned.require_same(now)

    def test_a_plan_of_another_release_is_named_where_it_plans_otherwise(self, savepoint, plan):
        older = edited(plan, lambda data: (data.update(stateshift="0.0.1"), data["operators"].pop()))
        same = edited(plan, lambda data: data.update(stateshift="0.0.1"))

        assert prepare_as_planned(savepoint, WIDER, DEFAULTS, same).tasks
        with pytest.raises(PlanChanged, match=r"it was made by stateshift 0\.0\.1, this is"):
            prepare_as_planned(savepoint, WIDER, DEFAULTS, older)

    def test_many_differences_are_cut_short(self, savepoint, plan):
        def add(data):
            data["operators"] += [{"operator_id": f"{number:032x}", "states": []} for number in range(100)]

        with pytest.raises(PlanChanged) as error:
            prepare_as_planned(savepoint, WIDER, DEFAULTS, edited(plan, add))

        assert (31, "and 70 more") == (len(error.value.differences), error.value.differences[-1])

    def test_what_was_counted_is_not_counted_again(self, savepoint, plan):
        def change(data):
            data["operators"][0]["states"][2].update(entries=11, bytes=1, tried=False)

        assert prepare_as_planned(savepoint, WIDER, DEFAULTS, edited(plan, change)).tasks

    def test_a_job_without_a_place_must_be_passed(self, savepoint, plan):
        with pytest.raises(DeclarationError, match="the plan was made for a Job object in Python"):
            prepare_as_planned(savepoint, None, DEFAULTS, plan)

    def test_a_probe_is_known_by_its_content(self, savepoint_of, savepoint_copy, savepoint):
        place = savepoint_of("hashmap-account-v3")
        types = NewTypes(probe=StoredPlace.of(Savepoint.open(place), "build/probe"))
        plan = make_plan(savepoint, new_side_of(types, like=str(place)), DEFAULTS, types)

        moved = new_side_of(plan.new_types, like=str(savepoint_copy("hashmap-account-v3")))

        assert prepare_as_planned(savepoint, moved, DEFAULTS, plan).tasks
        with pytest.raises(PlanChanged, match="is not the savepoint that the plan was made with"):
            new_side_of(plan.new_types, like=str(savepoint_of("hashmap-account-v2")))


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (DEFAULTS, "when the run begins"),
        (MigrationOptions(reference_time=dt.datetime(2026, 1, 31, 12, tzinfo=dt.UTC)), "2026-01-31T12:00:00.000Z"),
    ],
)
def test_the_reference_time_is_that_of_the_run_unless_it_was_given(savepoint, options, told):
    """STATE-4: stamps of the day on which the plan is made could have expired when it is run."""
    job = job_of(Account, time_to_live=True)

    plan = make_plan(savepoint, job, options, IN_PYTHON)

    assert told == plan.summary["reference_time"]
    assert prepare_as_planned(savepoint, job, DEFAULTS, PlanFile.from_json(plan.to_json())).tasks


def test_what_expires_by_the_plan_is_reported(savepoint_of):
    """STATE-5."""
    savepoint = Savepoint.open(savepoint_of("hashmap-long-p1-m128"))
    state_of = ValueStateDescriptor("session", int, former_time_to_live=dt.timedelta(hours=1))
    job = Job([Operator("keyed-op", key=int, states=[state_of])])

    plan = make_plan(savepoint, job, DEFAULTS, IN_PYTHON)

    assert 3600 == state(plan, "session")["former_time_to_live_s"]


@attrs.frozen
class Shouted:
    name: str


class FirstField:
    """Reads a `Shouted` without any snapshot: flags, null flag, text."""

    def deserialize(self, source):
        source.skip_bytes(2)
        return StringSerializer().deserialize(source)


def name_of(value):
    return value if isinstance(value, str) else value.name


@pytest.fixture
def unregistered(tmp_path):
    """A savepoint with a state whose snapshot is not registered here, its serializer stored next to it."""
    folder = tmp_path / "old"
    with SavepointWriter(folder, one_state(Shouted), store_serializers=True) as writer:
        writer.put("op", "s", 1, Shouted("a"))
    own = serializer_for(Shouted).snapshot_configuration().snapshot_id.encode()
    data = (folder / "_metadata").read_bytes()
    assert own in data
    (folder / "_metadata").write_bytes(data.replace(own, b"stateshift/recorf"))
    (folder / "_stateshift.json").unlink()  # it shows the digest of what was there
    return Savepoint.open(folder)


def one_state(hint, **more):
    return Job([Operator("op", key=int, states=[ValueStateDescriptor("s", hint, **more)])])


@pytest.mark.parametrize(
    ("options", "fallback", "reader"),
    [
        (
            MigrationOptions(trust_stored_serializers=True),
            None,
            "stored serializer stateshift.serializers.records.serializers.RecordSerializer",
        ),
        (DEFAULTS, FirstField(), f"fallback {__name__}.FirstField"),
    ],
)
def test_an_old_reader_that_is_no_snapshot_is_reported_by_its_name(unregistered, options, fallback, reader):
    """READ-2, READ-3: a reviewer sees whose code reads; READ-5: the sample proves that it does."""
    job = one_state(str, converter=name_of, fallback_deserializer=fallback)

    plan = make_plan(unregistered, job, options, IN_PYTHON)

    assert [reader] == [rewrite["reader"] for rewrite in state(plan, "s")["rewrites"]]
    assert state(plan, "s")["tried"]


def test_what_only_a_trusted_serializer_reads_has_no_plan_without_trust(unregistered):
    """READ-4."""
    with pytest.raises(IncompatibleState, match="not trusted"):
        make_plan(unregistered, one_state(str, converter=name_of), DEFAULTS, IN_PYTHON)


def joined(texts):
    return ",".join(texts)


def test_a_state_of_another_kind_is_reported_with_its_transform(savepoint_of):
    """STATE-2."""
    savepoint = Savepoint.open(savepoint_of("hashmap-long-p1-m128"))
    events = ValueStateDescriptor("events", str, transform=StateTransform.from_list(joined))
    job = Job([Operator("keyed-op", key=int, states=[events])])

    plan = make_plan(savepoint, job, DEFAULTS, IN_PYTHON)

    found = state(plan, "events")
    assert {"name": f"{__name__}.joined", "from": "list"} == found["transform"]
    assert ("value", "convert", True) == tuple(found[name] for name in ("kind", "action", "tried"))
    assert found["entries"] == sum(1 for _ in savepoint.operator("keyed-op").state("events").read_entries())
    assert "refuse" == found["old_job"]["decision"]
    assert "STATE-1" in found["old_job"]["reasons"][0]
    assert any("transform: " in str(line) for line in plan_lines(plan))


def test_edits_with_signs_of_the_command_line_are_kept(savepoint):
    """`OLD=NEW` is how they are typed, and no part of the file."""
    edits = Edits(rename_states=(("account", "a=b"),))

    plan = make_plan(savepoint, None, MigrationOptions(edits=edits), NewTypes(stay=True))

    assert edits == PlanFile.from_json(plan.to_json()).options.edits


def test_operator_lists_and_broadcast_are_planned_and_counted(savepoint_of):
    savepoint = Savepoint.open(savepoint_of("hashmap-long-p1-m128"))
    job = Job([Operator("list-op", list_states=[ListStateDescriptor("offsets", tuple[str, int])])])

    plan = make_plan(savepoint, job, DEFAULTS, IN_PYTHON)

    assert state(plan, "offsets")["entries"] > 0
    assert state(plan, "rules")["entries"] > 0
    assert state(plan, "rules")["old"]["key"] == "string"


SCALARS = st.sampled_from([None, True, False, 0, 1, -1, 7, 1.5, "", "x", "copy", "convert", "drop", "snappy", [], {}])
SAVEPOINT = Path(__file__).parents[2] / "fixtures" / "flink-2.3" / "rocksdb-account-v1" / "savepoint"


@functools.cache
def a_plan():
    """A plan as text, and what it does."""
    savepoint = Savepoint.open(SAVEPOINT)
    plan = make_plan(savepoint, WIDER, DEFAULTS, IN_PYTHON)
    return savepoint, plan.to_json(), to_data(prepare_as_planned(savepoint, WIDER, DEFAULTS, plan).plan)


def places_in(data, path=()):
    """The paths of all facts of a document."""
    items = data.items() if isinstance(data, dict) else enumerate(data) if isinstance(data, list) else ()
    for name, value in items:
        yield (*path, name)
        yield from places_in(value, (*path, name))


@pytest.mark.slow
@settings(max_examples=200)
@given(st.data())
def test_whatever_is_changed_in_a_file_a_run_is_refused_or_does_the_same(data):
    savepoint, text, done = a_plan()
    document = json.loads(text)
    *above, last = data.draw(st.sampled_from(list(places_in(document))))
    inner = functools.reduce(operator.getitem, above, document)
    if isinstance(inner, dict) and data.draw(st.booleans()):
        del inner[last]
    else:
        inner[last] = data.draw(SCALARS)

    try:
        plan = PlanFile.from_json(json.dumps(document))
        prepared = prepare_as_planned(savepoint, WIDER, DEFAULTS, plan)
    except StateShiftError:
        event("refused")
    else:
        event("the same")
        assert done["operators"] == to_data(prepared.plan)["operators"]
