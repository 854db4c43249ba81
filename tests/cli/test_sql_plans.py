"""`check`, `plan` and `migrate` with compiled plans of Flink SQL."""

import gzip
import json
import shutil
from pathlib import Path

import pytest

from stateshift import Savepoint
from stateshift.serializers.snapshot import snapshot_to_bytes


@pytest.fixture
def sample(root):
    """`sample(name)`: the savepoint, the old plan and the new plan of a query."""

    def places(name):
        folder = root / "tests/fixtures/flink-sql-2.3" / name
        return [str(folder / one) for one in ("savepoint", "plan.json", "plan-2.json")]

    return places


def test_two_plans_are_compared_without_a_savepoint(run, sample):
    _, old, new = sample("join")
    ran = run("check", old, "--plan", new)

    assert 4 == ran.status
    assert "$<key>.flag  BOOLEAN -> (gone)" in (ran.stdout + ran.stderr)
    words = " ".join(ran.stdout.replace("\\\n", "").split())
    command = f"stateshift migrate SAVEPOINT NEW_SAVEPOINT --old-plan {old} --plan {new}"
    assert f"next, with a savepoint of the old query: {command}" in words


def test_a_savepoint_is_migrated_by_plans(run, sample, tmp_path):
    savepoint, old, new = sample("join")
    target = tmp_path / "new"
    ran = run("migrate", savepoint, target, "--old-plan", old, "--plan", new)

    assert 0 == ran.status
    words = " ".join((ran.stdout + ran.stderr).split())
    assert f"SET 'execution.state-recovery.path' = '{target}'; EXECUTE PLAN '{new}';" in words
    rows = [entry.value for entry in Savepoint.open(target).operator("7_join").state("right-records").read_entries()]
    assert {4} == {len(row) for found in rows for row in found}
    assert 0 == run("check", target, "--old-plan", new, "--plan", new).status


def test_what_begins_now_is_a_status_of_its_own_and_is_allowed_by_name(run, sample, tmp_path):
    savepoint, old, new = sample("group-aggregate")
    plans = ("--old-plan", old, "--plan", new)

    refused = run("check", savepoint, *plans)
    assert 8 == refused.status
    assert "accept it: --allow-partial" in (refused.stdout + refused.stderr)
    assert 1 == run("migrate", savepoint, tmp_path / "new", *plans).status
    assert not (tmp_path / "new").exists()
    assert 4 == run("check", savepoint, *plans, "--allow-partial").status
    ran = run("migrate", savepoint, tmp_path / "new", *plans, "--allow-partial")
    assert 0 == ran.status
    assert "begins now: $.MIN(orders.note) (52), of 5_group-aggregate/accState" in ran.stdout
    entries = Savepoint.open(tmp_path / "new").operator("5_group-aggregate").state("accState").read_entries()
    assert {None} == {entry.value[6] for entry in entries}


@pytest.fixture
def fewer(root, tmp_path):
    """A savepoint of a Top-N, as a plan that keeps five rows would have left it, that plan, and one that keeps two."""
    folder = root / "tests/fixtures/flink-sql-2.3/rank-append"
    new, old = folder / "plan.json", tmp_path / "five.json"
    old.write_text(new.read_text("utf-8").replace('"start": 1, "end": 2', '"start": 1, "end": 5'), "utf-8")
    return str(folder / "savepoint"), "--old-plan", str(old), "--plan", str(new)


def kept(place):
    state = Savepoint.open(place).operator("274_rank").state("data-state-with-append")
    return [sum(map(len, entry.value.values())) for entry in state.read_entries()]


def test_rows_beyond_a_lower_number_are_left_out_if_what_was_sent_may_stay(run, fewer, tmp_path):
    savepoint, *plans = fewer
    refused = run("check", savepoint, *plans)

    assert 1 == refused.status
    assert "accept it: --allow-stale" in (refused.stdout + refused.stderr)
    assert 1 == run("migrate", savepoint, tmp_path / "new", *plans).status
    assert not (tmp_path / "new").exists()
    assert 4 == run("check", savepoint, *plans, "--allow-stale").status
    assert 0 == run("migrate", savepoint, tmp_path / "new", *plans, "--allow-stale").status
    assert 2 < max(kept(savepoint))
    assert 2 == max(kept(tmp_path / "new"))


