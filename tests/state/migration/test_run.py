"""Migrations as a whole, without an engine: what real Flink wrote, under new types."""

import enum
import hashlib
import json
import shutil
from typing import Annotated, Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stateshift import (
    BigInt,
    DataInputView,
    Edits,
    Field,
    IncompatibleState,
    Int32,
    Job,
    ListStateDescriptor,
    MapStateDescriptor,
    MigrationFailed,
    OldReaderUnavailable,
    Operator,
    Savepoint,
    SavepointWriter,
    StateShiftError,
    Target,
    ValueNotConvertible,
    ValueStateDescriptor,
    check,
    record,
    serializer_for,
)
from stateshift.compat.description import StateKind
from stateshift.compat.plan import OperatorAction, StateAction
from stateshift.compat.planner import plan
from stateshift.serializers.enums.serializers import EnumSerializer
from stateshift.serializers.primitives.text import StringSerializer
from stateshift.state import runner
from stateshift.state.formats.flink.handles import InlineHandle, RelativeFileHandle
from stateshift.state.formats.flink.keyed_stream import KeyedStreamReader
from stateshift.state.formats.flink.metadata import read_metadata, write_metadata
from stateshift.state.formats.flink.operator_stream import read_operator_stream
from stateshift.state.formats.flink.sources import open_stream
from stateshift.state.migration import ordered_pipeline as turns
from stateshift.state.migration.run import SUBTASK_BYTES, publish_result, split, subtasks_for, try_out
from stateshift.state.migration.run_task import perform
from stateshift.state.migration.tasks import CopyTask, KeyedTask
from stateshift.state.publication.lineage import LINEAGE
from stateshift.state.publication.stored_serializers import SERIALIZERS, place_of, read_stored_serializers
from stateshift.state.savepoint.verify import Outcome, verify
from stateshift.state.storage.files import Folder

ACCOUNTS = ["rocksdb-account-v1", "hashmap-account-v1"]


def plan_for(savepoint, job, *, trust=False):
    return plan(check(savepoint.describe(trust_stored_serializers=trust), job.describe()))


def facts_of(folder):
    return {f.name: (f.stat().st_mtime_ns, f.stat().st_mode, f.read_bytes()) for f in folder.iterdir()}


def files_of(folder):
    return {f.name: f.read_bytes() for f in folder.iterdir() if f.name != LINEAGE}


def failures(savepoint):
    return [check for check in verify(savepoint).checks if check.status is Outcome.FAILED]


def with_records(rooms, change):
    """The tagged contents, every account changed."""

    def walk(node):
        if isinstance(node, dict) and "$pojo" in node:
            pojo = node["$pojo"]
            return {"$pojo": {"class": pojo["class"], "fields": dict(sorted(change(dict(pojo["fields"])).items()))}}
        if isinstance(node, dict):
            return {name: walk(item) for name, item in node.items()}
        return [walk(item) for item in node] if isinstance(node, list) else node

    return walk(rooms)


class TestAccounts:
    """The demo's savepoint, to versions 2, 3 and 4."""

    @pytest.mark.parametrize("name", ACCOUNTS)
    @pytest.mark.parametrize("version", [2, 3])
    def test_contents_are_what_flink_itself_migrates_to(
        self, savepoint_of, accounts, migrate, contents, flink_read, without_kinds, tmp_path, name, version
    ):
        # an int and a long of one value are the same text
        found = migrate(savepoint_of(name), tmp_path / "new", accounts(version))

        expected = flink_read(savepoint_of(name), "flink-migrated-to-v2.json")
        assert without_kinds(expected) == without_kinds(contents(found))
        visits = found.operator("account-state").state("account").description.value.snapshot.stored_fields()[-1]
        assert ("visits", "int" if version == 2 else "long") == (visits.name, visits.describe())
        assert [] == failures(found)

    @pytest.mark.parametrize("name", ACCOUNTS)
    def test_a_renamed_field_keeps_its_values(
        self, savepoint_of, accounts, migrate, contents, flink_read, tmp_path, name
    ):
        found = migrate(savepoint_of(name), tmp_path / "new", accounts(4))

        def renamed(fields):
            return {("title" if field == "name" else field): value for field, value in fields.items()}

        assert with_records(flink_read(savepoint_of(name)), renamed) == contents(found)
        fields = found.operator("account-state").state("account").description.value.snapshot.stored_fields()
        assert ["id", "obsolete", "title", "visits"] == [field.name for field in fields]

    def test_savepoints_of_flink_1_20_are_migrated_too(self, savepoint_of, accounts, migrate, contents, tmp_path):
        source = savepoint_of("hashmap-account-v1", version="1.20")
        found = migrate(source, tmp_path / "new", accounts(3))

        assert 4 == found.metadata.version
        assert found.metadata.properties == Savepoint.open(source).metadata.properties
        assert contents(migrate(savepoint_of("hashmap-account-v1"), tmp_path / "other", accounts(3))) == contents(found)

    def test_nothing_to_do_for_the_same_job(self, savepoint_of, accounts, migrate, contents, tmp_path):
        source = savepoint_of("rocksdb-account-v1")
        savepoint = Savepoint.open(source)
        assert plan_for(savepoint, accounts(1)).is_empty

        found = migrate(source, tmp_path / "new", accounts(1))
        assert (source / "_metadata").read_bytes() == (tmp_path / "new" / "_metadata").read_bytes()
        assert contents(source) == contents(found)


