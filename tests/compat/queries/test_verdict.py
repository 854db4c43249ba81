"""The verdict on two descriptions, which needs neither Spark nor a checkpoint."""

from __future__ import annotations

import json

import attrs
import pytest

from stateshift.compat.description import Computation, JobDescription
from stateshift.compat.explain import text_lines
from stateshift.compat.gate.recorded_queries import same
from stateshift.compat.policy import Policy
from stateshift.compat.queries.description import describe_query_operator, from_data, to_data
from stateshift.compat.queries.inputs import Input
from stateshift.compat.queries.plan_text import Detail
from stateshift.compat.queries.verdict import judge
from stateshift.compat.report_data import to_data as report_data
from stateshift.serializers.compatibility import Flag
from stateshift.serializers.errors import DeclarationError
from stateshift.serializers.spark_rows.spark_types import StoreSchema, parse_struct


def struct(**fields):
    listed = [{"name": name, "type": of, "nullable": True} for name, of in fields.items()]
    return parse_struct(json.dumps({"type": "struct", "fields": listed}))


def operator(number=0, kind="aggregation", *, key=None, value=None, columns=None, facts=None, **more):
    stores = {"default": StoreSchema(struct(**(key or {"k": "string"})), struct(**(value or {"sum": "long"})))}
    of = {"default": {"key.k": "k", "value.sum": "sum(n)"} if columns is None else columns}
    return Computation(number, kind, stores, of, facts or {}, source="the query", **more)


def query(*operators, sources=("s",), settings=None, inputs=(), unreadable=""):
    described = tuple(describe_query_operator(one, unreadable) for one in operators)
    return JobDescription("the query", described, sources=sources, settings=settings or {}, inputs=inputs)


def stored(description):
    """What a checkpoint shows of a query."""
    bare = description.computing(lambda one: attrs.evolve(one, columns={}, facts={}, unseen=(), source=""))
    return attrs.evolve(bare, origin="checkpoint")


def judged(was, now, *, is_known=True, **more):
    report = judge(stored(was), now, known=was if is_known else None, **more)
    return str(report.decision), [(finding.rule, finding.path) for finding in report.all_findings()]


SUM = operator()


def test_an_equal_query_starts():
    assert judged(query(SUM), query(SUM)) == ("start", [])
    assert judged(query(SUM), query(SUM), is_known=False) == ("start", [("SPK-17", "$")])


def test_a_key_that_is_computed_alike_may_have_another_name():
    renamed = operator(key={"key": "string"}, columns={"key.key": "k", "value.sum": "sum(n)"})

    assert judged(query(SUM), query(renamed)) == ("start", [])
    assert judged(query(SUM), query(renamed), is_known=False) == (
        "refuse", [("SPK-4", "$.key.k"), ("SPK-11", "$.key.key"), ("SPK-17", "$")]
    )  # fmt: skip


@pytest.mark.parametrize("is_known", [True, False])
def test_an_average_more_takes_the_name_of_a_count_and_leaves_it_its_state(is_known):
    was = query(operator(value={"count": "long"}, columns={"key.k": "k", "value.count": "count(1)"}))
    now = query(
        operator(
            value={"sum": "double", "count": "long", "count#2": "long"},
            columns={
                "key.k": "k", "value.sum": "sum(p)", "value.count": "count(p)", "value.count#2": "count(1)",
            },
        )
    )  # fmt: skip

    decision, found = judged(was, now, is_known=is_known)

    assert decision == "migrate"
    assert "SPK-10" not in [rule for rule, _ in found]


@pytest.mark.parametrize("name", ["condition", "kind of join", "limit", "time mode", "timeout", "watermark"])
def test_another_rule_for_keeping_state_is_refused_unless_it_is_meant_spk_12(name):
    was, now = (query(operator(facts={name: text})) for text in ("10 minutes", "1 minute"))

    assert judged(was, now) == ("refuse", [("SPK-12", f"$<{name}>")])
    assert judged(was, now, is_known=False) == ("start", [("SPK-17", "$")])
    assert judged(was, now, accept=("SPK-12",)) == ("start", [("SPK-12", f"$<{name}>")])


def test_other_rows_are_refused_unless_that_is_meant_spk_13():
    was, now = query(SUM), query(operator(facts={"filters": "(3 < n)"}))

    assert judged(was, now) == ("refuse", [("SPK-13", "$<filters>")])
    assert judged(was, now, accept=("SPK-13",))[0] == "start"


def test_a_new_filter_on_keys_leaves_the_state_of_each_key_whole_spk_13():
    plain, some = query(SUM), query(operator(facts={"filter on keys: (k = 'a')": "(k = 'a')"}))

    assert judged(plain, some) == ("start", [])
    assert judged(some, some) == ("start", [])
    assert judged(some, plain) == ("refuse", [("SPK-13", "$<filter on keys: (k = 'a')>")])