def test_a_migration_plan_says_that_what_was_sent_may_stay(run, fewer, tmp_path):
    savepoint, *plans = fewer
    planned = run("plan", savepoint, *plans, "--allow-stale", "-o", tmp_path / "todo.json")

    assert 0 == planned.status
    assert json.loads((tmp_path / "todo.json").read_text("utf-8"))["new_types"]["allows_stale"]
    assert 0 == run("migrate", savepoint, tmp_path / "new", "--plan", tmp_path / "todo.json").status
    assert 2 == max(kept(tmp_path / "new"))


def test_wider_keys_are_written_anew_where_that_is_asked_for(run, root, tmp_path):
    folder = root / "tests/fixtures/flink-sql-2.3/window-aggregate-tumble"
    new = tmp_path / "wide.json"
    new.write_text((folder / "plan.json").read_text("utf-8").replace("`k` INT", "`k` BIGINT"), "utf-8")
    given = (folder / "savepoint", "--old-plan", folder / "plan.json", "--plan", new)
    refused = run("check", *given)
    migrated = run("migrate", given[0], tmp_path / "new", *given[1:], "--repartition")

    assert (1, 0) == (refused.status, migrated.status)
    assert "--repartition" in (refused.stdout + refused.stderr)
    before, after = (
        Savepoint.open(place).operator("347_global-window-aggregate")
        for place in (folder / "savepoint", tmp_path / "new")
    )
    for name, read in (("window-aggs", "read_entries"), ("_timer_state/event_window-timers", "read_timers")):
        was, becomes = (sorted(map(str, getattr(of.state(name), read)())) for of in (before, after))
        assert was
        assert was == becomes  # the keys are the same numbers, in other key groups


def test_a_migration_plan_names_both_plans_and_is_followed(run, sample, tmp_path):
    savepoint, old, new = sample("group-aggregate")
    file = tmp_path / "plan.json"
    planned = run("plan", savepoint, "--old-plan", old, "--plan", new, "--allow-partial", "-o", file)

    assert 0 == planned.status
    types = json.loads(file.read_text("utf-8"))["new_types"]
    assert {"from": "plan", "place": new, "metadata_sha256": None, "old_plan": old, "allows_partial": True} == types
    ran = run("migrate", savepoint, tmp_path / "new", "--plan", file)
    assert 0 == ran.status
    assert "EXECUTE PLAN" in (ran.stdout + ran.stderr)


def test_without_the_old_plan_other_columns_are_refused_with_the_way_out(run, sample):
    savepoint, _, new = sample("join")
    ran = run("check", savepoint, "--plan", new)

    assert 1 == ran.status
    assert "--old-plan" in (ran.stdout + ran.stderr)


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("{savepoint}", "--old-plan", "{old}"), "needs --plan, the new query"),
        (("{savepoint}", "--plan", "{new}", "--job", "a:b"), "--job and --plan both determine"),
        (("{old}", "--plan", "{new}", "--old-plan", "{old}"), "give that with --plan, and no --old-plan"),
        (("{old}", "--plan", "{new}", "--scan"), "which a plan does not have"),
    ],
)
def test_what_does_not_go_together_is_refused(run, sample, words, why):
    savepoint, old, new = sample("join")
    ran = run("check", *(word.format(savepoint=savepoint, old=old, new=new) for word in words))

    assert 2 == ran.status
    assert why in " ".join((ran.stdout + ran.stderr).split())


def test_a_file_that_is_no_plan_is_named(run, sample, tmp_path):
    savepoint, old, _ = sample("join")
    (tmp_path / "new.json").write_text('{"flinkVersion": "2.3", "nodes": [', "utf-8")
    ran = run("check", savepoint, "--old-plan", old, "--plan", tmp_path / "new.json")

    assert 3 == ran.status
    assert "no compiled plan of Flink: line 1, column" in " ".join((ran.stdout + ran.stderr).split())