class TestRepeating:
    """RUN-5, and what a migrated savepoint is to the next migration."""

    def test_rerun_identical(self, savepoint_of, accounts, migrate, tmp_path):
        """K05, RUN-5: but for the time in the lineage."""
        for name in ("one", "two"):
            migrate(savepoint_of("rocksdb-account-v1"), tmp_path / name, accounts(3), reverse=name == "two")

        assert files_of(tmp_path / "one") == files_of(tmp_path / "two")
        one, two = (json.loads((tmp_path / name / LINEAGE).read_text()) for name in ("one", "two"))
        assert {**one, "created": ""} == {**two, "created": ""}

    def test_the_same_holds_for_files(self, savepoint_of, migrate, tmp_path):
        for name in ("one", "two"):
            migrate(savepoint_of("rocksdb-long-p2-m200-files"), tmp_path / name, COUNT_AS_BIGINT, reverse=name == "two")

        assert len(files_of(tmp_path / "one")) > 1
        assert files_of(tmp_path / "one") == files_of(tmp_path / "two")

    @pytest.mark.parametrize(
        "name", ["rocksdb-account-v1", "rocksdb-long-p2-m200-files", "hashmap-long-p2-m128-snappy"]
    )
    def test_rerun_on_result_is_noop(self, savepoint_of, accounts, migrate, tmp_path, name):
        """K05, RUN-5: the plan is empty, and files are copied."""
        job = accounts(3) if "account" in name else COUNT_AS_BIGINT
        migrate(savepoint_of(name), tmp_path / "one", job)
        savepoint = Savepoint.open(tmp_path / "one")
        again = plan_for(savepoint, job)

        assert again.is_empty
        assert {CopyTask} >= {type(task) for task in split(savepoint, again)}
        two = migrate(tmp_path / "one", tmp_path / "two", job)
        assert files_of(tmp_path / "one") == files_of(tmp_path / "two")
        assert [] == failures(two)

    def test_lineage_shows_where_a_savepoint_comes_from_run_6(self, savepoint_of, accounts, migrate, tmp_path):
        source = savepoint_of("rocksdb-account-v1")
        one = migrate(source, tmp_path / "one", accounts(2)).lineage
        two = migrate(tmp_path / "one", tmp_path / "two", accounts(3)).lineage

        assert (str(source), ()) == (one.source["place"], one.history)
        assert str(tmp_path / "one") == two.source["place"]
        metadata = (tmp_path / "one" / "_metadata").read_bytes()
        assert hashlib.sha256(metadata).hexdigest() == two.source["metadata_sha256"]
        (before,) = two.history
        assert (one.source, one.plan, one.created) == (before["source"], before["plan"], before["created"])
        assert "files" not in before
        three = migrate(tmp_path / "two", tmp_path / "three", accounts(3)).lineage
        assert [one.source, two.source] == [past["source"] for past in three.history]
        assert Savepoint.open(tmp_path / "three").lineage == three

    def test_the_source_is_not_touched_run_1(self, savepoint_copy, accounts, migrate, tmp_path):
        folder = savepoint_copy("rocksdb-account-v1")
        before = facts_of(folder)
        migrate(folder, tmp_path / "new", accounts(3))

        assert before == facts_of(folder)
        files = savepoint_copy("rocksdb-long-p2-m200-files")
        before = facts_of(files)
        migrate(files, tmp_path / "files", COUNT_AS_BIGINT)
        assert before == facts_of(files)