def test_a_new_variable_begins_empty_and_one_that_is_gone_is_refused_spk_14_and_19():
    fewer = operator(kind="transformWithState", columns={})
    more = attrs.evolve(fewer, stores={**fewer.stores, "seen": StoreSchema(struct(k="string"), struct(v="int"))})
    with_index = attrs.evolve(
        fewer, stores={**fewer.stores, "$index": StoreSchema(struct(k="string"), struct(v="int"))}
    )

    assert judged(query(fewer), query(more)) == ("start", [("SPK-19", "$<seen>")])
    assert judged(query(more), query(fewer)) == ("refuse", [("SPK-14", "$<seen>")])
    assert judged(query(fewer), query(with_index)) == ("refuse", [("SPK-14", "$<$index>")])


def test_another_mode_is_refused_as_spark_refuses_it_spk_20():
    was = operator(kind="transformWithState", columns={}, modes={"output mode": "Update", "time mode": "NoTime"})
    becomes = attrs.evolve(was, modes={"output mode": "Append", "time mode": "NoTime"})

    assert judged(query(was), query(becomes)) == ("refuse", [("SPK-20", "$")])


def test_values_in_avro_are_read_by_spark_itself_by_the_names_of_their_fields_spk_2_3_and_5():
    was = operator(kind="transformWithState", value={"a": "integer", "b": "string"}, columns={})
    becomes = operator(kind="transformWithState", value={"b": "string", "a": "long", "c": "integer"}, columns={})
    of_key = operator(kind="transformWithState", key={"k": "long"}, value={"a": "integer", "b": "string"}, columns={})
    of_rows, of_avro = ({"spark.sql.streaming.stateStore.encodingFormat": one} for one in ("unsaferow", "avro"))

    assert judged(query(was, settings=of_rows), query(becomes))[0] == "migrate"
    assert judged(query(was, settings=of_avro), query(becomes))[0] == "start"
    assert judged(query(was, settings=of_avro), query(of_key))[0] != "start"


def test_operators_are_paired_by_what_they_are_spk_14():
    users, shops = (
        operator(number, "dropDuplicates", key={name: "string"}, columns={f"key.{name}": name})
        for number, name in ((0, "user"), (1, "shop"))
    )
    exchanged = query(attrs.evolve(shops, number=0), attrs.evolve(users, number=1))

    for is_known in (True, False):
        decision, found = judged(query(users, shops), exchanged, is_known=is_known)
        assert (decision, [rule for rule, _ in found if rule != "SPK-17"]) == ("migrate", ["SPK-14", "SPK-14"])
        added = judged(query(users), query(users, shops), is_known=is_known)
        gone = judged(query(users, shops), query(users), is_known=is_known)
        assert [added[0], gone[0]] == ["migrate", "refuse"]
        assert ("SPK-14", "$") in added[1]
        assert ("SPK-14", "$") in gone[1]


def test_two_operators_that_look_alike_are_told_apart_by_what_they_compute():
    one, other = (operator(number, "dropDuplicates", columns={"key.k": text}) for number, text in ((0, "a"), (1, "b")))
    exchanged = query(attrs.evolve(other, number=0), attrs.evolve(one, number=1))

    assert judged(query(one, other), exchanged) == ("migrate", [("SPK-14", "$"), ("SPK-14", "$")])
    assert judged(query(one, other), exchanged, is_known=False)[0] == "start"


def test_sources_are_paired_by_position_spk_15():
    was = query(SUM, sources=("a", "b"))

    assert judged(was, query(SUM, sources=("b", "a"))) == ("refuse", [("SPK-15", "$<sources>")])
    assert judged(was, query(SUM, sources=("b", "a")), accept=("SPK-15",))[0] == "start"
    assert judged(was, query(SUM, sources=("a",)), is_known=False) == (
        "refuse", [("SPK-15", "$<sources>"), ("SPK-17", "$")]
    )  # fmt: skip


@pytest.mark.parametrize(
    "one", [query(operator(kind="unknown operator")), query(operator(kind="newOperator")), query(SUM, unreadable="why")]
)
def test_what_is_not_known_is_refused_and_never_left_out_spk_16(one):
    assert judged(one, one, is_known=False) == ("refuse", [("SPK-16", "$")])