def moved(place, target):
    """Write a plan as another compilation of the query would be: its operators have other numbers."""
    plan = json.loads(place.read_text())
    for node in plan["nodes"]:
        node["id"] += 10
    for edge in plan["edges"]:
        edge["source"], edge["target"] = edge["source"] + 10, edge["target"] + 10
    target.write_text(json.dumps(plan))
    return target


def test_one_query_that_is_compiled_twice_is_equal(run, root, tmp_path):
    plan = root / "tests/fixtures/flink-sql-2.3/join/plan.json"
    again = moved(plan, tmp_path / "again.json")
    ran, data = run("diff", plan, again), run("diff", plan, again, "--json").data

    assert (0, True) == (ran.status, data["equal"])
    assert "in B 17_join" in ran.stdout
    assert "17_join" == next(one["moved"] for one in data["operators"] if one["uid"] == "7_join")
    assert ("migrate", "migrate") == (data["forwards"], data["backwards"])
    assert 4 == run("check", plan, "--plan", again).status


def test_plans_that_differ_say_where(run, sample):
    _, old, new = sample("join")
    ran, data = run("diff", old, new), run("diff", old, new, "--json").data

    assert (1, False) == (ran.status, data["equal"])
    assert "$<key>.flag  BOOLEAN -> (gone)" in ran.stdout
    (operator,) = (one for one in data["operators"] if not one["equal"])
    assert ("7_join", None) == (operator["uid"], operator["moved"])
    assert ["drops:$<key>.flag"] == operator["states"][0]["forwards"]["findings"][0]["flags"]


def test_equal_types_of_other_values_are_different(run, root, tmp_path):
    text = gzip.decompress((root / "tests/fixtures/flink-sql-upgrades.jsonl.gz").read_bytes())
    sum_to_min = next(one for one in map(json.loads, text.splitlines()) if one["row"] == "GA10")
    places = [tmp_path / f"{side}.json" for side in ("old", "new")]
    for place, side in zip(places, ("old", "new"), strict=True):
        place.write_text(json.dumps(sum_to_min[side]))
    ran = run("diff", *places, "--json")

    states = [state for one in ran.data["operators"] for state in one["states"]]
    assert (1, [["values"]]) == (ran.status, [[change["kind"] for change in one["changes"]] for one in states])
    assert "$.MIN(MyTable.a)  (none) -> INT" in run("diff", *places).stdout


def test_other_rows_of_a_sink_are_a_difference(run, root, tmp_path):
    place = root / "tests/fixtures/flink-sql-2.3/rank-append/plan.json"
    plan = json.loads(place.read_text())
    (rank,) = (node for node in plan["nodes"] if node["type"].startswith("stream-exec-rank"))
    rank["rankRange"]["end"] += 1
    other = tmp_path / "other.json"
    other.write_text(json.dumps(plan))
    data = run("diff", place, other, "--json").data

    assert ["SQL-18"] == [one["rule"] for one in data["query"]]
    (operator,) = (one for one in data["operators"] if not one["equal"])
    assert ["SQL-11"] == [one["rule"] for one in operator["work"]["forwards"]["findings"]]


class TestExplain:
    def test_states_are_told_with_what_they_keep_and_until_when(self, run, root):
        data = run("explain", root / "tests/fixtures/flink-sql-2.3/join-left-no-key-ttl/plan.json", "--json").data

        (join,) = data["operators"]
        assert ("184_join", None, ["k"]) == (join["operator"], join["added_for"], [one["name"] for one in join["keys"]])
        assert [("left-records", "different_row", ["time_to_live"], 86_400_000)] == [
            (one["name"], one["keeps"], one["until"], one["ttl_ms"]) for one in join["states"][:1]
        ]
        assert [] == data["endless"]

    def test_what_grows_for_ever_is_noted_with_the_way_out(self, run, root):
        place = root / "tests/fixtures/flink-sql-2.3/aggregate-retract/plan.json"
        ran = run("explain", place)

        assert 0 == ran.status
        words = " ".join(ran.stdout.replace("\\\n", "").split())
        assert "agg4$list, agg4$retractList, distinctAcc_0, distinctAcc_0_null_state: grow for ever" in words
        assert f"stateshift ttl set {place} 10=TTL -o NEW" in words

    @pytest.mark.parametrize(
        ("name", "why"), [("changelog-normalize", "rows_before"), ("upsert-materialize", "sink_key")]
    )
    def test_an_operator_that_the_planner_has_added_says_why(self, run, root, name, why):
        ran = run("explain", root / f"tests/fixtures/flink-sql-2.3/{name}/plan.json", "--json")

        assert [why] == [one["added_for"] for one in ran.data["operators"]]

    def test_columns_are_shown_when_asked_for(self, run, root):
        place = root / "tests/fixtures/flink-sql-2.3/rank-append/plan.json"

        assert "d DECIMAL(20, 2) = l.d" not in run("explain", place).stdout
        assert "    by d DECIMAL(20, 2) = l.d\n" in run("explain", place, "--all").stdout

    def test_a_file_that_is_no_plan_is_refused(self, run, tmp_path):
        place = tmp_path / "plan.json"
        place.write_text('{"flinkVersion": "2.3", "nodes": [')
        ran = run("explain", place)

        assert 3 == ran.status
        assert "the file is no compiled plan of Flink: line 1" in ran.stderr


