"""The user's own code on the workers: modules outside any install, serializers and snapshots of their own."""

from __future__ import annotations

import sys

import pytest
from pyspark import cloudpickle

from stateshift import MigrationFailed, Savepoint, SavepointWriter, ValueNotConvertible, migrate
from stateshift.serializers.registry import registry
from stateshift.state.savepoint.verify import verify

MONEY_1 = '''
import attrs
from stateshift import Job, Operator, TypeSerializer, TypeSerializerConfigSnapshot, ValueStateDescriptor
from stateshift import ListStateDescriptor, MapStateDescriptor, register_serializer, register_snapshot

@attrs.frozen
class Money:
    units: int

@attrs.frozen
class MoneySerializer(TypeSerializer[Money]):
    """Whole units in eight bytes."""
    def serialize(self, value, target):
        target.write_long(value.units)
    def deserialize(self, source):
        return Money(source.read_long())
    def snapshot_configuration(self):
        return MoneySnapshot()

@register_snapshot
@attrs.define
class MoneySnapshot(TypeSerializerConfigSnapshot[Money]):
    snapshot_id = "stateshift/acme.money"
    def write(self, target): pass
    def read(self, source): pass
    def restore_serializer(self):
        return MoneySerializer()

register_serializer(Money, MoneySerializer())

@attrs.frozen
class Order:
    item: str
    price: Money

job = Job([Operator("shop", key=str, states=[
    ValueStateDescriptor("balance", Money),
    ListStateDescriptor("orders", Order),
    MapStateDescriptor("prices", str, Money),
    ValueStateDescriptor("visits", int),
])])
'''
MONEY_2 = """
import attrs
import currencies
from rates import to_cents
from stateshift import CompatibilityResult, Finding, Job, Operator, TypeSerializer, TypeSerializerConfigSnapshot
from stateshift import ListStateDescriptor, MapStateDescriptor, ValueStateDescriptor, Verdict
from stateshift import register_serializer, register_snapshot

@attrs.frozen
class Money:
    cents: int
    currency: str

@attrs.frozen
class MoneySerializer(TypeSerializer[Money]):
    version: int = 2
    def serialize(self, value, target):
        target.write_long(value.cents)
        target.write_utf(value.currency)
    def deserialize(self, source):
        if self.version == 1:
            return Money(to_cents(source.read_long()), currencies.HOME)
        return Money(source.read_long(), source.read_utf())
    def snapshot_configuration(self):
        return MoneySnapshot()
    def ensure_compatibility(self, snapshot):
        if isinstance(snapshot, MoneySnapshot) and snapshot.was == 1:
            return CompatibilityResult.requires_migration(
                Finding("$", "ACME-1", Verdict.REQUIRES_MIGRATION, "money", "money", "cents are new", ("migrate",)))
        return super().ensure_compatibility(snapshot)

@register_snapshot
@attrs.define
class MoneySnapshot(TypeSerializerConfigSnapshot[Money]):
    snapshot_id = "stateshift/acme.money"
    version = 2
    was: int = 2
    def get_compatible_versions(self):
        return (1, 2)
    def write(self, target): pass
    def read(self, source):
        self.was = self.get_read_version()
    def restore_serializer(self):
        return MoneySerializer(self.was)

register_serializer(Money, MoneySerializer())

@attrs.frozen
class Order:
    item: str
    price: Money
    note: str = "none"

job = Job([Operator("shop", key=str, states=[
    ValueStateDescriptor("balance", Money),
    ListStateDescriptor("orders", Order),
    MapStateDescriptor("prices", str, Money),
    ValueStateDescriptor("visits", int),
])])
"""
RATES = "def to_cents(units):\n    return units * 100\n"
CURRENCIES = "HOME = 'EUR'\n"
FALLBACK = """
from stateshift import Job, ListStateDescriptor, MapStateDescriptor, Operator, ValueStateDescriptor
from older import OldMoney
from plain_names import label

job = Job([Operator("shop", key=str, states=[
    ValueStateDescriptor("balance", str, fallback_deserializer=OldMoney(), converter=label),
    MapStateDescriptor("prices", str, str, fallback_deserializer=OldMoney(), converter=label),
    ValueStateDescriptor("visits", int),
])])
"""


@pytest.fixture
def shop(load, tmp_path):
    """A savepoint that the job of MONEY_1 has written; its module is forgotten again."""
    money = load("shop_job", shop_job=MONEY_1)
    with SavepointWriter(tmp_path / "shop", money.job, parallelism=2) as writer:
        for name in ("ann", "bob", "cyd"):
            price = money.Money(len(name) + ord(name[0]))
            writer.put("shop", "balance", name, price)
            writer.put("shop", "prices", name, {"tea": price, "cake": money.Money(7)})
            writer.put("shop", "visits", name, 1)
    forget("shop_job")
    return tmp_path / "shop"


