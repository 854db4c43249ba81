"""Changes of queries of Flink SQL: what a check of both plans says, row by row of the published table and beyond."""

import datetime as dt
import json

import attrs
import pytest
from sql_upgrades import UPGRADES

from stateshift import Decision, Savepoint, check
from stateshift.compat.description import operator_id_of_uid
from stateshift.compat.edits import Edits, NewIdentity
from stateshift.compat.plan import StateAction
from stateshift.compat.planner import plan as plan_of
from stateshift.compat.repartition import Repartition
from stateshift.compat.sql.description import describe_query
from stateshift.serializers.compatibility import Flag
from stateshift.serializers.ways_out import Option
from stateshift.state import describe_plans

LEAST = {
    "full": ("start", "migrate"),
    "partial": ("start", "migrate", "partial"),
    "none": ("refuse",),
    "conditional": ("refuse",),
    "unknown": ("start", "migrate"),  # what no plan shows is named as not compared
}
STRICTER = {
    "J8",  # a further condition lets other rows in
}
"""Rows where we refuse what the vendor lets go on."""
BETTER = {
    "DD2": "the input only inserts rows: a new column begins with null",
    "TN7": "the input only inserts rows: a new column begins with null",
    "TN7b": "a column that is dropped changes no other",
    "J3": "the input only inserts rows: a new column begins with null",
    "J3b": "a column that is dropped changes no other",
    "J9c": "both inputs only insert rows: a new column begins with null",
    "J9d": "a column that is dropped changes no other",
    "TS3": "the input only inserts rows: a new column begins with null",
    "S9c": "an INT is the same number as a BIGINT",
    "TV12": "the same keys in another order: all state of the operator is rewritten, if that is asked for",
    "S5": "stored rows are kept by the new key, and two with one key abort the migration",
    "OV6": "all columns of the table come in before and after: the rows that are stored are the same",
}
"""Rows where a migration keeps what the vendor gives up; each is run by real Flink, in test_sql_upgrades.py."""


def report_of(plans, row, given="", **options):
    old, new = plans(row, "old"), plans(row, "new")
    if given == "--allow-stale":
        options["allows_stale"] = True
    if given == "--template":
        options["template"] = describe_query(new)
    repartition = Repartition() if given == "--repartition" else None
    return check(describe_query(old), describe_query(new, old, **options), repartition=repartition)


def rules_of(report):
    return {one.rule for one in report.all_findings()}


@pytest.mark.parametrize("upgrade", UPGRADES, ids=lambda one: one.row)
def test_a_check_says_what_becomes_of_the_state(plans, upgrade):
    report = report_of(plans, upgrade.row, upgrade.given)

    assert upgrade.decision == ("partial" if report.is_partial else report.decision)
    if upgrade.published and upgrade.row not in STRICTER | BETTER.keys():
        assert upgrade.decision in LEAST[upgrade.published]


@pytest.mark.parametrize("upgrade", [one for one in UPGRADES if one.given], ids=lambda one: one.row)
def test_what_has_to_be_asked_for_is_refused_and_says_how(plans, upgrade):
    refused = report_of(plans, upgrade.row)
    ways = [way for one in refused.all_findings() for way in one.ways_out]

    assert Decision.REFUSE == refused.decision
    assert Option(upgrade.given) in {told.option for way in ways for told in way.told}


@pytest.mark.parametrize("upgrade", [one for one in UPGRADES if one.decision == "partial"], ids=lambda one: one.row)
def test_what_begins_now_is_named_and_can_be_allowed(plans, upgrade):
    refused = report_of(plans, upgrade.row)
    allowed = report_of(plans, upgrade.row, allows_partial=True)

    assert (8, 4) == (refused.exit_status(), allowed.exit_status())
    assert Decision.MIGRATE == allowed.decision
    begun = [one for one in allowed.all_findings() if one.has(Flag.PARTIAL)]
    assert begun
    assert {"SQL-15"} == {one.rule for one in begun}