def test_rows_that_become_equal_are_counted_together_and_the_counts_are_right(run, root, tmp_path):
    folder, target = root / "tests/fixtures/flink-sql-merging", tmp_path / "new"
    plans = ("--old-plan", folder / "plan-1.json", "--plan", folder / "plan-2.json")
    data = run("migrate", folder / "savepoint", target, *plans, "--json").data

    left = next(one for one in data["states"] if one["state"] == "left-records")
    assert (16, 12, 0, 4) == tuple(left[name] for name in ("read", "written", "dropped", "merged"))
    assert 0 == run("verify", target, "--values").status
    rows = [
        [one for entry in Savepoint.open(place).operator("5_join").state("left-records").read_entries()
         for one in entry.value.values()]
        for place in (folder / "savepoint", target)
    ]  # fmt: skip
    assert [16, 12] == [len(one) for one in rows]
    assert sum(count for count, _ in rows[0]) == sum(count for count, _ in rows[1])


def types_in(savepoint):
    """Give the types of a savepoint's rank as they are stored, comparator and all."""
    found = Savepoint.open(savepoint).describe().operators
    (rank,) = (one for one in found if any(state.name == "sorted-map" for state in one.states))
    return {state.name: snapshot_to_bytes(state.value.snapshot) for state in rank.states}