def test_a_field_of_users_own_state_with_another_name_is_a_possible_rename_spk_18():
    was, now = (
        operator(kind="applyInPandasWithState", value={"groupState": {"type": "struct", "fields": [
            {"name": name, "type": "string", "nullable": True}, {"name": "other", "type": "string", "nullable": True}
        ]}}) for name in ("first", "given")
    )  # fmt: skip
    report = judge(stored(query(was)), query(now), known=query(was))

    (finding,) = report.all_findings()

    assert (str(report.decision), finding.rule, tuple(map(str, finding.flags))) == (
        "start",
        "SPK-18",
        ("possible_rename:first->given",),
    )
    assert judged(query(was), query(now), policy=Policy(forbid=["possible_rename"]))[0] == "refuse"


def test_another_grouping_key_is_no_field_of_users_own_state_spk_11():
    was, now = (operator(kind="transformWithState", key={name: "string"}, columns={}) for name in ("a", "b"))

    decision, found = judged(query(was), query(now), is_known=False)

    assert decision == "refuse"
    assert ("SPK-11", "$.key.b") in found


TWO = {"first": "string", "last": "string"}


@pytest.mark.parametrize("kind", ["aggregation", "dropDuplicates", "applyInPandasWithState", "transformWithState"])
def test_names_and_places_that_disagree_have_two_readings_of_which_somebody_says_the_right_one_spk_2(kind):
    def of(names, texts):
        columns = {f"key.{name}": text for name, text in zip(names, texts, strict=True)}
        return query(operator(kind=kind, key=dict.fromkeys(names, "string"), columns=columns))

    was = of(["first", "last"], ["a", "b"])
    exchanged, moved = of(["last", "first"], ["a", "b"]), of(["last", "first"], ["b", "a"])
    one_on = of(["last", "other"], ["a", "b"])

    for now in (exchanged, moved, one_on):
        decision, found = judged(was, now, is_known=False)
        assert (decision, ("SPK-2", "$.key") in found) == ("refuse", True)
    assert [judged(was, now)[0] for now in (exchanged, moved, one_on)] == ["start", "migrate", "start"]


def test_additions_removals_and_other_types_pair_by_name_spk_2():
    was = operator(kind="dropDuplicates", key=TWO, columns={})

    for key in ({"last": "string", "first": "string", "more": "string"}, {"last": "string"}):
        assert judged(query(was), query(attrs.evolve(was, stores=operator(key=key).stores)), is_known=False)[0] == (
            "migrate"
        )


def test_the_migration_never_changes_state_of_scala_and_neither_does_the_verdict():
    for kind, expected in (("flatMapGroupsWithState", "refuse"), ("applyInPandasWithState", "migrate")):
        was, now = (query(operator(kind=kind, value={"n": of}, columns={})) for of in ("integer", "long"))
        assert judged(was, now)[0] == expected


def test_ways_out_are_commands_with_the_option_that_a_finding_needs():
    was = query(operator(columns={}))
    more = query(operator(value={"sum": "long", "count": "long"}, columns={}))
    two = query(operator(kind="applyInPandasWithState", value=TWO, columns={}))
    exchanged = query(operator(kind="applyInPandasWithState", value=dict(reversed(TWO.items())), columns={}))
    command = "stateshift migrate spark:a spark:b --query m:f"

    report = judge(stored(was), more, command=command)
    (of_names, *_) = judge(stored(two), exchanged, command=command).all_findings()

    assert report.next_command == f"{command} --fill 0:value.count=0"
    assert [f"{command} {options}" for options in (
        "--rename-field 0:value.first=value.last --rename-field 0:value.last=value.first",
        "--keep-field 0:value.last --keep-field 0:value.first",
    )] == [str(way).partition(": ")[2] for way in of_names.ways_out[:2]]  # fmt: skip


@pytest.mark.parametrize("is_known", [True, False])
def test_what_may_be_a_rename_is_for_its_author_to_say_unless_the_old_code_does(is_known):
    def join(**value):
        schema = StoreSchema(struct(k="string"), struct(**value))
        texts = {"key.k": "k", **{f"value.{name}": f"of {name}" for name in value}}
        store = "left-keyWithIndexToValue"
        return query(Computation(0, "stream-stream join", {store: schema}, {store: texts}, source="the query"))

    was, now = join(amount="double"), join(price="double", more="string")
    report = judge(stored(was), now, known=was if is_known else None, command="migrate")
    gone = next(one for one in report.all_findings() if one.rule == "SPK-4")
    renames = [way for way in map(str, gone.ways_out) if "--rename-field 0:left.value.amount=left.value.price" in way]

    assert is_known is not gone.has(Flag.POSSIBLE_RENAME)
    assert is_known is not bool(renames)
    assert bool(report.next_command) is is_known