@pytest.mark.parametrize(
    ("row", "rule", "path"),
    [
        ("TV5", "SQL-4", "$"),
        ("S9c", "SQL-5", "$<key>.d"),
        ("S9b", "SQL-6", "$<key>.z"),
        ("GA2", "SQL-7", "$.MAX(MyTable.c)"),
        ("DD2", "SQL-8", "$.d"),
        ("X7", "SQL-8", "$.MIN(SUM(MyTable.d)) with retraction"),
        ("O4", "SQL-9", "$"),
        ("W1", "SQL-10", "$"),
        ("J3c", "SQL-11", "$"),
        ("GA7", "SQL-12", "$"),
        ("CEP1", "SQL-13", "$"),
        ("RR4", "SQL-22", "$"),
        ("AR1", "SQL-22", "$.e"),
        ("RR3", "SQL-8", "${}[].m"),
        ("OV9", "SQL-8", "$.$SUM0(MyTable.d) with retraction"),
        ("OV17", "SQL-11", "$"),
        ("WJ4", "SQL-10", "$"),
        ("J9", "SQL-11", "$"),
        ("K5", "SQL-12", "$"),
        ("TV1", "SQL-15", "$.MAX(MyTable.c)"),
        ("LN1", "SQL-19", "$"),
        ("UK1", "SQL-20", "$"),
        ("BF1", "SQL-21", "$.AVG(MyTable.b)[0]"),
        ("TN6", "SQL-11", "$"),
        ("LN6", "SQL-10", "$"),
    ],
)
def test_each_difference_has_its_rule_and_place(plans, row, rule, path):
    assert (rule, path) in {(one.rule, str(one.path)) for one in report_of(plans, row).all_findings()}


@pytest.mark.parametrize(
    ("row", "columns"), [("J3", ["$<key>.d"]), ("J9c", ["${}.d"]), ("TJ1", ["${}.y"]), ("OV12", ["${}[].b"])]
)
def test_a_column_that_finds_rows_may_not_begin(plans, row, columns):
    """The input takes rows back: a stored row with null would never be found again."""

    def with_updates(plan):
        for node in plan["nodes"]:
            options = node.get("scanTableSource", {}).get("table", {}).get("resolvedTable", {}).get("options", {})
            if options:
                options["format"] = "debezium-json"
        return plan

    old, new = plans(row, "old", with_updates), plans(row, "new", with_updates)
    report = check(describe_query(old), describe_query(new, old))

    assert Decision.REFUSE == report.decision
    assert [(column, "SQL-8") for column in columns] == [
        (str(one.path), one.rule) for one in report.all_findings() if one.verdict.decision is Decision.REFUSE
    ]


def test_a_rank_that_takes_rows_back_keeps_its_number(plans):
    """What it keeps beyond is not trimmed here; so another number of rows is other work."""

    def retracted(plan):
        for node in plan["nodes"]:
            if "rankStrategy" in node:
                node["rankStrategy"] = {"type": "Retract"}
        return plan

    old, new = plans("LN1", "old", retracted), plans("LN1", "new", retracted)

    assert Decision.REFUSE == check(describe_query(old), describe_query(new, old, allows_stale=True)).decision
    assert Decision.START == check(describe_query(old), describe_query(old, old)).decision


@pytest.mark.parametrize(
    ("row", "kind", "facts"),
    [
        ("J10", "lookup-join", {"asyncLookupOptions": {"asyncOrderMode": "ORDERED"}}),
        ("J10", "lookup-join", {"requireUpsertMaterialize": True}),
        ("OV5", "over-aggregate", {}),
    ],
)
def test_an_operator_of_which_it_is_not_known_what_it_keeps_goes_on_as_it_is_or_not_at_all(plans, row, kind, facts):
    """Over a window by a time and another column, it is not known what Flink keeps."""

    def changed(plan):
        for node in plan["nodes"]:
            if kind in node["type"]:
                node.update(facts)
                for group in node.get("overSpec", {}).get("groups", ()):
                    group["orderBy"]["fields"].append({"index": 1, "isAscending": True, "nullIsLast": False})
        return plan

    old, new = plans(row, "old", changed), plans(row, "new", changed)
    same, other = (check(describe_query(old), describe_query(one, old)) for one in (old, new))

    assert (Decision.START, Decision.REFUSE) == (same.decision, other.decision)
    assert "SQL-13" in rules_of(same) & rules_of(other)