class TestTemplate:
    """A rank that takes rows back, whose order has other types: real Flink made the savepoint, and that of no input."""

    @pytest.fixture
    def ranks(self, root):
        folder = root / "tests/fixtures/flink-sql-template"
        return [str(folder / one) for one in ("savepoint", "old.json", "new.json", "template")]

    def test_it_is_asked_for_and_the_order_is_that_of_it(self, run, ranks, tmp_path):
        savepoint, old, new, template = ranks
        plans, target = ("--old-plan", old, "--plan", new), tmp_path / "new"

        refused = run("check", savepoint, *plans)
        assert 1 == refused.status
        assert "give a savepoint of the new plan, which has them: --template" in refused.stdout
        assert 4 == run("check", savepoint, *plans, "--template", template).status
        ran = run("migrate", savepoint, target, *plans, "--template", template, "--json")
        assert 0 == ran.status
        places = ((target, "7_rank"), (savepoint, "9_rank"))
        made, was = (Savepoint.open(place).operator(uid).state("sorted-map") for place, uid in places)
        assert types_in(target) == types_in(template) != types_in(savepoint)
        counts = [[(entry.key, {tuple(key): n for key, n in entry.value.items()}) for entry in one.read_entries()]
                  for one in (made, was)]  # fmt: skip
        assert [] != counts[0] == counts[1]
        assert 0 == run("check", target, "--old-plan", new, "--plan", new).status

    def test_a_plan_file_has_it_and_holds_it_to_what_it_was(self, run, ranks, tmp_path):
        savepoint, old, new, template = ranks
        file, moved = tmp_path / "plan.json", tmp_path / "moved"
        shutil.copytree(template, moved)
        planned = run("plan", savepoint, "--old-plan", old, "--plan", new, "--template", template, "-o", file)

        assert 0 == planned.status
        assert "the order of the keys is stored as objects of Java, which are written as in the template" in " ".join(
            planned.stdout.split()
        )
        assert template == json.loads(file.read_text())["new_types"]["template"]
        other = run("migrate", savepoint, tmp_path / "new", "--plan", file, "--template", savepoint)
        assert 1 == other.status
        assert "is not the savepoint that the plan was made with" in " ".join(other.stderr.split())
        assert 0 == run("migrate", savepoint, tmp_path / "new", "--plan", file, "--template", moved).status

    @pytest.mark.parametrize(
        ("edit", "differs"),
        [
            (("BIGINT", "INT"), "the state accState of 5_group-aggregate is RowData<STRING, INT> in the plan"),
            (('"isAscending" : false', '"isAscending" : true'), "the state sorted-map of 7_rank is a map in the order"),
            (('"id" : 7,', '"id" : 70,'), "the savepoint has no state of 70_rank"),
        ],
    )  # fmt: skip
    def test_one_of_another_plan_is_refused_with_what_differs(self, run, ranks, tmp_path, edit, differs):
        savepoint, old, new, template = ranks
        plan = tmp_path / "plan.json"
        text = Path(new).read_text("utf-8").replace(*edit)
        plan.write_text(text.replace('"source" : 7', '"source" : 70').replace('"target" : 7', '"target" : 70')
                        if "70" in edit[1] else text, encoding="utf-8")  # fmt: skip
        ran = run("check", savepoint, "--old-plan", old, "--plan", plan, "--template", template)

        assert 2 == ran.status
        words = " ".join(ran.stderr.split())
        assert f"the template, savepoint {template}, is not of plan {plan}: {differs}" in words

    def test_one_with_more_operators_is_refused(self, run, ranks, sample):
        savepoint, *_, template = ranks
        _, old, _ = sample("group-aggregate")
        ran = run("check", savepoint, "--plan", old, "--template", template)

        assert 2 == ran.status
        assert "is not of plan" in " ".join(ran.stderr.split())

    def test_it_is_of_a_plan(self, run, ranks):
        savepoint, *_, template = ranks
        ran = run("check", savepoint, "--template", template)

        assert 2 == ran.status
        assert "--template is a savepoint of a new query, and needs --plan" in " ".join(ran.stderr.split())


class TestKeepNewest:
    """Two stored rows have a key that is unique now: real Flink read one of them some time after the other."""

    @pytest.fixture
    def joined(self, root):
        folder = root / "tests/fixtures/flink-sql-newest"
        return str(folder / "savepoint"), ("--old-plan", str(folder / "old.json"), "--plan", str(folder / "new.json"))

    def test_without_it_the_migration_ends_and_names_it(self, run, joined, tmp_path):
        savepoint, plans = joined
        checked, ran = run("check", savepoint, *plans), run("migrate", savepoint, tmp_path / "new", *plans)

        assert (4, 6) == (checked.status, ran.status)
        assert "have the newest of such rows stay: --keep-newest" in " ".join(checked.stdout.split())
        words = " ".join(ran.stderr.split())
        assert "is not the only one with it" in words
        assert "have the newest of such rows stay: --keep-newest" in words
        assert not (tmp_path / "new").exists()

    def test_with_it_the_row_that_was_written_last_stays(self, run, joined, tmp_path):
        savepoint, plans = joined
        file, target, options = tmp_path / "plan.json", tmp_path / "new", ("--keep-newest", "--allow-stale")

        assert 1 == run("migrate", savepoint, target, *plans, "--keep-newest").status  # what was sent is stale
        assert 0 == run("plan", savepoint, *plans, *options, "-o", file).status
        assert json.loads(file.read_text())["new_types"]["keeps_newest"] is True
        assert 0 == run("migrate", savepoint, target, "--plan", file).status
        rows = (
            entry.value.value
            for entry in Savepoint.open(target).operator("9_join").state("right-records").read_entries()
        )
        assert [(0, "0 of 0"), (1, "1 of 1"), (2, "1 of 2"), (3, "1 of 3")] == sorted(map(tuple, rows))
        assert 0 == run("verify", target, "--values").status