def forget(name):
    """As if a new process began with a new version of the module."""
    del sys.modules[name]
    registry._snapshots.pop("stateshift/acme.money")
    for cls in [cls for cls in registry._serializers if cls.__module__ == name]:
        del registry._serializers[cls]


def test_a_custom_serializer_with_a_second_version_reaches_the_workers(spark, shop, load, tmp_path, values_of):
    job = load("shop_job", shop_job=MONEY_2, rates=RATES, currencies=CURRENCIES)

    report = migrate(shop, tmp_path / "new", job.job, session=spark)

    assert {(count.state, count.action, count.written) for count in report.states} == {
        ("balance", "convert", 3), ("prices", "convert", 6), ("visits", "copy", 3), ("orders", "convert", 0),
    }  # fmt: skip
    assert values_of(tmp_path / "new", "shop", "balance")["ann"] == job.Money(10000, "EUR")
    assert verify(Savepoint.open(tmp_path / "new")).ok


def test_records_of_the_user_hold_values_of_the_users_serializer(spark, load, tmp_path, values_of):
    """The record has a new field, the type of another has a new version, and all classes travel by value."""
    first = load("shop_job", shop_job=MONEY_1)
    with SavepointWriter(tmp_path / "old", first.job) as writer:
        writer.put("shop", "orders", "ann", [first.Order("tea", first.Money(3)), first.Order("cake", first.Money(5))])
    forget("shop_job")
    job = load("shop_job", shop_job=MONEY_2, rates=RATES, currencies=CURRENCIES)

    migrate(tmp_path / "old", tmp_path / "new", job.job, session=spark)

    (orders,) = values_of(tmp_path / "new", "shop", "orders").values()
    assert [(order.item, order.price, order.note) for order in orders] == [
        ("tea", job.Money(300, "EUR"), "none"), ("cake", job.Money(500, "EUR"), "none"),
    ]  # fmt: skip


def test_a_fallback_deserializer_and_a_converter_reach_the_workers(spark, shop, load, tmp_path, values_of):
    """Nothing else can read the values: the module that registered their snapshot is gone."""
    older = "class OldMoney:\n    def deserialize(self, source):\n        return source.read_long()\n"
    names = "import currencies\ndef label(units):\n    return f'{units} {currencies.HOME}'\n"
    job = load("fallback_job", fallback_job=FALLBACK, older=older, plain_names=names, currencies=CURRENCIES)

    migrate(shop, tmp_path / "new", job.job, session=spark)

    assert values_of(tmp_path / "new", "shop", "balance")["bob"] == "101 EUR"
    assert {key: dict(value) for key, value in values_of(tmp_path / "new", "shop", "prices").items()}["cyd"] == {
        "tea": "102 EUR",
        "cake": "7 EUR",
    }


def test_helpers_in_another_folder_are_found_by_what_the_converter_refers_to(
    spark, counts, load, tmp_path, monkeypatch, values_of
):
    """The folder is on the path of this process only, as with `sys.path.insert` in a job."""
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "helper_elsewhere.py").write_text(
        "import helper_further\ndef twice(x):\n    return helper_further.TWO * x\n"
    )
    (tmp_path / "further").mkdir()
    (tmp_path / "further" / "helper_further.py").write_text("TWO = 2\n")
    monkeypatch.syspath_prepend(str(elsewhere))
    monkeypatch.syspath_prepend(str(tmp_path / "further"))
    job = load("job_elsewhere", job_elsewhere=converting("str(helper_elsewhere.twice(x))", "import helper_elsewhere"))

    migrate(counts(10), tmp_path / "new", job.job, session=spark)

    assert values_of(tmp_path / "new", "counter", "count")[9] == "18"


def test_what_travels_by_value_does_so_for_one_run_only(spark, counts, load, tmp_path):
    """Else the user's own Spark jobs would pickle these modules differently from then on."""
    job = load("job_once", job_once=converting("str(x)"))

    migrate(counts(3), tmp_path / "new", job.job, session=spark)

    assert cloudpickle.cloudpickle.list_registry_pickle_by_value() == set()


def test_a_module_imported_only_inside_a_converter_is_named_with_its_way_out(spark, counts, load, tmp_path):
    job = load(
        "job_late",
        job_late=converting("__import__('late_helper').text(x)"),
        late_helper="def text(x):\n    return str(x)\n",
    )

    with pytest.raises(ValueNotConvertible, match="No module named 'late_helper'") as caught:
        migrate(counts(3), tmp_path / "new", job.job, session=spark)

    assert "pass its file with py_files" in caught.value.advice