@pytest.mark.parametrize(
    ("kind", "of", "expected"),
    [
        ("aggregation", "key", "0:key.c"),
        ("dropDuplicates", "key", "0:key.c"),
        ("aggregation", "value", "0:value.c"),
        ("session window", "value", "0:value.c"),
        ("session window", "key", ""),
        ("stream-stream join", "key", ""),
        ("transformWithState", "key", ""),
        ("transformWithState (Scala)", "value", ""),
    ],
)
def test_a_type_that_nobody_else_converts_may_be_converted_by_a_function_spk_6(kind, of, expected):
    was, now = (query(operator(kind=kind, **{of: {"c": type_}}, columns={})) for type_ in ("integer", "string"))

    (found,) = (one for one in judge(stored(was), now, command="migrate").all_findings() if one.rule == "SPK-6")

    assert "neither Spark nor stateshift converts this by itself, only a function of yours" == found.reason
    ways = [f"convert it with a function of yours: migrate --convert-field {expected}=module:function"]
    assert (ways if expected else []) == [one for one in map(str, found.ways_out) if "migrate" in one]


def test_no_value_for_all_stored_keys_is_proposed():
    was, now = (query(operator(key=key, columns={})) for key in ({"k": "string"}, {"k": "string", "c": "string"}))

    report = judge(stored(was), now)

    assert ("migrate", "") == (str(report.decision), report.next_command)
    assert any("only rows that have this value too" in one.reason for one in report.all_findings())


def test_paths_are_those_of_the_options_of_a_migration():
    def of(kind, store, value):
        schema = StoreSchema(struct(k="string"), struct(**value))
        return query(Computation(0, kind, {store: schema, "$rowCounter_log": schema}))

    found = []
    for kind, store in (
        ("transformWithState", "count"), ("transformWithState", "log"), ("stream-stream join", "left-keyWithIndex"),
    ):  # fmt: skip
        report = judge(of(kind, store, {"n": "integer"}), of(kind, store, {"n": "long"}))
        found += [finding.path for finding in report.all_findings() if finding.rule == "SPK-5"]

    assert {"$.count.n", "$.log[].n", "$.left.value.n"} <= {*found}


def test_the_buffers_of_aggregates_have_their_names_from_spark_and_pair_by_them_spk_2():
    was, now = (operator(value=value, columns={}) for value in (
        {"sum": "long", "max": "long"}, {"max": "long", "sum": "long"}
    ))  # fmt: skip

    assert judged(query(was), query(now), is_known=False) == ("migrate", [("SPK-2", "$.value"), ("SPK-17", "$")])


def test_a_struct_in_the_buffer_of_a_maximum_is_compared_in_its_order_spk_2():
    def of(*names):
        fields = [{"name": name, "type": kind, "nullable": True} for name, kind in names]
        return query(operator(value={"max": {"type": "struct", "fields": fields}}, columns={"value.max": "max(s)"}))

    was, now = of(("a", "integer"), ("b", "string")), of(("b", "string"), ("a", "integer"))

    assert judged(was, now) == ("refuse", [("SPK-2", "$.value.max")])
    assert judged(was, now, is_known=False)[0] == "refuse"


STRUCT = {"type": "struct", "fields": [
    {"name": "x", "type": "integer", "nullable": True}, {"name": "y", "type": "integer", "nullable": True}
]}  # fmt: skip
TURNED = {**STRUCT, "fields": STRUCT["fields"][::-1]}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("struct('y', b, 'x', a)", "migrate"),  # its fields changed places
        ("struct('y', a, 'x', b)", "start"),  # they exchanged their names
        ("struct('y', c, 'x', a)", "refuse"),
    ],
)
def test_fields_of_a_struct_that_the_query_makes_are_paired_by_what_they_are_computed_from(text, expected):
    was = query(operator(key={"k": STRUCT}, columns={"key.k": "struct('x', a, 'y', b)"}))
    now = query(operator(key={"k": TURNED}, columns={"key.k": text}))

    assert judged(was, now)[0] == expected
    assert judged(was, now, is_known=False)[0] == "refuse"


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("stddevsamp(n, nullOnDivideByZero=true)", "variancepop(n, nullOnDivideByZero=true)", "start"),
        ("covsample(n, m)", "covpopulation(n, m)", "start"),
        ("percentile(n, 0.5, 1)", "percentile(n, 0.9, 1)", "start"),
        ("percentile(n, 0.5, 1) where (n < 3)", "percentile(n, 0.9, 1)", "migrate"),
        ("percentile(n, 0.5, 1)", "percentile(m, 0.5, 1)", "migrate"),
        ("approximatepercentile(n, 0.5, 100)", "approximatepercentile(n, 0.5, 200)", "migrate"),
        ("stddevsamp(n)", "corr(n)", "migrate"),
        ("max(getstructfield(s, name=a))", "max(getstructfield(s, ordinal=1, name=a))", "start"),
        ("max(getstructfield(s, name=a))", "max(getstructfield(s, name=b))", "migrate"),
    ],
)
def test_what_keeps_the_same_buffers_is_the_same_spk_10(old, new, expected):
    was, now = (query(operator(columns={"key.k": "k", "value.sum": text})) for text in (old, new))

    assert judged(was, now)[0] == expected


