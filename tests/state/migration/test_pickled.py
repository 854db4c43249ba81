"""Pickled states in checks and runs: how they are read, by trust or by a fallback, and what stays as it is."""

from __future__ import annotations

import pickle
import sys
import types
from typing import Annotated

import attrs
import cloudpickle
import pytest

from stateshift import (
    CloudPickleSerializer,
    DataInputView,
    DeclarationError,
    IncompatibleState,
    Job,
    MapStateDescriptor,
    MigrationOptions,
    Operator,
    PickledValue,
    PickleSerializer,
    Savepoint,
    SavepointWriter,
    UntrustedCode,
    ValueStateDescriptor,
    check,
    from_pickled,
)
from stateshift.serializers.containers.arrays import BytesSerializer
from stateshift.serializers.snapshot import snapshot_from_bytes, snapshot_to_bytes
from stateshift.state.migration.preparation import prepare
from stateshift.state.migration.run import publish_result, try_out
from stateshift.state.migration.run_task import perform
from stateshift.state.storage.files import Folder

PLAIN = """
class Account:
    def __init__(self, owner):
        self.owner = owner
"""
RECORD = """
import attrs
@attrs.frozen
class Account:
    owner: str
"""
WRAPPED = """
import attrs
from typing import Annotated
from stateshift import Int32, PickleSerializer

class Blob:
    def __init__(self, text):
        self.text = text

@attrs.frozen
class Account:
    visits: Int32
    blob: Annotated[Blob, PickleSerializer(Blob)]
"""


@pytest.fixture
def module(monkeypatch):
    """`module(source, name="shop")`: a user's module as it is from then on."""

    def put(source, name="shop"):
        made = types.ModuleType(name)
        monkeypatch.setitem(sys.modules, name, made)
        exec(source, vars(made))  # noqa: S102 - our own text
        return made

    return put


def job_of(hint, **options):
    return Job([Operator("accounts", key=str, states=[ValueStateDescriptor("account", hint, **options)])])


@pytest.fixture
def written(tmp_path):
    """`written(hint, value)`: a savepoint with one value of the state `account`."""

    def write(hint, value):
        with SavepointWriter(tmp_path / "before", job_of(hint)) as writer:
            writer.put("accounts", "account", "ada", value)
        return Savepoint.open(tmp_path / "before")

    return write


@pytest.fixture
def migrated(tmp_path):
    """`migrated(savepoint, job, *trust)`: the one value after a run in this process."""

    def run(savepoint, job, *trust):
        prepared = prepare(savepoint, job, MigrationOptions(trust=trust))
        target = Folder.at(tmp_path / "after")
        target.create()
        tasks = cloudpickle.loads(cloudpickle.dumps(prepared.tasks))
        results = [perform(task, savepoint.folder, target) for task in tasks]
        publish_result(savepoint, prepared.plan, prepared.tasks, results, target)
        (entry,) = Savepoint.open(tmp_path / "after").operator("accounts").state("account").read_entries()
        return entry.value

    return run


def state_of(savepoint, job, *trust):
    ((_, state),) = check(savepoint.describe(trust=trust), job.describe()).states()
    return state


class Fallback:
    """Reads what the old code wrote, whatever it is."""

    def deserialize(self, source):
        data = source.read_fully(source.read_int())
        return types.SimpleNamespace(owner=data[data.index(b"ada") :][:3].hex())


def test_read_1_is_trust_and_read_3_a_fallback_where_there_is_none(module, written):
    savepoint = written(PickleSerializer(module(PLAIN).Account), sys.modules["shop"].Account("ada"))
    new = module(RECORD).Account
    trusted = state_of(savepoint, job_of(new), "shop.Account")
    fallen_back = state_of(savepoint, job_of(new, fallback_deserializer=Fallback()))
    both = state_of(savepoint, job_of(new, fallback_deserializer=Fallback()), "shop.Account")
    neither = state_of(savepoint, job_of(new))

    assert "requires_migration" == trusted.result.verdict.label == both.result.verdict.label
    assert "requires_migration_with_fallback" == fallen_back.result.verdict.label
    assert neither.result.is_incompatible()
    assert ["snapshot", "fallback", "snapshot"] == [
        str(state.parts[-1].reader.source) for state in (trusted, fallen_back, both)
    ]
    assert "READ-4" == neither.result.findings[0].rule