def test_the_report_names_columns_that_are_null_in_what_was_stored(run, sample, tmp_path):
    savepoint, plan, fewer = sample("join")
    run("migrate", savepoint, tmp_path / "fewer", "--old-plan", plan, "--plan", fewer)
    ran = run("migrate", tmp_path / "fewer", tmp_path / "new", "--old-plan", fewer, "--plan", plan)
    back = ("migrate", tmp_path / "fewer", tmp_path / "data", "--old-plan", fewer, "--plan", plan, "--json")
    new = {one["state"]: one for one in run(*back).data["new_columns"]}["left-records"]

    assert "null in what was stored: $<key>.flag (120), of 7_join/left-records" in " ".join(ran.stdout.split())
    assert (["$<key>.flag"], [], 120) == (new["filled"], new["begun"], new["entries"])


def test_columns_have_the_names_of_the_plan(run, sample):
    savepoint, plan, _ = sample("join")
    shown = run("inspect", savepoint, "--plan", plan, "--operator", "7_join", "--full").stdout
    of_join = ("--operator", "7_join", "--state", "right-records")
    named = json.loads(run("export", savepoint, "--plan", plan, *of_join).stdout.splitlines()[0])
    bare = json.loads(run("export", savepoint, *of_join).stdout.splitlines()[0])

    assert "key RowData<customer INT>" in shown
    assert "RowData<id INT, name STRING, city STRING," in " ".join(shown.split())
    names = ["id", "name", "city", "score", "seen"]
    ((row, count),), ((same, _),) = named["value"]["$map"], bare["value"]["$map"]
    assert (dict(zip(names, same["$sqlrow"]["fields"], strict=True)), 1) == (row["$sqlrow"]["fields"], count)
    assert {"customer": bare["key"]["$sqlrow"]["fields"][0]} == named["key"]["$sqlrow"]["fields"]


@pytest.mark.parametrize("name", ["group-aggregate", "deduplicate", "rank-append", "interval-join", "aggregate-ttl"])
def test_every_state_of_a_plan_is_exported_by_name(run, sample, name):
    savepoint, plan, _ = sample(name)
    bare, named = (json.loads(run("export", savepoint, "--json", *more).stdout) for more in ((), ("--plan", plan)))

    assert bare != named
    assert without_names(bare) == without_names(named)


def without_names(found):
    """Return an export with the fields of rows by position."""
    if isinstance(found, dict):
        items = found.items()
        return {k: list(map(without_names, v.values())) if k == "fields" and isinstance(v, dict) else without_names(v)
                for k, v in items}  # fmt: skip
    return [without_names(one) for one in found] if isinstance(found, list) else found


def test_the_names_are_those_of_the_plan_that_wrote_the_savepoint(run, sample):
    savepoint, plan, changed = sample("join")
    of_others = sample("rank-append")[1]
    spark = run("inspect", "spark:nowhere", "--plan", plan)

    wrong = {changed: "it has other columns", of_others: "has none of the operators of the plan"}
    for command in ("inspect", "export"):
        for given, words in wrong.items():
            assert words in " ".join(run(command, savepoint, "--plan", given).stderr.split())
    assert "--plan names the columns of Flink SQL" in spark.stderr


def test_a_plan_in_the_place_of_a_savepoint_is_told_and_a_savepoint_in_that_of_a_plan(run, sample, tmp_path):
    savepoint, plan, changed = sample("join")
    text = tmp_path / "plan.txt"
    text.write_bytes(Path(plan).read_bytes())

    for words in (("inspect", plan), ("export", plan), ("verify", text), ("migrate", plan, "out", "--plan", changed)):
        assert "it is a compiled plan of Flink SQL, not a savepoint" in run(*words).stderr
    for words in (
        ("check", savepoint, "--plan", savepoint), ("check", savepoint, "--old-plan", savepoint, "--plan", plan),
        ("migrate", savepoint, "out", "--plan", savepoint), ("explain", savepoint), ("ttl", savepoint),
    ):  # fmt: skip
        assert "it is a savepoint, not a compiled plan" in run(*words).stderr
    assert 0 == run("check", text, "--plan", plan).status