def test_a_key_that_is_a_deviation_is_another_one_with_the_variance_spk_10():
    was, now = (query(operator(columns={"key.k": text})) for text in ("stddevsamp(n)", "variancepop(n)"))

    assert judged(was, now)[0] == "refuse"


def test_a_key_whose_name_changed_its_case_is_the_same():
    for columns, with_other_case in (({"key.k": "k"}, {"key.K": "k"}), ({}, {})):
        was = query(operator(columns=columns))
        now = query(operator(key={"K": "string"}, columns=with_other_case))
        assert judged(was, now) == ("start", [])
        assert judged(was, now, is_known=False)[0] == "start"
    other = query(operator(key={"K": "string"}, columns={"key.K": "l"}))
    assert judged(query(operator(columns={"key.k": "k"})), other)[0] == "refuse"


def test_a_wider_decimal_is_the_same_in_other_bytes_spk_5():
    was, now = (
        query(operator(value={"sum": kind}, columns={"value.sum": f"sum(cast(d as {of}))"}))
        for kind, of in (("decimal(20,2)", "decimal(10,2)"), ("decimal(22,2)", "decimal(12,2)"))
    )

    assert judged(was, now) == ("migrate", [("SPK-5", "$.value.sum")])
    assert judged(was, now, is_known=False)[0] == "migrate"


def test_a_sum_of_whole_numbers_may_be_one_of_decimals_without_their_point_spk_6():
    """Spark sums decimals of up to 8 digits as whole numbers."""
    was = query(operator(columns={}))

    for kind, expected in (("decimal(22,2)", "refuse"), ("decimal(22,0)", "migrate")):
        assert judged(was, query(operator(value={"sum": kind}, columns={})), is_known=False)[0] == expected


@pytest.mark.parametrize(
    ("kind", "old", "new", "expected"),
    [
        ("Sum", "decimal(7,2)", "decimal(8,3)", "refuse"),
        ("Average", "decimal(8,2)", "decimal(8,3)", "refuse"),
        ("Sum", "decimal(7,2)", "decimal(8,2)", "start"),
        ("CollectList", "struct<a:int,b:int>", "struct<b:int,a:int>", "refuse"),
        ("CollectSet", "int", "bigint", "refuse"),
        ("Percentile", "int, double", "bigint, double", "refuse"),
        ("ApproximatePercentile", "int", "bigint", "flagged"),
        ("CollectList", "int", "int", "start"),
    ],
)
def test_buffers_that_do_not_show_what_is_in_them_are_compared_by_its_type_spk_22(kind, old, new, expected):
    was, now = (query(operator(details={"value.sum": (Detail("type", f"{kind} sum(n)", of),)})) for of in (old, new))
    (decision, found), (unknown, _) = judged(was, now), judged(was, now, is_known=False)

    assert {"refuse": "refuse"}.get(expected, "start") == decision
    assert ([] if expected == "start" else [("SPK-22", "$<sum(n)>")]) == found
    assert unknown == "start"
    if expected == "flagged":
        assert judged(was, now, policy=Policy(forbid=[Flag.UNVERIFIED]))[0] == "refuse"


def of_one_name(name, kind):
    """A struct of two fields that have the same name."""
    field = {"name": name, "type": kind, "nullable": True}
    return parse_struct(json.dumps({"type": "struct", "fields": [field, field]}))


def test_types_in_buffers_are_compared_by_aggregate_and_not_by_place_spk_22():
    def of(*scales):
        texts = {f"value.{name}": f"sum(n{scale})" for name, scale in zip(("sum", "sum#2"), scales, strict=True)}
        details = {path: (Detail("type", f"Sum {text}", f"decimal(7,{text[-2]})"),) for path, text in texts.items()}
        stores = {"default": StoreSchema(struct(k="string"), of_one_name("sum", "long"))}
        return query(attrs.evolve(operator(columns={"key.k": "k", **texts}, details=details), stores=stores))

    assert "SPK-22" not in {rule for rule, _ in judged(of(2, 3), of(3, 2))[1]}