@pytest.mark.parametrize("hint", [PickleSerializer, None], ids=["pickle", "record"])
def test_pkl_6_a_class_that_is_gone_is_read_by_a_fallback_or_not_at_all(module, written, migrated, hint):
    savepoint = written(PickleSerializer(module(PLAIN).Account), sys.modules["shop"].Account("ada"))
    other = module(RECORD.replace("Account", "Customer"), "people").Customer
    new = hint(other) if hint else other
    trust = ("shop.Account", "people.Customer")

    assert "requires_migration_with_fallback" == (
        state_of(savepoint, job_of(new, fallback_deserializer=Fallback()), *trust).result.verdict.label
    )
    if hint is None:
        assert "616461" == migrated(savepoint, job_of(new, fallback_deserializer=Fallback()), *trust).owner
    refused = state_of(savepoint, job_of(new), *trust).result
    assert refused.is_incompatible()
    assert {"READ-4", "PKL-6"} <= {finding.rule for finding in refused.findings}


def test_cloudpickle_interpreter_changed(module, monkeypatch):
    """E15, PKL-5: byte code of another Python is read by a fallback or not at all."""
    cls = module(PLAIN).Account
    monkeypatch.delitem(sys.modules, "shop")
    new = CloudPickleSerializer(cls)
    old = job_of(new).describe()
    snapshot = snapshot_from_bytes(snapshot_to_bytes(new.snapshot_configuration()))
    snapshot.fingerprint = attrs.evolve(snapshot.fingerprint, python=(3, 8))
    (operator,) = old.operators
    (state,) = operator.states
    value = attrs.evolve(state.value, snapshot=snapshot, serializer=None, trust=("by-value:shop.Account",))
    old = attrs.evolve(old, operators=(attrs.evolve(operator, states=(attrs.evolve(state, value=value),)),))

    def verdict(**options):
        ((_, judged),) = check(old, job_of(new, **options).describe()).states()
        return judged.result.verdict.label

    assert "requires_migration_with_fallback" == verdict(fallback_deserializer=Fallback())
    assert "incompatible" == verdict()


def test_code_within_pickles_runs_by_its_own_word_alone(module, written, migrated, monkeypatch):
    cls = module(PLAIN).Account
    monkeypatch.delitem(sys.modules, "shop")
    savepoint = written(CloudPickleSerializer(cls), cls("ada"))
    new = module(RECORD).Account

    assert state_of(savepoint, job_of(new), "shop.Account").result.is_incompatible()
    assert "ada" == migrated(savepoint, job_of(new), "by-value:shop.Account").owner


def test_a_migration_without_trust_is_refused_before_it_begins(module, written):
    savepoint = written(PickleSerializer(module(PLAIN).Account), sys.modules["shop"].Account("ada"))
    with pytest.raises(IncompatibleState, match=r'trust=\("shop\.Account",\)'):
        prepare(savepoint, job_of(module(RECORD).Account), MigrationOptions())


def test_pickles_inside_of_what_migrates_stay_unopened_without_any_trust(module, written, migrated):
    shop = module(WRAPPED)
    bomb = PickledValue("shop.Blob", b"cposix\nabort\n)R.")
    savepoint = written(shop.Account, {"visits": 7, "blob": bomb})
    new = module(WRAPPED.replace("visits: Int32", "visits: int"))
    found = migrated(savepoint, job_of(new.Account))

    assert (7, bomb) == (found.visits, found.blob)