@record(java_class="fx.evo.Account")
@attrs.frozen
class Relabelled:
    """A field renamed within the alphabetical order: only the label changes."""

    id: int
    nom: Annotated[str, Field(aliases=["name"])]
    visits: Int32
    obsolete: str | None = None


def state_bytes(folder, uid):
    """Entries by state and key group, and elements, as bytes; whatever the headers say."""
    files, found = Folder.at(folder), {}
    stored = Savepoint.open(folder).operator(uid).stored
    for subtask in stored.subtasks:
        if subtask.managed_keyed is not None:
            with open_stream(subtask.managed_keyed.stream, files) as source:
                reader = KeyedStreamReader.open(source, subtask.managed_keyed)
                for block in reader.blocks():
                    name = reader.header.states[block.state_id].name
                    found["keyed", name, block.key_group] = (
                        found.get(("keyed", name, block.key_group), b"") + block.data
                    )
        if subtask.managed_operator is not None:
            with open_stream(subtask.managed_operator.stream, files) as source:
                stream = read_operator_stream(source, subtask.managed_operator)
                for name, elements in (stream.elements | {n: (m,) for n, m in stream.broadcast.items()}).items():
                    found["operator", name, subtask.index] = elements
    return found


class TestLabels:
    def test_a_new_label_leaves_the_bytes_alone(self, savepoint_of, accounts, migrate, contents, tmp_path):
        source = savepoint_of("rocksdb-account-v1")
        (keyed, lists) = accounts(1).operators
        job = Job(
            [
                attrs.evolve(keyed, states=[ValueStateDescriptor("account", Relabelled)]),
                attrs.evolve(lists, list_states=[ListStateDescriptor("pending", Relabelled)]),
            ]
        )
        migration = plan_for(Savepoint.open(source), job)
        found = migrate(source, tmp_path / "new", job)

        actions = {state.name: state.action for operator in migration.operators for state in operator.states}
        assert {"account", "pending"} == {name for name, action in actions.items() if action is StateAction.RELABEL}
        for uid in ("account-state", "account-state-lists"):
            assert state_bytes(source, uid) == state_bytes(tmp_path / "new", uid)
        fields = found.operator("account-state").state("account").description.value.snapshot.stored_fields()
        assert ["id", "nom", "obsolete", "visits"] == [field.name for field in fields]
        assert contents(found).keys() == contents(source).keys()
        assert [] == failures(found)

    def test_an_extended_enum_keeps_its_ordinals(self, migrate, tmp_path):
        import enum

        old = enum.Enum("Level", ["LOW", "HIGH"], module=__name__)
        new = enum.Enum("Level", ["NONE", "HIGH", "LOW", "TOP"], module=__name__)
        with SavepointWriter(tmp_path / "old", one_state(ValueStateDescriptor("s", old))) as writer:
            writer.put("op", "s", 1, old.LOW)
            writer.put("op", "s", 2, old.HIGH)
        found = migrate(tmp_path / "old", tmp_path / "new", one_state(ValueStateDescriptor("s", new)))

        assert state_bytes(tmp_path / "old", "op") == state_bytes(tmp_path / "new", "op")
        assert {1: "LOW", 2: "HIGH"} == {e.key: e.value.name for e in found.operator("op").state("s").read_entries()}
        again = plan_for(found, one_state(ValueStateDescriptor("s", new)))
        assert again.is_empty


def one_state(descriptor):
    return Job([Operator("op", key=int, states=[descriptor])])


COUNT_AS_BIGINT = Job([Operator("keyed-op", key=int, states=[ValueStateDescriptor("count", BigInt)])])