def test_a_sink_of_another_table_is_another_one_and_a_source_is_refused(plans):
    assert Decision.START == report_of(plans, "K3b").decision
    assert Decision.REFUSE == report_of(plans, "S8").decision


def test_names_of_columns_and_numbers_of_nodes_decide_nothing(plans):
    def renumbered(plan):
        for node in plan["nodes"]:
            node["id"] += 100
        for edge in plan["edges"]:
            edge["source"] += 100
            edge["target"] += 100
        return plan

    old, new = plans("GA2", "old"), plans("GA2", "old", renumbered)
    report = check(describe_query(old), describe_query(new, old))

    assert Decision.MIGRATE == report.decision  # the uid moves, and nothing else
    assert [] == [one for one in report.all_findings() if one.flags]
    (moved,) = (one for one in report.operators if one.was.key is not None)
    assert ("105_group-aggregate", "e44fcf02ab5f57873c2fb260e638a93c") == (moved.uid, moved.was.stored_id)


def test_two_operators_that_nothing_tells_apart_are_asked_for(plans):
    def doubled(first):
        def change(plan):
            copies = [dict(node, id=node["id"] + first) for node in plan["nodes"]]
            edges = [dict(edge, source=edge["source"] + first, target=edge["target"] + first) for edge in plan["edges"]]
            plan["nodes"] += copies
            plan["edges"] += edges
            return plan

        return change

    def moved(plan):
        for node in plan["nodes"]:
            node["id"] += 50
        for edge in plan["edges"]:
            edge["source"] += 50
            edge["target"] += 50
        return doubled(100)(plan)

    old, new = plans("GA2", "old", doubled(20)), plans("GA2", "old", moved)
    report = check(describe_query(old), describe_query(new, old))
    asked = [one for one in report.all_findings() if one.rule == "SQL-9"]

    assert Decision.REFUSE == report.decision
    ways = [str(way) for one in asked for way in one.ways_out]
    assert "say which one it is: --rename-uid 5_group-aggregate=55_group-aggregate" in ways


def test_another_release_and_other_options_are_named_and_values_are_not_shown(plans):
    def elsewhere(plan):
        plan["flinkVersion"] = "2.4"
        for node in plan["nodes"]:
            options = node.get("scanTableSource", {}).get("table", {}).get("resolvedTable", {}).get("options", {})
            options.update({"path": "s3://key:secret@bucket"} if options else {})
        return plan

    old, new = plans("A0", "old"), plans("A0", "old", elsewhere)
    report = check(describe_query(old), describe_query(new, old))

    assert Decision.START == report.decision
    assert {"SQL-16", "SQL-17"} == {one.rule for one in report.reads.result.findings}
    assert all(one.has(Flag.UNVERIFIED) for one in report.reads.result.findings)
    assert "secret" not in str(attrs.astuple(report.reads))


def test_a_filter_behind_the_state_is_about_what_was_sent(plans):
    def filtered(plan):
        calc = json_calc(plan)
        plan["nodes"].append(calc)
        (edge,) = (one for one in plan["edges"] if one["target"] == sink(plan))
        plan["edges"].append({**edge, "source": edge["source"], "target": calc["id"]})
        edge["source"] = calc["id"]
        return plan

    def sink(plan):
        return next(node["id"] for node in plan["nodes"] if "exec-sink" in node["type"])

    def json_calc(plan):
        source = next(edge["source"] for edge in plan["edges"] if edge["target"] == sink(plan))
        row = next(node["outputType"] for node in plan["nodes"] if node["id"] == source)
        references = [{"kind": "INPUT_REF", "inputIndex": at, "type": "BIGINT"} for at in range(2)]
        condition = {"kind": "CALL", "internalName": "$IS NOT NULL$1", "operands": references[:1], "type": "BOOLEAN"}
        return {
            "id": 77,
            "type": "stream-exec-calc_1",
            "projection": references,
            "condition": condition,
            "outputType": row,
        }

    old, new = plans("A0", "old"), plans("A0", "old", filtered)
    report = check(describe_query(old), describe_query(new, old))

    assert Decision.START == report.decision
    assert ["SQL-18"] == [one.rule for one in report.reads.result.findings]