def test_a_file_handed_to_the_workers_is_importable_inside_a_converter(
    spark, counts, load, tmp_path, users_folder, values_of
):
    sources = {"late_helper_2": "def text(x):\n    return str(x)\n"}
    job = load("job_late_2", job_late_2=converting("__import__('late_helper_2').text(x)"), **sources)

    migrate(counts(3), tmp_path / "new", job.job, session=spark, py_files=[users_folder / "late_helper_2.py"])

    assert values_of(tmp_path / "new", "counter", "count") == {0: "0", 1: "1", 2: "2"}


OWN_ERROR = '''
from stateshift import Job, Operator, StateShiftError, ValueStateDescriptor

class TooDear(StateShiftError):
    """An error of the user's own."""

def refuse(count):
    raise TooDear("too dear", advice="pay less")

job = Job([Operator("counter", key=int, states=[ValueStateDescriptor("count", str, converter=refuse)])])
'''


def test_an_error_class_of_the_user_arrives(spark, counts, load, tmp_path):
    """Its module is not importable on the worker."""
    job = load("job_own_error", job_own_error=OWN_ERROR)

    with pytest.raises(job.TooDear) as caught:
        migrate(counts(3), tmp_path / "new", job.job, session=spark)

    assert (caught.value.advice, caught.value.where["state"]) == ("pay less", "count")


@pytest.mark.parametrize("dry_run", [True, False])
def test_a_serializer_that_cannot_read_what_it_writes_fails_the_proof(spark, counts, load, tmp_path, dry_run):
    job = load("job_broken", job_broken=BROKEN)

    with pytest.raises(MigrationFailed, match=r"fails on its own bytes .*: ZeroDivisionError") as caught:
        migrate(counts(3), tmp_path / "new", job.job, session=spark, dry_run=dry_run)

    assert "counter" in str(caught.value.where["operator"])
    assert (caught.value.where["state"], caught.value.where["rule"]) == ("count", "RUN-7")
    assert not (tmp_path / "new").exists()


@pytest.mark.slow
def test_a_failure_that_is_no_error_of_ours_arrives_with_its_trace(spark, load, tmp_path):
    """A snapshot of a user, of a state that is kept, whose `write` breaks on the workers."""
    breaks = "def write(self, target):\n        if 'pyspark.worker' in sys.modules:\n            1 // 0"
    source = BROKEN.replace("def write(self, target): pass", breaks).replace(
        "return 1 // 0", "return source.read_utf()"
    )
    source = source.replace("converter=str)", "converter=str), ValueStateDescriptor('kept', BrokenSerializer())")
    assert source.count("1 // 0") == 1
    job = load("job_snapshot", job_snapshot=source.replace("import attrs", "import attrs, sys"))
    with SavepointWriter(tmp_path / "old", job.job) as writer:
        writer.put("counter", "count", 1, "one")
    new = load("job_lengths", job_lengths=converting("len(x)").replace("'count', str", "'count', int"))

    with pytest.raises(MigrationFailed, match="a worker failed with ZeroDivisionError") as caught:
        migrate(tmp_path / "old", tmp_path / "new", new.job, session=spark)

    assert "in write" in caught.value.what
    assert "counter" in str(caught.value.where["operator"])
    assert caught.value.written.startswith("Nothing was published")
    assert not (tmp_path / "new").exists()


BROKEN = """
import attrs
from stateshift import Job, Operator, TypeSerializer, TypeSerializerConfigSnapshot, ValueStateDescriptor
from stateshift import register_snapshot

@attrs.frozen
class BrokenSerializer(TypeSerializer[str]):
    def serialize(self, value, target):
        target.write_utf(value)
    def deserialize(self, source):
        return 1 // 0
    def snapshot_configuration(self):
        return BrokenSnapshot()

@register_snapshot
@attrs.define
class BrokenSnapshot(TypeSerializerConfigSnapshot[str]):
    snapshot_id = "stateshift/acme.broken"
    def write(self, target): pass
    def read(self, source): pass
    def restore_serializer(self):
        return BrokenSerializer()

job = Job([Operator("counter", key=int, states=[ValueStateDescriptor("count", BrokenSerializer(), converter=str)])])
"""


def converting(expression, *imports):
    """A job that turns the counts into texts."""
    return "\n".join([
        *imports,
        "from stateshift import Job, Operator, ValueStateDescriptor",
        "def convert(x):",
        f"    return {expression}",
        "job = Job([Operator('counter', key=int, states=[ValueStateDescriptor('count', str, converter=convert)])])",
    ])  # fmt: skip
