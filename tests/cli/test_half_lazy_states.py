"""A state that is half migrated lazily: every command reads and edits it whole, or refuses.

What each key has to hold does not depend on when it was touched.
"""

from __future__ import annotations

import json
from pathlib import Path

import half_lazy
import pyarrow as pa
import pytest
from half_lazy import Back, Renamed, Second, Third, contents, expected, harness
from live_backends import BACKENDS

from stateshift import DeclarationError, KeyedProcessFunction, MigrationOptions, RestoreRefused, Savepoint
from stateshift.compat.edits import Edits
from stateshift.state.columnar.listing import listing
from stateshift.state.columnar.state_types import Wanted, changed_state
from stateshift.state.columnar.table import StateTable
from stateshift.state.testing import HarnessSnapshot, KeyedProcessHarness

KEYS = 60
SECOND, THIRD = ["--job", "half_lazy:second"], ["--job", "half_lazy:third"]


@pytest.fixture(scope="module", params=[KEYS, pytest.param(5000, marks=pytest.mark.slow)])
def written(request, tmp_path_factory):
    place = tmp_path_factory.mktemp("half-lazy")
    half_lazy.half_lazy(place, request.param)
    return place, request.param


@pytest.fixture
def half(written, tmp_path, monkeypatch):
    """A copy of the half migrated state in the current folder, beside the one before it; with the number of keys."""
    place, keys = written
    monkeypatch.chdir(tmp_path)
    for name in ("first", "half"):
        Path(name).symlink_to(place / name)
    return keys


def restored(place, of, backend="rocksdb", state="v", **options):
    made = harness(of, backend, state)
    made.restore(HarnessSnapshot.of(Savepoint.open(place), "f"), **options)
    return made


def holds(place, of, keys, city, **options):
    """Whether a restore finds what is expected, in both backends; both go on from what the first one wrote."""
    for backend in ("rocksdb", "hashmap"):
        made = restored(place, of, backend, **options)
        assert expected(of, keys, city) == contents(made, keys)
        made.close()
    return True


def tables(place):
    return {state.name: state.measure().entries for state in Savepoint.open(place).operators[0].states}


def of_values(place):
    return {name: entries for name, entries in tables(place).items() if not name.startswith("_timer_state/")}


@pytest.mark.parametrize(
    ("command", "status", "said"),
    [
        (["check", "half", *SECOND], 4, "migrate: "),
        (["check", "half", *THIRD], 1, "the lazy migration of 'v' is not over: what is left in an old form"),
        (["check", "half", "--job", "half_lazy:back"], 1, "the lazy migration of 'v' is not over"),
        (["check", "half", "--job", "half_lazy:first"], 1, "the lazy migration of 'v' is not over"),
        (["check", "half", "--job", "half_lazy:other_default"], 1, "the lazy migration of 'v' is not over"),
        (["check", "half", "--like", "half"], 0, "start: every state"),
        (["check", "half", "--like", "first"], 1, "the lazy migration of 'v' is not over"),
        (["check", "first", "--like", "half"], 4, "half_lazy.First -> half_lazy.Second"),
        (["check", "half", "--job", "half_lazy:renamed"], 1, "--rename-state v=w;"),
        (["check", "half", "--job", "half_lazy:renamed", "--rename-state", "v=w"], 4, "migrate: "),
        (["check", "half", "--job", "half_lazy:other_uid"], 2, "--rename-uid OLD=NEW"),
        (["check", "half", "--job", "half_lazy:merging", "--repartition"], 4, "migrate: "),
        (["check", "half", "--job", "half_lazy:turned"], 1, "the lazy migration of 'by name' is not over"),
        (["plan", "half", *SECOND], 0, "stateshift/lazy-2/v  value, in one table with v"),
        (["plan", "half", *SECOND], 0, "the old job on the result: start"),
        (["plan", "half", *SECOND], 0, "converted"),
        (["plan", "half", *THIRD], 1, "the lazy migration of 'v' is not over"),
        (["migrate", "half", "new", *THIRD], 1, "[STATE-10]"),
        (["migrate", "half", "new", "--job", "half_lazy:other_default"], 1, "the lazy migration of 'v' is not over"),
        (["migrate", "half", "new", "--rename-state", "stateshift/lazy-2/v=v"], 2, "f/v, f/by name"),
        (["check", "half", *SECOND, "--scan"], 4, "migrate: "),
        (["snapshot", "half", "-o", "types.json"], 0, "written: types.json"),
        (["quarantine", "half"], 0, "nothing in quarantine"),
        (["diff", "half", "half"], 0, "equal: "),
        (["diff", "first", "half"], 1, "not compared, since it is migrated lazily"),
        (["verify", "half", "--values"], 0, "verified"),
        (["inspect", "half"], 0, "v is migrated lazily: {left} entries are left in an old form"),
    ],
)  # fmt: skip
def test_what_a_command_says(run, half, command, status, said):
    ran = run(*command)
    assert status == ran.status, ran.stdout + ran.stderr
    assert said.format(left=f"{half - half // 10:,}") in ran.stdout + ran.stderr
    assert not Path("new").exists()