def test_the_way_back_is_that_of_the_plans(plans):
    from stateshift.compat.way_back import ways_back

    assert "migrate" == ways_back(report_of(plans, "TV5")).worst
    assert "refuse" == ways_back(report_of(plans, "X2")).worst


def test_functions_and_settings_that_no_plan_shows_are_not_compared(plans):
    report = report_of(plans, "A0")

    assert any("table.exec.async-state.enabled" in line for line in report.not_compared)


def test_a_savepoint_of_another_query_is_told_from_that_of_the_plan(plans, root):

    stored = Savepoint.open(root / "tests/fixtures/flink-sql-2.3/group-aggregate/savepoint").describe()
    old = plans("A0", "old")
    report = check(stored, describe_query(old, old))

    assert "SQL-14" in rules_of(report)
    assert Decision.REFUSE == report.decision


def test_a_savepoint_without_the_operators_of_the_plan_is_refused(plans, root):
    """A query that is started by INSERT INTO has hashes in place of uids."""

    stored = Savepoint.open(root / "tests/fixtures/flink-sql-2.3/deduplicate/savepoint").describe()
    old = plans("A0", "old")
    report = check(stored, describe_query(old, old))

    assert Decision.REFUSE == report.decision
    assert any("the savepoint has no operator 5_group-aggregate" in one.reason for one in report.all_findings())


def test_a_time_to_live_is_switched_on_and_off_as_the_plans_say(plans):
    def kept(ttl):
        def change(plan):
            for node in plan["nodes"]:
                for state in node.get("state", ()):
                    state["ttl"] = ttl
            return plan

        return change

    forever, short = plans("X11", "old"), plans("X11", "old", kept("3 s"))
    switched_on = check(describe_query(forever), describe_query(short, forever))
    switched_off = check(describe_query(short), describe_query(forever, short))
    longer = check(describe_query(short), describe_query(plans("X11", "old", kept("9 s")), short))

    assert (Decision.START, "STATE-4") == (switched_on.decision, *(rules_of(switched_on)))
    assert StateAction.CONVERT in {one.action for operator in plan_of(switched_on).operators for one in operator.states}
    assert (Decision.MIGRATE, "STATE-5") == (switched_off.decision, *(rules_of(switched_off)))
    lived = {state.becomes.former_time_to_live for _, state in switched_off.states() if state.becomes}
    assert {dt.timedelta(seconds=3)} == lived  # by which what has expired is left out
    assert Decision.START == longer.decision
    for row, on in (("X1", Decision.START), ("RR1", Decision.REFUSE)):  # different values, and a sorted map
        forever, short = plans(row, "old"), plans(row, "old", kept("3 s"))
        assert on == check(describe_query(forever), describe_query(short, forever)).decision
        assert Decision.REFUSE == check(describe_query(short), describe_query(forever, short)).decision


@pytest.mark.parametrize("version", ["1.20", "2.2", "", "2", "3.x"])
def test_only_a_release_that_is_known_to_write_time_stamps_starts_without_them(plans, version):
    def compiled(ttl):
        def change(plan):
            for node in plan["nodes"]:
                for state in node.get("state", ()):
                    state["ttl"] = ttl
            return plan | {"flinkVersion": version}

        return change

    for row, decision in (("X11", Decision.MIGRATE), ("X1", Decision.REFUSE)):
        forever, short = plans(row, "old", compiled("0 ms")), plans(row, "old", compiled("3 s"))
        assert decision == check(describe_query(forever), describe_query(short, forever)).decision