class TestCarriedOver:
    """One state is migrated; all else stays as it is, byte for byte."""

    @pytest.mark.parametrize("name", ["hashmap-long-p2-m128-snappy", "rocksdb-long-p2-m200-files"])
    def test_other_states_timers_and_broadcast_are_the_same_bytes(
        self, savepoint_of, migrate, contents, flink_read, tmp_path, name
    ):
        source = savepoint_of(name)
        found = migrate(source, tmp_path / "new", COUNT_AS_BIGINT)
        before, after = (state_bytes(folder, "keyed-op") for folder in (source, tmp_path / "new"))

        assert before.keys() == after.keys()
        changed = {place[1] for place, data in before.items() if after[place] != data}
        assert {"count"} == changed
        assert any(place[1].startswith("_timer_state/") for place in after)
        keyed = contents(found)[found.operator("keyed-op").operator_id]
        expected = flink_read(source)[found.operator("keyed-op").operator_id]
        counts = keyed["keyed"].pop("count"), expected["keyed"].pop("count")
        assert [[key, int(value["$bigint"])] for key, value in counts[0]["entries"]] == counts[1]["entries"]
        for room in ("operator", "broadcast"):
            assert expected.get(room) == keyed.get(room)
        assert {n: s for n, s in expected["keyed"].items() if n in keyed["keyed"]} == keyed["keyed"]
        assert [] == failures(found)

    def test_operators_that_the_job_does_not_have_are_the_same(self, savepoint_of, migrate, tmp_path):
        source = savepoint_of("rocksdb-long-p2-m200-files")
        found = migrate(source, tmp_path / "new", COUNT_AS_BIGINT)
        others = {operator.uid for operator in found.operators} - {"keyed-op"}

        assert {operator.uid for operator in Savepoint.open(source).operators} == others | {"keyed-op"}
        for uid in others:
            assert state_bytes(source, uid) == state_bytes(tmp_path / "new", uid)
            old, new = (Savepoint.open(folder).operator(uid) for folder in (source, tmp_path / "new"))
            assert (old.parallelism, old.max_parallelism, old.name) == (new.parallelism, new.max_parallelism, new.name)

    def test_states_that_cannot_be_read_are_kept(self, kryo_in_pojo, migrate, tmp_path):
        source = kryo_in_pojo
        (plain,) = (s for s in Savepoint.open(source).operator("keyed-op").states if s.name == "plain")
        job = Job([Operator("keyed-op", key=int, states=[ValueStateDescriptor("plain", BigInt)])])
        assert "long" == plain.description.describe()
        found = migrate(source, tmp_path / "new", job)

        before, after = (state_bytes(folder, "keyed-op") for folder in (source, tmp_path / "new"))
        things = {place: data for place, data in before.items() if place[1] == "thing"}
        assert things
        assert things == {place: data for place, data in after.items() if place[1] == "thing"}
        assert "kryo" in found.operator("keyed-op").state("thing").unsupported

    def test_orphaned_states_are_kept_and_new_ones_need_nothing(self, savepoint_of, accounts, migrate, tmp_path):
        source = savepoint_of("rocksdb-account-v1")
        keyed, _ = accounts(2).operators
        states = [state for state in keyed.states if state.name == "account"]
        job = Job([attrs.evolve(keyed, states=[*states, ValueStateDescriptor("brand-new", str)])])
        found = migrate(source, tmp_path / "new", job)

        names = {state.name for state in Savepoint.open(source).operator("account-state").states}
        assert names == {state.name for state in found.operator("account-state").states}
        counts = {count.state: count.action for count in found.lineage.states}
        assert {"account": "convert"} == {name: action for name, action in counts.items() if action != "copy"}
        pending = found.operator("account-state-lists").state("pending")
        assert (
            pending.read_elements()
            == Savepoint.open(source).operator("account-state-lists").state("pending").read_elements()
        )

    def test_raw_and_coordinator_state_is_carried_over(self, savepoint_copy, accounts, migrate, tmp_path):
        folder = savepoint_copy("rocksdb-account-v1")
        metadata = read_metadata((folder / "_metadata").read_bytes())
        (folder / "raw-file").write_bytes(b"raw" * 10)

        def with_raw(operator):
            if operator.uid != "account-state":
                return operator
            first = next(s for s in operator.subtasks if s.index == 0)
            stream = RelativeFileHandle("raw-file", 30)
            raw = attrs.evolve(first.managed_keyed, stream=stream)
            subtasks = tuple(attrs.evolve(s, raw_keyed=raw) if s is first else s for s in operator.subtasks)
            return attrs.evolve(operator, coordinator=InlineHandle("c", b"source"), subtasks=subtasks)

        operators = tuple(map(with_raw, metadata.operators))
        (folder / "_metadata").write_bytes(write_metadata(attrs.evolve(metadata, operators=operators)))
        assert ("coordinator state", "raw keyed state") == Savepoint.open(folder).operator("account-state").keeps
        found = migrate(folder, tmp_path / "new", accounts(3))

        operator = found.operator("account-state")
        assert (b"source", 2) == (operator.stored.coordinator.data, operator.parallelism)
        (raw,) = [s.raw_keyed for s in operator.stored.subtasks if s.raw_keyed]
        assert b"raw" * 10 == (tmp_path / "new" / raw.stream.path).read_bytes()
        assert [] == failures(found)