def test_a_migration_to_the_types_that_it_goes_to_finishes_it(run, half):
    assert 0 == run("migrate", "half", "new", *SECOND).status
    assert 0 == run("verify", "new").status
    assert 0 == run("verify", "new", "--values").status
    assert {"v": half + 1, "by name": 2 * half + 2} == of_values("new")
    assert holds("new", Second, half, "of the second")
    assert 0 == run("migrate", "new", "newer", *THIRD).status
    assert holds("newer", Third, half, "of the second")
    assert 0 == run("migrate", "newer", "back", "--job", "half_lazy:second").status
    assert holds("back", Second, half, "of the second")


def test_a_state_is_renamed_with_all_its_tables(run, half):
    assert 0 == run("migrate", "half", "new", "--rename-state", "v=w").status
    assert {"v", "stateshift/lazy-2/v"}.isdisjoint(tables("new"))
    assert holds("new", Second, half, "of the second", state="w", lazy=True)
    assert holds("new", Third, half, "of the second", state="w", migrate=True)


def test_an_operator_gets_another_uid_while_it_is_finished(run, half):
    assert 0 == run("migrate", "half", "new", "--job", "half_lazy:other_uid", "--rename-uid", "f=g").status
    found = {state.name: state.measure().entries for state in Savepoint.open("new").operator("g").states}
    assert {"v": half + 1, "by name": 2 * half + 2} == {name: found[name] for name in ("v", "by name")}


@pytest.mark.usefixtures("half")
def test_what_init_writes_declares_no_table_and_starts(run):
    assert 0 == run("init", "half", "-o", "implied.py").status
    source = Path("implied.py").read_text()
    assert ("# - by name, v: migrated lazily", False) == (
        next(line for line in source.splitlines() if "v: " in line)[:31], "StateDescriptor(" in source,
    )  # fmt: skip
    assert "start: every state" in run("check", "half", "--job", "implied:job").stdout


@pytest.mark.usefixtures("half")
def test_a_state_is_dropped_with_all_its_tables(run):
    assert 0 == run("migrate", "half", "new", "--drop", "v").status
    kept = {name: entries for name, entries in tables("half").items() if not name.endswith("v")}
    assert kept == tables("new")


@pytest.mark.parametrize(
    "changes",
    [
        ["--rename-state", "v=w"],
        ["--compression", "snappy"],
        ["--parallelism", "3"],
        ["--repartition", "--max-parallelism", "64"],
    ],
)
def test_what_finishes_it_makes_one_table_beside_other_changes(run, half, changes):
    of_job = "half_lazy:renamed" if "--rename-state" in changes else "half_lazy:second"
    state = "w" if "--rename-state" in changes else "v"
    assert 0 == run("migrate", "half", "new", "--job", of_job, *changes).status
    assert 0 == run("verify", "new", "--values").status
    assert {state: half + 1, "by name": 2 * half + 2} == of_values("new")
    if "64" not in changes:
        assert holds("new", Second, half, "of the second", state=state)
    read = {entry.key: entry.value for entry in Savepoint.open("new").operator("f").state(state).read_entries()}
    wanted = expected(Second, half, "of the second")
    assert {key: (value.amount, value.city) for key, (value, _) in wanted.items()} == {
        key: (value["amount"], value["city"]) for key, value in read.items()
    }