def test_a_count_of_rows_is_never_null_and_gets_its_time_stamp_as_such(plans):
    report, old = report_of(plans, "TTL4"), plans("J3b", "old")

    assert Decision.MIGRATE == report.decision
    assert not [one for one in report.all_findings() if one.has(Flag.LOSSY) or one.has(Flag.MAY_FAIL_PER_VALUE)]
    assert not list(check(describe_query(old), describe_query(old, old)).all_findings())


def test_ways_out_are_those_of_a_query(plans):
    """A query declares no converter, no transform, no uid and no class."""
    of_code = ("converter", "transform", "declare", "descriptor", "register", "uid,")
    for upgrade in UPGRADES:
        for reports in ({}, {"given": "--repartition"}):
            for one in report_of(plans, upgrade.row, **reports).all_findings():
                told = [str(way) for way in one.ways_out]
                assert not [way for way in told if any(word in way for word in of_code)], (upgrade.row, one.rule)
                assert not any(way.mentions(Option.OLD_PLAN) for way in one.ways_out)
                assert told or one.verdict.decision is Decision.START


def test_an_aggregate_beside_which_none_goes_on_says_so(plans):
    """GA10: SUM becomes MIN, and nothing else is kept."""
    (why,) = {one.reason for one in report_of(plans, "GA10").all_findings() if one.rule == "SQL-8"}
    assert "beside it none goes on" in why


def test_operators_are_sorted_by_their_numbers(plans):
    uids = [one.uid for one in report_of(plans, "TTL5").operators]
    assert ["1_source", "5_source", "9_join", "11_sink"] == uids


def living(plan):
    """Give all state a time to live."""
    for node in plan["nodes"]:
        for state in node.get("state", ()):
            state["ttl"] = "1 d"
    return plan


def test_the_newest_row_of_a_unique_key_stays_if_that_is_asked_for_and_what_was_sent_is_stale(plans):
    old, new = plans("UK1", "old", living), plans("UK1", "new", living)

    def about(**options):
        report = check(describe_query(old), describe_query(new, old, **options))
        return report, next(one for one in report.all_findings() if one.rule == "SQL-20")

    (plain, offered), (stale, _), (asked, told) = (
        about(), about(keeps_newest=True), about(keeps_newest=True, allows_stale=True)
    )  # fmt: skip
    assert [Decision.MIGRATE, Decision.REFUSE, Decision.MIGRATE] == [one.decision for one in (plain, stale, asked)]
    assert any(way.mentions(Option.KEEP_NEWEST) for way in offered.ways_out)
    assert told.has(Flag.STALE)
    assert told.has(Flag.COLLISION_CHECK)
    assert not offered.has(Flag.STALE)


@pytest.mark.parametrize(("row", "change"), [("UK1", None), ("UK3", living)])
def test_where_the_newest_is_not_known_such_rows_end_the_migration_and_it_is_said_why(plans, row, change):
    """Without a time to live there are no time stamps; a right join counts the matches of its rows."""
    old, new = plans(row, "old", change), plans(row, "new", change)
    plain, asked = (check(describe_query(old), describe_query(new, old, keeps_newest=one)) for one in (False, True))
    found, told = (next(one for one in report.all_findings() if one.rule == "SQL-20") for report in (plain, asked))

    assert Decision.MIGRATE == plain.decision == asked.decision
    assert not any(way.mentions(Option.KEEP_NEWEST) for way in found.ways_out)
    assert not told.has(Flag.STALE)
    assert told.reason != found.reason


def retyped(name, of):
    """Give a column of a table another type, wherever it stands."""

    def change(plan):
        text = json.dumps(plan)
        for field in (f"`{name}` VARCHAR(2147483647)",):
            text = text.replace(field, f"`{name}` {of}")
        return json.loads(text)

    return change


NESTED = retyped("c", "ARRAY<ROW<`x` INT>>")