class TestOldReaders:
    """READ-1 to READ-4."""

    @pytest.fixture
    def unregistered(self, tmp_path):
        """A savepoint with a state whose snapshot is not registered here, its serializer stored next to it."""
        with SavepointWriter(
            tmp_path / "old", one_state(ValueStateDescriptor("s", Shouted)), store_serializers=True
        ) as w:
            w.put("op", "s", 1, Shouted("a"))
            w.put("op", "s", 2, Shouted("b"))
        own = serializer_for(Shouted).snapshot_configuration().snapshot_id.encode()
        folder = tmp_path / "old"
        data = (folder / "_metadata").read_bytes()
        assert own in data
        (folder / "_metadata").write_bytes(data.replace(own, b"stateshift/recorf"))
        (folder / LINEAGE).unlink()
        return folder

    def test_a_stored_serializer_is_used_only_where_it_is_trusted(self, unregistered, migrate, tmp_path):
        job = one_state(ValueStateDescriptor("s", str, converter=name_of))

        with pytest.raises((IncompatibleState, OldReaderUnavailable)) as caught:
            migrate(unregistered, tmp_path / "untrusted", job)
        assert "trust" in str(caught.value)
        found = migrate(unregistered, tmp_path / "trusted", job, trust=True)
        assert {1: "a", 2: "b"} == {e.key: e.value for e in found.operator("op").state("s").read_entries()}
        (state,) = found.lineage.plan["operators"][0]["states"]
        assert "stored serializer" == state["rewrites"][0]["reader"]

    def test_a_stored_serializer_that_does_not_unpickle_is_one_of_the_reasons(self, unregistered, migrate, tmp_path):
        facts = json.loads((unregistered / SERIALIZERS).read_text())
        facts["serializers"] = dict.fromkeys(facts["serializers"], "gAQu")
        (unregistered / SERIALIZERS).write_text(json.dumps(facts))

        with pytest.raises((IncompatibleState, OldReaderUnavailable), match="does not unpickle"):
            migrate(
                unregistered, tmp_path / "new", one_state(ValueStateDescriptor("s", str, converter=name_of)), trust=True
            )

    def test_a_fallback_reads_where_nothing_else_can(self, unregistered, migrate, tmp_path):
        job = one_state(ValueStateDescriptor("s", str, converter=str, fallback_deserializer=FirstField()))
        found = migrate(unregistered, tmp_path / "new", job)

        assert {1: "a", 2: "b"} == {e.key: e.value for e in found.operator("op").state("s").read_entries()}
        (state,) = found.lineage.plan["operators"][0]["states"]
        assert "fallback" == state["rewrites"][0]["reader"]

    def test_without_any_reader_all_reasons_are_reported(self, unregistered, migrate, tmp_path):
        (unregistered / SERIALIZERS).unlink()

        with pytest.raises((IncompatibleState, OldReaderUnavailable)) as caught:
            migrate(unregistered, tmp_path / "new", one_state(ValueStateDescriptor("s", str, converter=name_of)))
        for reason in ("not registered", "stored serializer", "fallback"):
            assert reason in str(caught.value)

    def test_stored_serializers_of_what_stays_go_with_it(self, unregistered, migrate, tmp_path):
        # an orphaned state needs its serializer in the next migration, too
        job = Job([Operator("op", key=int, states=[ValueStateDescriptor("other", int)])])
        found = migrate(unregistered, tmp_path / "kept", job)
        assert SERIALIZERS in found.lineage.files
        assert [] == failures(found)
        found = migrate(
            tmp_path / "kept",
            tmp_path / "trusted",
            one_state(ValueStateDescriptor("s", str, converter=name_of)),
            trust=True,
        )

        assert {1: "a", 2: "b"} == {e.key: e.value for e in found.operator("op").state("s").read_entries()}
        # what was converted is described by its snapshot from now on
        assert not (tmp_path / "trusted" / SERIALIZERS).exists()

    @pytest.mark.parametrize(
        ("new", "new_name", "stays"),
        [("Tier", "renamed", True), ("Tier", "s", True), ("MoreTiers", "s", False), ("MoreTiers", "renamed", False)],
    )
    def test_stored_serializers_go_with_a_new_name_and_not_with_a_new_snapshot(
        self, tmp_path, migrate, new, new_name, stays
    ):
        """Bytes that are relabelled are described by their new snapshot, and a serializer of the old one misleads."""
        tiers = {"Tier": enum.Enum("Tier", ["GOLD", "BASE"]), "MoreTiers": enum.Enum("Tier", ["GOLD", "BASE", "NEW"])}
        other = ValueStateDescriptor("other", int)
        with SavepointWriter(
            tmp_path / "old", Job([Operator("op", key=int, states=[state_of("s", tiers["Tier"]), other])]),
            store_serializers=True,
        ) as writer:  # fmt: skip
            writer.put("op", "s", 1, tiers["Tier"].BASE)
            writer.put("op", "other", 1, 5)
        job = Job(
            [Operator("op", key=int, states=[state_of(new_name, tiers[new]), state_of("other", str, converter=str)])]
        )
        old = Savepoint.open(tmp_path / "old")
        edits = Edits(rename_states=(("s", new_name),) if new_name != "s" else ())
        planned = plan(check(edits.apply(old.describe()), job.describe()))
        tasks = split(old, planned)
        target = Folder.at(tmp_path / "new")
        target.create()
        publish_result(old, planned, tasks, [perform(task, old.folder, target) for task in tasks], target)

        kept = read_stored_serializers(target)
        before = read_stored_serializers(old.folder)
        id_ = old.operator("op").operator_id
        assert ({place_of(id_, "keyed", new_name): before[place_of(id_, "keyed", "s")]} if stays else {}) == kept


