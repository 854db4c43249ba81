"""A family outside of this package, registered by a call or found by an entry point, can do what the built-in ones do.

Abilities that come later are further tables of `made_up_family`, and are tried here without a change where they are
looked up; what each is for has a test of its own.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Annotated

import pytest
from hypothesis import given, settings
from made_up_family import money
from made_up_family.family import FAMILY
from made_up_family.hints import NarrowMoney
from made_up_family.money import Money, MoneySerializer, widened

from stateshift import (
    Ability,
    DeclarationError,
    Family,
    Job,
    ListStateDescriptor,
    MapStateDescriptor,
    Operator,
    Savepoint,
    SavepointWriter,
    ValueStateDescriptor,
    Verdict,
    check,
    migrate,
    register_family,
    serializer_for,
    verify,
)
from stateshift.compat.planner import plan
from stateshift.compat.testing.strategies import values_of
from stateshift.serializers.families import families
from stateshift.serializers.primitives.numeric import ByteSerializer
from stateshift.serializers.primitives.text import StringSerializer
from stateshift.serializers.rewrite import Fixed, Sequence, Widened, rewrite_of
from stateshift.state.columnar.table import StateTable
from stateshift.state.publication.lineage import LINEAGE
from stateshift.state.savepoint.json_encoding import tagged_rows
from stateshift.state.transcode.entry_layout import entry_framing
from stateshift.state.transcode.factory import program_of

TESTS = Path(__file__).parents[1]
NARROW, WIDE = MoneySerializer(wide=False), MoneySerializer()
STATES = ("balance", "payments", "prices", "baskets")


class Elsewhere(MoneySerializer):
    """A subclass outside the family: it might write other bytes."""


@pytest.fixture
def no_families(monkeypatch):
    """Families of packages and of calls are forgotten, before the test and after it."""
    monkeypatch.setattr(families, "registered", {})
    vars(families).pop("installed", None)
    yield
    vars(families).pop("installed", None)


@pytest.fixture
def install(no_families, tmp_path, monkeypatch):  # noqa: ARG001 - forgotten before and after
    """`install("made_up_family.family:FAMILY")`: a distribution with these entry points is on the path."""

    def on_path(*values):
        folder = tmp_path / "installed"
        info = folder / "made_up-1.0.dist-info"
        info.mkdir(parents=True)
        (info / "METADATA").write_text("Metadata-Version: 2.1\nName: made-up\nVersion: 1.0\n")
        points = "".join(f"point{at} = {value}\n" for at, value in enumerate(values))
        (info / "entry_points.txt").write_text(f"[stateshift.families]\n{points}")
        monkeypatch.syspath_prepend(str(folder))
        return folder

    return on_path


@pytest.fixture(params=["a call", "an entry point"])
def registered(request, install):
    """The made-up family, registered in one of the two ways."""
    if request.param == "a call":
        register_family(FAMILY)
    else:
        install("made_up_family.family:FAMILY")


def job_of(amount):
    """A job whose states hold amounts of money, alone and within other types."""
    return Job([Operator("till", key=str, states=[
        ValueStateDescriptor("balance", amount), ListStateDescriptor("payments", amount),
        MapStateDescriptor("prices", str, amount), ValueStateDescriptor("baskets", list[tuple[str, amount]]),
    ])])  # fmt: skip


def drawn(hint, count=20):
    """Values that the strategies of the families draw."""
    found = []

    @settings(max_examples=count, database=None, derandomize=True)
    @given(values_of(hint))
    def collect(value):
        found.append(value)

    collect()
    return found


def contents(amount):
    """Drawn contents of the states of `job_of`, by state and key."""
    held = {state.name: drawn(state.state_serializer()) for state in job_of(amount).operators[0].states}
    return {name: {str(key): value for key, value in enumerate(values) if value not in ([], {})}
            for name, values in held.items()}  # fmt: skip


def write(place, amount):
    """Write a savepoint of drawn amounts, and return what it holds."""
    held = contents(amount)
    with SavepointWriter(place, job_of(amount)) as writer:
        for name, values in held.items():
            for key, value in values.items():
                writer.put("till", name, key, value)
    return held


def read(place):
    operator = Savepoint.open(place).operator("till")
    return {name: {entry.key: entry.value for entry in operator.state(name).read_entries()} for name in STATES}


def files_of(folder):
    return {file.name: file.read_bytes() for file in folder.iterdir() if file.name != LINEAGE}


def column_of(table):
    return [row["value"] for piece in table.slices(1, None) for batch in table.read(piece) for row in batch.to_pylist()]


def programs(place, job):
    """What the block transcoder compiles for each state."""
    states = plan(check(Savepoint.open(place).describe(), job.describe())).operators[0].states
    framings = {
        state.name: entry_framing(state.kind, key=StringSerializer(), namespace=ByteSerializer(), max_parallelism=128)
        for state in states
    }
    return [program_of(state, framings[state.name]) for state in states]


@pytest.mark.usefixtures("registered")
class TestAMigration:
    def test_it_is_checked_migrated_by_bytes_alone_read_and_verified(self, tmp_path, monkeypatch):
        monkeypatch.setenv("STATESHIFT_EXECUTOR", "numba")  # by itself it would take objects for so little state
        held = write(tmp_path / "old", NarrowMoney)
        report = check(Savepoint.open(tmp_path / "old").describe(), job_of(Money).describe())
        before = money.converted

        migrated = migrate(tmp_path / "old", tmp_path / "new", job_of(Money))

        assert before == money.converted
        assert {Verdict.REQUIRES_MIGRATION} == {state.result.verdict for state in report.operators[0].states}
        assert {"convert"} == {count.action for count in migrated.states}
        assert None not in programs(tmp_path / "old", job_of(Money))
        assert held == read(tmp_path / "new")
        assert verify(tmp_path / "new").ok

    def test_through_objects_it_comes_to_the_same_bytes(self, tmp_path):
        """A subclass outside the family has no byte rewrite."""
        write(tmp_path / "old", NarrowMoney)
        other = job_of(Annotated[Money, Elsewhere()])
        migrate(tmp_path / "old", tmp_path / "new", job_of(Money))
        before = money.converted

        migrate(tmp_path / "old", tmp_path / "other", other)

        assert {None} == set(programs(tmp_path / "old", other))
        assert before < money.converted
        assert files_of(tmp_path / "new") == files_of(tmp_path / "other")


@pytest.mark.usefixtures("registered")
class TestAbilities:
    @pytest.mark.parametrize("ability", [ability for ability in Ability if getattr(FAMILY, ability)])
    def test_what_the_family_registers_is_found_for_its_classes(self, ability):
        table = FAMILY.table(ability)

        assert table
        for key, entry in table.items():
            assert entry is (families.hint(key) if ability is Ability.HINTS else families.find(ability, key))

    def test_a_worker_gets_the_tables_but_not_those_of_tests(self):
        places = {getattr(FAMILY, ability) for ability in Ability if ability is not Ability.STRATEGIES}

        assert places - {""} == set(FAMILY.with_tables()._found)

    def test_its_values_are_exported_and_are_columns(self, tmp_path):
        with SavepointWriter(tmp_path / "sp", job_of(Money)) as writer:
            writer.put("till", "balance", "me", Money(1234, "EUR"))
            writer.put("till", "baskets", "me", [("tea", Money(5, "XTS"))])
        operator = Savepoint.open(tmp_path / "sp").operator("till")

        exported = {name: [row[1] for row in tagged_rows(operator, operator.state(name))] for name in STATES}
        columns = {name: column_of(StateTable.of(operator, name)) for name in ("balance", "baskets")}

        assert [{"$money": [1234, "EUR"]}] == exported["balance"]
        assert [[{"$tuple": ["tea", {"$money": [5, "XTS"]}]}]] == exported["baskets"]
        assert {"balance": ["EUR 12.34"], "baskets": [[{"f0": "tea", "f1": "XTS 0.05"}]]} == columns

    def test_a_rewrite_is_found_within_other_types(self):
        assert Sequence((Widened(4, 8), Fixed(3))) == rewrite_of(NARROW, widened, WIDE)
        assert None is rewrite_of(WIDE, None, NARROW)
        assert None is rewrite_of(NARROW, widened, Elsewhere())

    def test_a_hint_is_found_within_other_types(self):
        assert WIDE == serializer_for(Money)
        assert WIDE == serializer_for(dict[str, Money]).value

    def test_extreme_values_are_drawn(self):
        assert {(1 << 31) - 1, -(1 << 31)} <= {amount.cents for amount in drawn(NARROW, 100)}


@pytest.mark.usefixtures("no_families")
def test_without_registration_nothing_is_known():
    """Money is a class with fields, so that its hint means a record."""
    assert None is rewrite_of(NARROW, widened, WIDE)
    assert "made_up_family.money.Money" == serializer_for(Money).name
    with pytest.raises(DeclarationError, match="there is no strategy for values of money"):
        values_of(NARROW)


def test_a_new_process_knows_an_installed_family(install, tmp_path):
    """Nothing of it is imported before the savepoint names its snapshot."""
    folder = install("made_up_family.family:FAMILY")
    write(tmp_path / "old", NarrowMoney)
    path = os.pathsep.join([str(folder), str(TESTS)])

    done = subprocess.run(
        [sys.executable, "-m", "stateshift", "inspect", tmp_path / "old"],
        env=os.environ | {"PYTHONPATH": path}, capture_output=True, text=True, check=True,
    )  # fmt: skip

    assert "list<tuple<string, money>>" in done.stdout
    assert "not registered" not in done.stdout


@pytest.mark.usefixtures("no_families")
class TestErrors:
    def test_a_package_has_one_family(self):
        register_family(FAMILY)
        register_family(FAMILY)  # the same one again

        with pytest.raises(DeclarationError, match="the classes of made_up_family already belong to another family"):
            register_family(Family("made_up_family", hints=".hints:HINTS"))

    def test_a_built_in_package_has_its_family(self):
        package = "stateshift.serializers.primitives"

        with pytest.raises(DeclarationError, match=f"the classes of {package} already belong to another family"):
            register_family(Family(package))

    def test_what_is_no_family_is_refused(self):
        with pytest.raises(DeclarationError, match="'money' is not a Family"):
            register_family("money")

    def test_two_installed_families_of_one_package_are_told_with_the_second_one(self, install):
        install("made_up_family.family:FAMILY", "made_up_family.other:OTHER")
        sys.modules["made_up_family.other"] = type(sys)("made_up_family.other")
        sys.modules["made_up_family.other"].OTHER = Family("made_up_family")
        try:
            with pytest.raises(
                DeclarationError,
                match=r"made_up_family already belong to another family, beside that of the entry point 'point1'",
            ):
                serializer_for(Money)
        finally:
            del sys.modules["made_up_family.other"]

    @pytest.mark.parametrize(
        ("value", "reason"),
        [
            ("made_up_family.nowhere:FAMILY", "cannot be loaded: ModuleNotFoundError"),
            ("made_up_family.family:OTHER", "cannot be loaded: AttributeError"),
            ("made_up_family.money:Money", "is not a Family"),
        ],
    )
    def test_a_broken_entry_point_is_named_with_its_value(self, install, value, reason):
        install(value)

        with pytest.raises(DeclarationError) as caught:
            serializer_for(Money)

        assert f"the entry point 'point0' ({value})" in str(caught.value)
        assert reason in str(caught.value)
        assert caught.value.advice

    @pytest.mark.parametrize(
        ("place", "reason"),
        [
            (".nowhere:HINTS", "No module named 'made_up_family.nowhere'"),
            ("nowhere_at_all:HINTS", "No module named 'nowhere_at_all'"),
            (".hints:NOTHING", "has no attribute 'NOTHING'"),
        ],
    )
    def test_a_place_that_is_not_there_is_named_with_its_family(self, place, reason):
        register_family(Family("made_up_family", hints=place))

        with pytest.raises(DeclarationError) as caught:
            serializer_for(Money)

        assert f"the family of made_up_family names {place}, which cannot be loaded: " in str(caught.value)
        assert reason in str(caught.value)
        assert caught.value.advice

    def test_a_module_of_snapshots_that_is_not_there_registers_nothing(self):
        with pytest.raises(DeclarationError, match=r"names \.nowhere, which cannot be loaded"):
            register_family(Family("made_up_family", snapshots=(".nowhere",)))

        assert {} == families.registered

    @pytest.mark.parametrize("place", [".hints", ":HINTS", ".hints:"])
    def test_a_place_has_a_module_and_a_name(self, place):
        with pytest.raises(DeclarationError, match=f"hints='{place}' of the family of acme names no place"):
            Family("acme", hints=place)