def test_columns_whose_serializers_hold_code_of_java_are_compared_too(plans):
    same = check(describe_query(plans("J3b", "old", NESTED)), describe_query(plans("J3b", "old", NESTED)))
    old, new = plans("J3b", "old", NESTED), plans("J3b", "new", NESTED)

    assert Decision.START == same.decision
    assert Decision.MIGRATE == check(describe_query(old), describe_query(new, old)).decision


def test_a_new_column_of_a_type_that_cannot_be_written_is_refused(plans):
    old, new = plans("J3b", "new", retyped("d", "INT")), plans("J3b", "old", NESTED)

    def without_c(query):
        drop = [
            attrs.evolve(operator, states=tuple(
                attrs.evolve(state, columns=tuple(one for one in state.columns if one.name != "c"),
                             user_key=tuple(one for one in state.user_key if one.name != "c"))
                for state in operator.states
            ))
            for operator in query.operators
        ]  # fmt: skip
        return attrs.evolve(query, operators=tuple(drop))

    report = check(describe_query(without_c(old)), describe_query(new, without_c(old)))

    assert Decision.REFUSE == report.decision
    assert any("does not write" in one.reason for one in report.all_findings())


def test_a_type_that_cannot_be_written_is_refused_too_where_only_its_nulls_differ(plans):
    old, new = plans("X13", "old", retyped("c", "ARRAY<ROW<`x` INT>> NOT NULL")), plans("X13", "old", NESTED)
    of = describe_query(new)
    refused, migrated = (check(describe_query(old), describe_query(new, old, template=one)) for one in (None, of))

    assert (Decision.REFUSE, Decision.MIGRATE) == (refused.decision, migrated.decision)
    assert "SQL-22" in rules_of(refused) & rules_of(migrated)


def test_an_operator_that_the_user_renames_takes_its_state_along(root):
    from stateshift.state.plans.operators import read_query

    place = root / "tests/fixtures/flink-sql-2.3/group-aggregate"
    stored, query = Savepoint.open(place / "savepoint").describe(), read_query(str(place / "plan.json"))
    moved = [
        attrs.evolve(
            one, node=one.node + 50, uids=tuple(f"{one.node + 50}_{uid.partition('_')[2]}" for uid in one.uids)
        )
        for one in query.operators
    ]
    new_id = NewIdentity(operator_id_of_uid("55_group-aggregate").hex(), "55_group-aggregate")
    renamed = Edits(rename_operators=(("5_group-aggregate", new_id),)).apply(stored)

    report = check(renamed, describe_query(attrs.evolve(query, operators=tuple(moved)), query))

    assert Decision.MIGRATE == report.decision
    (aggregate,) = (one for one in report.operators if one.key is not None)
    assert ("55_group-aggregate", "e44fcf02ab5f57873c2fb260e638a93c") == (aggregate.uid, aggregate.was.stored_id)


def test_a_query_that_insert_into_started_is_found_when_it_is_said_which_operator_is_which(root):
    folder = root / "tests/fixtures/flink-sql-2.3/join"
    stored = Savepoint.open(folder / "savepoint").describe()
    hashed = attrs.evolve(
        stored,
        operators=tuple(attrs.evolve(one, uid="", operator_id=one.operator_id[::-1]) for one in stored.operators),
    )
    new = describe_plans(str(folder / "plan-2.json"), str(folder / "plan.json"))
    join = next(one.operator_id for one in hashed.operators if any(state.kind.is_keyed for state in one.states))

    refused = check(hashed, new)
    (finding,) = (one for _, _, one in refused.findings() if one.rule == "SQL-14")
    assert Decision.REFUSE is refused.decision
    assert [(join, "7_join")] == [
        told.values for way in finding.ways_out for told in way.told if told.option is Option.RENAME_UID
    ]
    said = Edits(rename_operators=((join, NewIdentity(operator_id_of_uid("7_join").hex(), "7_join")),)).apply(hashed)
    assert ["$<key>.flag", "$<key>.city"] == [str(one.path) for _, _, one in check(said, new).findings()]