def state_of(name, hint, **more):
    if isinstance(hint, type) and issubclass(hint, enum.Enum):
        hint = EnumSerializer.of(hint)
    return ValueStateDescriptor(name, hint, **more)


@attrs.frozen
class Shouted:
    name: str


def name_of(value):
    return value.name


class FirstField:
    """Reads a `Shouted` without any snapshot: flags, null flag, text."""

    def deserialize(self, source: DataInputView) -> Any:
        source.skip_bytes(2)
        return StringSerializer().deserialize(source)


class TestDryRun:
    def test_it_converts_one_entry_of_each_state_and_writes_nothing_read_5(self, savepoint_of, accounts):
        savepoint = Savepoint.open(savepoint_of("rocksdb-account-v1"))
        tried = try_out(savepoint, plan_for(savepoint, accounts(3)))

        names = {name: found for (_, name), found in tried.items()}
        assert {"account": True, "account-by-name": True, "accounts": True, "pending": True} == names

    def test_it_predicts_a_failure(self, tmp_path):
        with SavepointWriter(tmp_path / "old", one_state(ValueStateDescriptor("s", bytes))) as writer:
            writer.put("op", "s", 1, b"\xff")
        savepoint = Savepoint.open(tmp_path / "old")
        migration = plan_for(savepoint, one_state(ValueStateDescriptor("s", str)))

        with pytest.raises(ValueNotConvertible) as caught:
            try_out(savepoint, migration)
        (task,) = split(savepoint, migration)
        with pytest.raises(ValueNotConvertible) as real:
            perform(task, savepoint.folder, Folder.at(tmp_path / "new"))
        for name in ("operator", "state", "key", "path", "rule", "savepoint"):
            assert real.value.where[name] == caught.value.where[name]
        assert real.value.what == caught.value.what
        assert not (tmp_path / "new").exists()

    def test_a_state_without_entries_cannot_be_tried(self, tmp_path):
        with SavepointWriter(tmp_path / "old", one_state(ValueStateDescriptor("s", Int32))):
            pass
        savepoint = Savepoint.open(tmp_path / "old")

        tried = try_out(savepoint, plan_for(savepoint, one_state(ValueStateDescriptor("s", int))))
        assert [False] == list(tried.values())

    def test_a_broadcast_state_is_tried(self, tmp_path):
        old, new = (Job([Operator("op", broadcast_states=[MapStateDescriptor("b", str, v)])]) for v in (Int32, int))
        with SavepointWriter(tmp_path / "old", old) as writer:
            writer.put_broadcast("op", "b", "a", 1)
        savepoint = Savepoint.open(tmp_path / "old")

        assert [True] == list(try_out(savepoint, plan_for(savepoint, new)).values())


@record(java_class="fx.Scenarios$Address")
@attrs.frozen
class Address:
    number: int
    street: str | None


@record(java_class="fx.Scenarios$FancyAddress")
@attrs.frozen
class FancyAddress(Address):
    planet: str | None