def test_what_a_recording_of_an_earlier_release_lacks_of_types_and_keys_is_told_and_refuses_nothing():
    stores = {"default": StoreSchema(of_one_name("_groupingexpression", "string"), struct(sum="long"))}
    columns = {"key._groupingexpression": "upper(k)", "key._groupingexpression#2": "trim(k)", "value.sum": "sum(n)"}
    recorded = {path: text for path, text in columns.items() if "#" not in path}
    one = attrs.evolve(
        operator(columns=columns, details={"value.sum": (Detail("type", "Sum sum(n)", "decimal(7,2)"),)}),
        stores=stores,
    )
    now, was = query(one), query(attrs.evolve(one, details={}, columns={"default": recorded}))

    report = judge(stored(now), now, known=was, policy=Policy(forbid=Flag))

    assert (0, []) == (report.exit_status(), list(report.all_findings()))
    assert [line.partition(" (")[0] for line in report.not_compared] == [
        "the type of what sum(n) keeps", "what key._groupingexpression#2 is computed from",
    ]  # fmt: skip
    assert same(now, was)
    assert same(was, now)
    assert from_data(json.loads(json.dumps(to_data(now))), "the query") == now
    other = {**columns, "key._groupingexpression#2": "lower(k)"}
    changed = query(attrs.evolve(one, columns={"default": other}))
    assert [("SPK-10", "$.key._groupingexpression#2")] == judged(now, changed)[1]
    assert not same(now, changed)


def test_a_change_that_spark_refuses_cannot_be_accepted():
    with pytest.raises(DeclarationError, match="findings of SPK-4 cannot be accepted"):
        judged(query(SUM), query(SUM), accept=("SPK-4",))


def test_old_code_that_did_not_write_the_checkpoint_is_refused():
    with pytest.raises(DeclarationError, match="not written by"):
        judge(stored(query(SUM)), query(SUM), known=query(operator(value={"max": "long"})))


def test_a_report_is_plain_data():
    report = judge(stored(query(SUM)), query(operator(unseen=("the code of f",))), known=query(SUM))

    data = json.loads(json.dumps(report_data(report)))

    assert data["not_compared"] == ["the code of f is not compared"]
    assert (data["decision"], data["known_from"], data["reads"]) == ("start", "the query", None)
    (one,) = data["operators"]
    assert (one["uid"], one["decision"], one["whole"], one["key"]) == ("aggregation 0", "start", None, None)
    assert [(state["name"], state["findings"]) for state in one["states"]] == [("default", [])]
    of = {"default": {"key.k": "k", "value.sum": "sum(n)"}}
    computes = {"number": 0, "kind": "aggregation", "fields": of, "rows": {}, "source": "the query"}
    assert one["computes"] == [computes, computes]


def reading(kind="json", *, name="s", is_stream=True, used=("k", "n"), unread="", rows="", schema=None, **options):
    others = {"made_up": options.pop("made_up", "")}
    types = struct(**(schema or {"k": "string", "n": "integer"}))
    return Input(name, kind, is_stream, types, used, options, others, rows, unread)


def zoned(zone):
    return attrs.evolve(reading(), options={}, other_options={"time zone of the session": zone})


FRONT = {"unused": "string", "k": "string", "n": "integer"}
BEHIND = {"k": "string", "n": "integer", "unused": "string"}


@pytest.mark.parametrize(
    ("was", "now", "expected"),
    [
        (reading(), reading(schema=FRONT), ("start", [])),
        (reading("csv"), reading("csv", schema=BEHIND), ("start", [])),
        (reading("csv"), reading("csv", schema=FRONT), ("refuse", ["SPK-15", "SPK-15"])),
        (reading("csv", used=("k",)), reading("csv", used=("k",), schema=BEHIND | {"n": "date"}), ("start", [])),
        (reading("csv", mode="failfast"), reading("csv", mode="failfast", schema=BEHIND), ("refuse", ["SPK-15"])),
        (reading(schema=BEHIND | {"n": "string"}), reading(), ("refuse", ["SPK-15"])),
        (reading(), reading(schema={"k": "string", "n": "long"}), ("start", ["SPK-15"])),
        (reading(), reading(timezone="UTC"), ("refuse", ["SPK-15"])),
        (reading(timezone="Z"), reading(timezone="Etc/UTC"), ("start", [])),
        (reading(timezone="UTC"), reading(timezone="Asia/Tokyo"), ("refuse", ["SPK-15"])),
        (zoned("UTC"), zoned("Etc/UTC"), ("start", [])),
        (zoned("UTC"), zoned("Asia/Tokyo"), ("start", ["SPK-15"])),
        (reading(), reading(made_up="1"), ("start", ["SPK-15"])),
        (reading(), reading("orc"), ("refuse", ["SPK-15"])),
        (reading(is_stream=False), reading(is_stream=False, name="t"), ("refuse", ["SPK-13"])),
        (reading(is_stream=False, rows="a"), reading(is_stream=False, rows="b"), ("refuse", ["SPK-13"])),
        (reading(is_stream=False, rows="py3.1:a"), reading(is_stream=False, rows="py3.2:b"), ("start", ["SPK-13"])),
    ],
)
def test_what_a_query_reads_is_compared_by_what_reaches_the_state_spk_13_spk_15(was, now, expected):
    report = judge(stored(query(SUM)), query(SUM, inputs=(now,)), known=query(SUM, inputs=(was,)))

    found = list(report.all_findings())
    assert expected == (str(report.decision), [one.rule for one in found])
    assert all(one.flags == (Flag.UNVERIFIED.of(),) for one in found if report.decision == "start")
    assert bool(report.condition) is (report.decision == "start" and bool(found))
    assert judged(query(SUM, inputs=(was,)), query(SUM, inputs=(now,)), accept=("SPK-13", "SPK-15"))[0] == "start"