@pytest.mark.usefixtures("half")
def test_keys_of_two_tables_that_become_one_are_merged_or_refused(run):
    """In one step it comes to what the end of the lazy migration and the merge come to one after the other."""
    rekeyed = ["--job", "half_lazy:merging", "--repartition"]
    merged = [*rekeyed, "--merge", "v=half_lazy:sum_of", "--merge", "by name=half_lazy:sum_of"]
    collided = run("migrate", "half", "new", *rekeyed)
    assert (6, True) == (collided.status, "two keys become one" in collided.stderr)
    assert not Path("new/_metadata").exists()
    assert 0 == run("migrate", "half", "at once", *merged).status
    assert 0 == run("migrate", "half", "first step", *SECOND).status
    assert 0 == run("migrate", "first step", "second step", *merged).status
    assert exported("second step", run) == exported("at once", run)
    (of_zero,) = (row["value"] for row in exported("at once", run) if (row["state"], row["key"]) == ("v", 0))
    assert sum((1, 1, 2, 3, 4, 5, 6, -5)) == of_zero["$pojo"]["fields"]["amount"]


def exported(place, run):
    return [json.loads(line) for line in run("export", place).stdout.splitlines()]


def test_tables_of_one_form_become_one_also_without_new_types(run, half, monkeypatch):
    """Releases that left them wrote such savepoints; so does a job while entries move to the state's own name."""
    with monkeypatch.context() as patched:
        patched.setattr("stateshift.compat.lazy_tables._labels_of_one", lambda _: None)
        assert 0 == run("migrate", "half", "left", *SECOND).status
    assert {"stateshift/lazy-2/v", "v"} <= tables("left").keys()
    turned = run("check", "left", "--job", "half_lazy:turned")
    assert (1, True) == (turned.status, "a transform is given only those of one at a time" in turned.stdout)
    for name, arguments in (("typed", SECOND), ("untyped", ["--compression", "snappy"])):
        assert 0 == run("check", "left", *SECOND).status
        assert 0 == run("migrate", "left", name, *arguments).status
        assert {"v": half + 1, "by name": 2 * half + 2} == of_values(name)
        assert holds(name, Second, half, "of the second")


@pytest.mark.usefixtures("half")
def test_the_files_of_the_heap_backend_have_both_tables_and_then_one(run):
    """A function that does not use the state leaves it as it is."""
    made = KeyedProcessHarness(Idle(), half_lazy.by_key, str, uid="f", backend=BACKENDS["hashmap"])
    made.restore(HarnessSnapshot.of(Savepoint.open("half"), "f"))
    made.snapshot("heap", is_checkpoint=True)
    made.close()
    assert {"stateshift/lazy-2/v", "v"} <= tables("heap").keys()
    assert 0 == run("migrate", "half", "new", *SECOND).status
    assert 0 == run("migrate", "heap", "of heap", *SECOND).status
    assert exported("new", run) == exported("of heap", run)


class Idle(KeyedProcessFunction):
    def process_element(self, value, ctx):
        yield from ()


@pytest.mark.parametrize(
    "changes", [["--parallelism", "3"], ["--repartition", "--max-parallelism", "64"], ["--compression", "snappy"]]
)
def test_other_changes_keep_every_value(run, half, changes):
    assert 0 == run("migrate", "half", "new", *changes).status
    assert 0 == run("migrate", "new", "newer", *SECOND).status
    read = {entry.key: entry.value for entry in Savepoint.open("newer").operator("f").state("v").read_entries()}
    found = {key: (value["amount"], value["city"]) for key, value in read.items()}
    wanted = expected(Second, half, "of the second")
    assert {key: (value.amount, value.city) for key, (value, _) in wanted.items()} == found