class TestSubclasses:
    """A field of the base widened, in savepoints with values of a subclass."""

    @pytest.mark.parametrize("name", ["hashmap-subclass-registered", "rocksdb-subclass-unregistered"])
    def test_values_of_subclasses_are_converted_and_fields_stay_with_their_class(
        self, savepoint_of, migrate, contents, flink_read, tmp_path, name
    ):
        source = savepoint_of(name)
        states = [ValueStateDescriptor("home", Address), ListStateDescriptor("homes", Address)]
        found = migrate(source, tmp_path / "new", Job([Operator("keyed-op", key=int, states=states)]))

        # an int and a long of one value are the same text
        assert flink_read(source) == contents(found)
        snapshots = [
            Savepoint.open(folder).operator("keyed-op").state("home").description.value.snapshot
            for folder in (source, tmp_path / "new")
        ]
        before, after = (
            {
                (record_name, field.name): (field.declared_by, field.describe())
                for record_name, snapshot in [
                    ("", whole),
                    *whole.registered_subclasses(),
                    *whole.unregistered_subclasses(),
                ]
                for field in snapshot.stored_fields()
            }
            for whole in snapshots
        )
        assert {place: declared for place, (declared, _) in before.items()} == {
            place: declared for place, (declared, _) in after.items()
        }
        assert {"int", "string"} == {words for _, words in before.values()}
        assert {"long", "string"} == {words for _, words in after.values()}
        assert [] == failures(found)


class TestOperatorState:
    def test_lists_and_broadcast_maps_are_converted_in_their_subtasks(self, migrate, tmp_path):
        def job(hint):
            return Job(
                [
                    Operator(
                        "op",
                        list_states=[ListStateDescriptor("split", hint)],
                        union_list_states=[ListStateDescriptor("union", hint)],
                        broadcast_states=[MapStateDescriptor("b", hint, hint)],
                    )
                ]
            )

        with SavepointWriter(tmp_path / "old", job(Int32), parallelism=3) as writer:
            for subtask in range(3):
                for element in range(subtask):
                    writer.add("op", "split", element, subtask=subtask)
                writer.add("op", "union", subtask, subtask=subtask)
            writer.put_broadcast("op", "b", 1, 2)
            writer.put_broadcast("op", "b", 3, 4)
        found = migrate(tmp_path / "old", tmp_path / "new", job(BigInt))

        operator = found.operator("op")
        assert [[], [0], [0, 1]] == operator.state("split").read_elements()
        assert [[0], [1], [2]] == operator.state("union").read_elements()
        assert [[{1: 2, 3: 4}]] * 3 == operator.state("b").read_elements()
        kinds = {state.name: (state.kind, state.description.describe()) for state in operator.states}
        assert (StateKind.UNION_LIST, "bigint") == kinds["union"]
        assert (StateKind.BROADCAST, "map<bigint, bigint>") == kinds["b"]
        counts = {count.state: (count.read, count.written) for count in found.lineage.states}
        assert {"split": (3, 3), "union": (3, 3), "b": (6, 6)} == counts
        assert [] == failures(found)