def test_code_of_a_function_that_changed_is_flagged_and_accepted_by_its_name_spk_21():
    one, other = (operator(details={"value.sum": (Detail("function", "f", of),)}) for of in "ab")
    forbidden = Policy(forbid=[Flag.UNVERIFIED])

    assert judged(query(one), query(one), policy=forbidden) == ("start", [])
    assert judged(query(one), query(other)) == ("start", [("SPK-21", "$<code of f>")])
    assert judged(query(one), query(other), policy=forbidden)[0] == "refuse"
    assert judged(query(one), query(other), policy=forbidden, accept=("SPK-21:f",))[0] == "start"
    assert judged(query(one), query(other), policy=forbidden, accept=("SPK-21:g",))[0] == "refuse"
    with pytest.raises(DeclarationError, match="SPK-21:FUNCTION"):
        judged(query(one), query(other), accept=("SPK-21",))


def test_code_that_a_column_of_another_name_uses_is_compared_too_spk_21():
    def keyed(name, value):
        columns = {f"key.{name}": "f(k)", "value.sum": "sum(n)"}
        return operator(
            key={name: "string"}, columns=columns, details={f"key.{name}": (Detail("function", "f", value),)}
        )

    assert judged(query(keyed("k", "a")), query(keyed("u", "a"))) == ("start", [])
    assert judged(query(keyed("k", "a")), query(keyed("u", "b"))) == ("start", [("SPK-21", "$<code of f>")])


def test_damaged_details_of_a_recording_are_refused():
    data = to_data(query(operator(details={"rows": (Detail("seed", "", "7"),)})))
    for damaged in ([["seed", "", "x", ""]], [["colour", "", "7", ""]], [["seed"]], 7, [7]):
        data["operators"][0]["details"] = {"rows": damaged}
        with pytest.raises((ValueError, TypeError)):
            from_data(data, "the recording")


def test_another_seed_lets_other_rows_pass_unless_spark_drew_it_spk_13():
    one, other, drawn, another = (
        operator(details={"rows": (Detail("seed", "", of),)}) for of in ("7", "8", "9" * 18, "8" * 18)
    )

    assert judged(query(one), query(other)) == ("refuse", [("SPK-13", "$<seed of the sample>")])
    assert judged(query(drawn), query(another)) == ("start", [])


def test_what_a_recording_of_an_earlier_release_lacks_is_told_and_refuses_nothing():
    twice = query(
        operator(details={"rows": (Detail("function", "f", "a"),)}), sources=("s", "s"), inputs=(reading(),) * 2
    )
    data = to_data(twice)
    earlier = {
        **data,
        "sources": ["s"],
        "operators": [{**one, "unseen": ["the code of f"]} for one in data["operators"]],
    }
    for part in (earlier, *earlier["operators"]):
        part.pop("inputs", None)
        part.pop("details", None)
    was = from_data(earlier, "the recording")
    checkpoint = attrs.evolve(stored(twice), inputs=None)

    report = judge(checkpoint, twice, known=was, policy=Policy(forbid=Flag))

    assert (report.exit_status(), list(report.all_findings())) == (0, [])
    assert any("the recording is of an earlier release" in line for line in report.not_compared)
    assert same(twice, was)
    assert not same(twice, from_data({**earlier, "sources": ["t"]}, "the recording"))
    assert judge(was, twice, known=was).decision == "start"
    assert from_data(json.loads(json.dumps(data)), "the query") == twice