@pytest.mark.parametrize("backend", ["rocksdb", "hashmap"])
@pytest.mark.parametrize(("of", "city"), [(Third, "of the second"), (Renamed, "of the second"), (Back, "")])
def test_a_further_upgrade_and_the_way_back_need_the_end_of_the_first_one(half, backend, of, city):
    for options in ({}, {"lazy": True}):
        with pytest.raises(RestoreRefused, match="restore with migrate=True"):
            restored("half", of, backend, **options)
    wanted = expected(of, half, city)
    for options in ({"migrate": True}, {"migrate": True, "lazy": True}):
        made = restored("half", of, backend, **options)
        assert wanted == contents(made, half)
        again = made.snapshot(f"again-{len(options)}", is_checkpoint=True)
        made.restore(again, lazy=True)
        assert wanted == contents(made, half)
        while made.migrate_some(1000):
            pass
        assert wanted == contents(made, half)
        made.close()


def test_three_upgrades_in_a_row_come_to_what_one_after_the_other_gives(half):
    made = restored("half", Third, lazy=True, migrate=True)
    made.process_element(("k1", 1))
    half_again = made.snapshot("half again", is_checkpoint=True)
    made.restore(half_again, function=half_lazy.Keeps(Second), lazy=True, migrate=True)
    touched, left = Second(1, "of the third"), Second(1, "of the second")
    wanted = expected(Second, half, "of the second") | {"k1": (touched, {"x": touched, "y": left})}
    assert wanted == contents(made, half)
    made.close()


def test_a_restore_with_edits_edits_the_whole_state(half):
    renamed = MigrationOptions(edits=Edits(rename_states=(("v", "w"),)))
    for of in (Second, Third, Renamed):
        assert holds("half", of, half, "of the second", state="w", migrate=True, options=renamed)


def test_a_state_is_read_whole_from_python(run, half):
    operator = Savepoint.open("half").operator("f")
    read = {entry.key: entry.value for entry in operator.state("v").read_entries()}
    maps = {entry.key: entry.value for entry in operator.state("by name").read_entries()}
    assert (half + 1, half + 1, 2 * half + 2) == (
        len(read), operator.state("v").measure().entries, operator.state("by name").measure().entries,
    )  # fmt: skip
    assert (1, 1, "of the second") == (read["k1"]["total"], read["k0"]["amount"], read["k0"]["city"])
    assert (1, 0) == (maps["k0"]["x"]["amount"], maps["k0"]["y"]["total"])
    exported = [json.loads(line) for line in run("export", "half", "--state", "v").stdout.splitlines()]
    assert sorted(read) == sorted(row["key"] for row in exported)


def test_a_table_of_columns_has_all_of_one_form_and_refuses_several(run, half):
    with pytest.raises(DeclarationError, match="is migrated lazily, so its values have several types"):
        StateTable.of(Savepoint.open("half").operator("f"), "v")
    assert 0 == run("migrate", "half", "new", *SECOND).status
    table = StateTable.of(Savepoint.open("new").operator("f"), "v")
    rows = [row for piece in table.slices(2) for batch in table.read(piece) for row in batch.to_pylist()]
    assert half + 1 == len(rows) == len({row["key"] for row in rows})


def test_a_listing_names_the_state_with_each_of_its_types(half):
    rows = listing(Savepoint.open("half").operators).to_pylist()
    found = sorted((row["state"], row["entries"]) for row in rows if row["state"] in {"v", "by name"})
    touched = half // 10 + 1
    assert [
        ("by name", touched + 1),
        ("by name", 2 * half + 2 - touched - 1),
        ("v", touched),
        ("v", half + 1 - touched),
    ] == found


@pytest.mark.usefixtures("half")
def test_rows_are_not_written_into_a_part_of_a_state():
    operator, schema = Savepoint.open("half").operator("f"), pa.schema([("key", pa.string()), ("value", pa.int64())])
    for overwrite in (True, False):
        with pytest.raises(DeclarationError, match="rows would change only one of its tables"):
            changed_state(Wanted(operator="f", state="v", overwrite=overwrite), operator, schema)