class TestPublishing:
    def test_a_missing_result_publishes_nothing(self, savepoint_of, accounts, tmp_path):
        savepoint, target = Savepoint.open(savepoint_of("rocksdb-account-v1")), Folder.at(tmp_path / "new")
        target.create()
        migration = plan_for(savepoint, accounts(3))
        tasks = split(savepoint, migration)
        results = [perform(task, savepoint.folder, target) for task in tasks[1:]]

        with pytest.raises(MigrationFailed, match="the results of 1 tasks are missing"):
            publish_result(savepoint, migration, tasks, results, target)
        assert not (tmp_path / "new" / "_metadata").exists()

    def test_counts_say_what_was_read_and_written_run_2(self, savepoint_of, accounts, migrate, tmp_path):
        source = savepoint_of("rocksdb-account-v1")
        found = migrate(source, tmp_path / "new", accounts(3))
        before = {s.name: s.measure().entries for o in Savepoint.open(source).operators for s in o.states}
        counts = {count.state: count for count in found.lineage.states}

        assert before == {name: count.read for name, count in counts.items()}
        assert before == {name: count.written for name, count in counts.items()}
        assert {"copy", "convert"} == {count.action for count in counts.values()}
        converted = {name for name, count in counts.items() if count.action == "convert"}
        assert {"account", "accounts", "account-by-name", "pending"} == converted
        assert converted == {name for name, count in counts.items() if count.keys}

    def test_the_plan_in_the_lineage_names_rules_and_findings(self, savepoint_of, accounts, migrate, tmp_path):
        lineage = migrate(savepoint_of("rocksdb-account-v1"), tmp_path / "new", accounts(3)).lineage
        operator = next(o for o in lineage.plan["operators"] if o["uid"] == "account-state")
        account = next(s for s in operator["states"] if s["name"] == "account")

        assert {"PRIM-2", "REC-2", "REC-4"} <= {finding["rule"] for finding in account["findings"]}
        assert ["$.obsolete"] == account["drops"]
        assert account["old_snapshots_sha256"] != account["new_snapshots_sha256"]

    def test_only_what_changes_is_rewritten(self, savepoint_of):
        savepoint = Savepoint.open(savepoint_of("rocksdb-long-p2-m200-files"))
        migration = plan_for(savepoint, COUNT_AS_BIGINT)
        tasks = split(savepoint, migration)

        rewritten = [o.uid for o in migration.operators if o.action is OperatorAction.REWRITE]
        assert ["keyed-op"] == rewritten
        assert {"keyed-op"} == {task.title for task in tasks if isinstance(task, KeyedTask)}
        assert any(isinstance(task, CopyTask) for task in tasks)

    def test_what_flink_could_not_restore_is_refused_where_flink_is_the_target(self, savepoint_of, migrate, tmp_path):
        job = Job([Operator("keyed-op", key=int, states=[ValueStateDescriptor("count", Shouted, converter=Shouted)])])

        with pytest.raises(IncompatibleState, match="Flink would refuse the whole operator"):
            migrate(savepoint_of("rocksdb-long-p2-m200-files"), tmp_path / "new", job, restore_target=Target.FLINK)

    def test_a_moved_savepoint_is_still_one(self, savepoint_of, migrate, contents, tmp_path):
        found = contents(migrate(savepoint_of("rocksdb-long-p2-m200-files"), tmp_path / "new", COUNT_AS_BIGINT))
        shutil.move(tmp_path / "new", tmp_path / "moved")

        assert found == contents(tmp_path / "moved")
        assert verify(Savepoint.open(tmp_path / "moved")).ok


@given(st.integers(0, 1 << 50), st.integers(1, 1 << 15))
def test_subtasks_are_a_power_of_two_and_of_a_handy_size(size, most):
    count = subtasks_for(size, most)

    assert 1 <= count <= most
    if count < most:
        assert 1 == count.bit_count()
        assert size <= count * SUBTASK_BYTES
    assert 1 == count or size > count // 2 * SUBTASK_BYTES


@pytest.mark.parametrize(("is_one_of_many", "cores"), [(True, 2), (False, 1), (False, 2)])
def test_a_task_that_is_one_of_many_or_has_one_core_has_one_thread(
    savepoint_of, tmp_path, monkeypatch, is_one_of_many, cores
):
    def refuse(count):
        raise InterruptedError(count)

    monkeypatch.setenv("STATESHIFT_EXECUTOR", "numba")  # objects take no second thread
    monkeypatch.setattr(turns, "ThreadPoolExecutor", refuse)
    monkeypatch.setattr(runner, "cores", lambda: cores)
    savepoint = Savepoint.open(savepoint_of("rocksdb-long-p2-m200-files"))
    task = next(task for task in split(savepoint, plan_for(savepoint, COUNT_AS_BIGINT)) if isinstance(task, KeyedTask))
    target = Folder.at(tmp_path)

    if is_one_of_many or cores == 1:
        assert perform(task, savepoint.folder, target, is_one_of_many=is_one_of_many).counts[0].written > 0
        return
    with pytest.raises(InterruptedError):
        perform(task, savepoint.folder, target)


def test_a_changed_key_is_refused(savepoint_of, migrate, tmp_path):
    job = Job([Operator("keyed-op", key=BigInt, states=[ValueStateDescriptor("count", int)])])

    with pytest.raises(IncompatibleState, match=r"\$<key>"):
        migrate(savepoint_of("rocksdb-long-p2-m200-files"), tmp_path / "new", job)
    assert not (tmp_path / "new").exists()


def test_a_damaged_source_is_found_before_anything_is_published(savepoint_copy, migrate, tmp_path):
    folder = savepoint_copy("rocksdb-long-p2-m200-files")
    largest = max((f for f in folder.iterdir() if f.name != "_metadata"), key=lambda f: f.stat().st_size)
    largest.write_bytes(largest.read_bytes()[:-20])

    with pytest.raises(StateShiftError):
        migrate(folder, tmp_path / "new", COUNT_AS_BIGINT)
    assert not (tmp_path / "new" / "_metadata").exists()