def test_the_contents_of_a_table_are_named_and_no_flag():
    table = reading("parquet", name="/data/users", is_stream=False, unread="the contents")

    report = judge(stored(query(SUM)), query(SUM, inputs=(table,)), known=query(SUM, inputs=(table,)))

    assert report.not_compared == ("the contents of table 1 (parquet /data/users) is not compared",)
    assert (list(report.all_findings()), report.condition) == ([], "")


def test_the_old_code_is_not_advised_where_it_was_given():
    was = operator(7, "applyInPandasWithState", value={"a": "long", "b": "long"}, columns={})
    of_rows = operator(7, "stream-stream join", value={"a": "long", "b": "long"}, columns={})
    for one in (was, of_rows):
        stores = {"default": StoreSchema(struct(k="string"), struct(a="long", c="long"))}
        now = attrs.evolve(one, stores=stores, columns={"default": {"key.k": "k"}})
        advised = {
            is_known: [
                way
                for finding in judge(
                    stored(query(one)), query(now), known=query(one) if is_known else None
                ).all_findings()
                for way in map(str, finding.ways_out)
                if "--was" in way
            ]
            for is_known in (True, False)
        }

        assert [] == advised[True]
        assert bool(advised[False]) is (one is of_rows)


def test_another_event_time_of_a_join_is_refused_spk_12():
    """Join state of format 4 has rows by it, and Spark compares types alone."""

    def join(time):
        value = struct(id="long", a="timestamp", b="timestamp")
        fields = tuple(attrs.evolve(one, is_event_time=one.name == time) for one in value.fields)
        stores = {"left-keyWithTsToValues": StoreSchema(struct(field0="long"), attrs.evolve(value, fields=fields))}
        return query(Computation(0, "stream-stream join", stores))

    assert judged(join("a"), join("a"), is_known=False) == ("start", [("SPK-17", "$")])
    assert judged(join("a"), join("b"), is_known=False) == ("refuse", [("SPK-12", "$.left.value.b"), ("SPK-17", "$")])


def test_a_rule_is_offered_for_values_that_one_merges():
    fields = [{"name": "x", "type": "long", "nullable": True}]
    key = {"k": "string", "l": "string"}
    columns = {"key.k": "k", "key.l": "l"}
    value = {"first": {"type": "struct", "fields": fields}, "sum": "long"}
    was, now = (
        query(operator(key=of, value=value, columns={name: columns[name] for name in map("key.{}".format, of)}))
        for of in (key, {"k": "string"})
    )

    (gone,) = judge(stored(was), now, known=was).all_findings()

    assert (gone.path, [str(flag) for flag in gone.flags]) == ("$.key.l", ["drops:$.key.l", "collision_check"])
    assert "no rule merges value.first: if any do, the migration writes nothing" in gone.reason
    told = " ".join(map(str, gone.ways_out))
    assert "--merge-field 0:value.sum=RULE" in told
    assert "value.first=" not in told


def test_the_way_back_of_a_query_is_its_check_in_reverse():
    def back(now, *, is_known=True):
        report = judge(stored(query(SUM)), query(now), known=query(SUM) if is_known else None)
        data = report_data(report)
        (of,) = data["operators"]
        states = [state["way_back"] and state["way_back"]["decision"] for state in of["states"]]
        told = [line for line in text_lines(report) if line.startswith("way back")]
        return str(report.decision), data["way_back"], states, bool(told)

    wider = operator(value={"sum": "decimal(20,0)"})
    columns = {"key.k": "k", "value.sum": "sum(n)", "value.count": "count(1)"}
    more = operator(value={"sum": "long", "count": "long"}, columns=columns)

    assert back(SUM) == back(SUM, is_known=False) == ("start", "start", ["start"], False)
    assert back(wider) == back(wider, is_known=False) == ("migrate", "refuse", ["refuse"], True)
    assert back(more) == ("migrate", "migrate", ["migrate"], True)
    assert back(operator(facts={"filters": "n > 0"})) == ("refuse", None, [None], False)


def test_what_is_asked_for_beside_a_refusal_is_what_the_way_out_of_it_asks_for():
    def of(**variables):
        stores = {name: StoreSchema(struct(k="string"), struct(**{field: "long"})) for name, field in variables.items()}
        return query(Computation(0, "transformWithState", stores))

    renamed = judge(of(log="y"), of(log="x"))
    dropped = judge(of(log="y", count="n"), of(log="x"))

    assert [(one.rule, one.path) for one in renamed.all_findings()] == [("SPK-18", "$.log.x"), ("SPK-17", "$")]
    assert {one.path: one.verdict.label for one in dropped.all_findings()} == {
        "$<count>": "incompatible", "$.log.x": "incompatible", "$.log.y": "requires_migration", "$": "compatible",
    }  # fmt: skip