def test_a_pickle_within_a_record_moves_with_trust(module, written, migrated):
    shop = module(WRAPPED)
    savepoint = written(shop.Account, shop.Account(7, shop.Blob("x")))
    source = WRAPPED.replace("class Blob:", "@attrs.frozen\nclass Blob:").replace(
        "    def __init__(self, text):\n        self.text = text", "    text: str"
    )
    new = module(source.replace("Annotated[Blob, PickleSerializer(Blob)]", "Blob"))

    assert state_of(savepoint, job_of(new.Account)).result.is_incompatible()
    assert "x" == migrated(savepoint, job_of(new.Account), "shop.Blob").blob.text


def test_a_converter_opens_by_the_same_trust(module, written, migrated):
    savepoint = written(BytesSerializer(), pickle.dumps(module(PLAIN).Account("ada")))
    new = module(RECORD).Account
    job = job_of(new, converter=from_pickled(new))
    with pytest.raises(UntrustedCode, match=r"--trust shop\.Account") as raised:
        try_out(savepoint, prepare(savepoint, job, MigrationOptions()).plan)

    assert ("account", "'ada'", "$") == tuple(raised.value.where[name] for name in ("state", "key", "path"))
    assert "ada" == migrated(savepoint, job, "shop.Account").owner


def test_a_record_becomes_a_pickle_and_is_not_verified_after_fam_3(module, written, migrated):
    shop = module(RECORD)
    savepoint = written(shop.Account, shop.Account("ada"))
    job = job_of(PickleSerializer(shop.Account))
    found = migrated(savepoint, job)

    assert [("$", "unverified_after")] == list(state_of(savepoint, job).result.flags)
    assert shop.Account("ada") == found.load(trust=["shop.Account"])


def test_an_old_name_in_a_new_label_keeps_its_alias(module, written, migrated):
    savepoint = written(PickleSerializer(module(PLAIN).Account), sys.modules["shop"].Account("ada"))
    moved = PickleSerializer(module(PLAIN, "people").Account, aliases=("shop.Account",))
    found = migrated(savepoint, job_of(moved))

    assert "people.Account" == found.class_name
    assert "ada" == found.open(moved.known, ["people.Account", "shop.Account"]).owner


def test_pickles_are_no_keys_for_equal_objects_may_have_unequal_ones(module):
    pickled = PickleSerializer(module(PLAIN).Account)
    for declare in (
        lambda: Operator("accounts", key=pickled),
        lambda: Operator("accounts", key=tuple[int, Annotated[object, pickled]]),
        lambda: MapStateDescriptor("by-account", pickled, int),
        lambda: ValueStateDescriptor("account", int, namespace=pickled),
    ):
        with pytest.raises(DeclarationError, match=r"cannot be a pickle \(pickle<shop.Account>\)"):
            declare()


def test_a_check_imports_nothing_that_a_savepoint_names_even_where_it_is_trusted(
    module, written, tmp_path, monkeypatch
):
    savepoint = written(PickleSerializer(module(PLAIN).Account), sys.modules["shop"].Account("ada"))
    monkeypatch.delitem(sys.modules, "shop")
    (tmp_path / "shop.py").write_text(f"open({str(tmp_path / 'planted')!r}, 'w')", encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    state_of(savepoint, job_of(module(RECORD, "people").Account), "shop.Account")

    assert "shop" not in sys.modules
    assert not (tmp_path / "planted").exists()


def test_read_values_are_copied_byte_for_byte(module, written):
    shop = module(PLAIN)
    serializer = PickleSerializer(shop.Account)
    savepoint = written(serializer, shop.Account("ada"))
    (entry,) = savepoint.operator("accounts").state("account").read_entries()

    assert (
        "ada"
        == serializer.deserialize(DataInputView(len(entry.value.data).to_bytes(4, "big") + entry.value.data)).owner
    )
