"""What a compiled plan says of keys and states is what Flink has stored, for every sample of real Flink."""

import json
from pathlib import Path

import attrs
import pytest

from stateshift import CorruptFile, DeclarationError, Savepoint, check
from stateshift.compat.description import SerializerDescription
from stateshift.compat.sql.description import describe_query, is_stored_as
from stateshift.compat.sql.query import ValueForm
from stateshift.serializers.compatibility import Flag
from stateshift.serializers.containers.ttl import TtlSerializer
from stateshift.serializers.snapshot import snapshot_to_bytes
from stateshift.serializers.sql.logical_types import OPAQUE
from stateshift.state.plans.compiled_plan import read_plan
from stateshift.state.plans.lineage import Lineage
from stateshift.state.plans.operators import describe_plan, read_query

FOLDER = Path(__file__).parents[2] / "fixtures" / "flink-sql-2.3"
SAMPLES = sorted(place.name for place in FOLDER.iterdir() if place.is_dir())


def sample(name):
    place = FOLDER / name
    return read_query(str(place / "plan.json")), Savepoint.open(place / "savepoint").describe()


def same(one, other):
    return snapshot_to_bytes(one.snapshot) == snapshot_to_bytes(other.snapshot)


@pytest.mark.parametrize("name", SAMPLES)
def test_keys_and_rows_are_described_as_flink_has_stored_them(name):
    query, stored = sample(name)
    there = {one.operator_id: one for one in stored.operators}
    described = {one.computation.number: one for one in describe_query(query).operators}
    compared = 0
    for operator in query.operators:
        told, states = described[operator.node], {one.name: one for one in operator.states}
        was = there.get(told.operator_id)
        if was is None or not states:
            continue
        assert same(was.key, told.key)
        assert {one.name for one in was.states} >= states.keys()
        for state in told.states:
            found = next(one for one in was.states if one.name == state.name)
            assert found.kind is state.kind
            assert same(found.namespace, state.namespace)
            if any(column.type.root == OPAQUE for column in states[state.name].columns):
                assert is_stored_as(found.value.snapshot, states[state.name].columns)
            else:
                assert same(found.value, state.value)
            compared += 1
    assert compared


@pytest.mark.parametrize("name", SAMPLES)
def test_a_query_goes_on_with_its_own_state(name):
    query, stored = sample(name)

    report = check(stored, describe_query(query, query))

    assert "start" == report.decision
    assert [] == [one for one in report.all_findings() if one.flags]


@pytest.mark.parametrize("name", ["changelog-normalize", "deduplicate", "group-aggregate", "join"])
def test_without_the_old_plan_equal_types_are_all_that_is_known(name):
    query, stored = sample(name)

    report = check(stored, describe_query(query))

    assert "start" == report.decision
    assert "SQL-1" in {one.rule for one in report.all_findings() if one.has(Flag.UNVERIFIED)}


def test_a_time_to_live_that_only_the_job_says_is_as_it_is_stored():
    """OVER by processing time follows the setting of the running job."""
    query, stored = sample("over-processing-time-unbounded")

    def kept_for_a_while(state):
        if state.name != "accState":
            return state
        return attrs.evolve(
            state, value=SerializerDescription.of(TtlSerializer(state.value.snapshot.restore_serializer()))
        )

    operators = tuple(
        attrs.evolve(one, states=tuple(kept_for_a_while(state) for state in one.states)) for one in stored.operators
    )
    assert "start" == check(attrs.evolve(stored, operators=operators), describe_query(query, query)).decision


def test_the_plan_of_another_query_is_refused():
    query, _ = sample("deduplicate")
    _, stored = sample("changelog-normalize")

    assert "refuse" == check(stored, describe_query(query, query)).decision


def test_views_are_named_as_flink_names_them():
    query, stored = sample("aggregate-retract")
    (aggregate,) = (one for one in query.operators if one.kind == "group-aggregate" and len(one.states) > 1)
    views = {one.name for one in aggregate.states if one.form is ValueForm.VIEW}

    names = {one.name for operator in stored.operators for one in operator.states if one.kind != "timers"}
    assert views == {name for name in names if "$" in name or name.startswith("distinct")}


def test_a_query_of_five_thousand_nodes_is_described():
    """Each node of a chain doubles an expression: no text grows with it."""
    found = json.loads((FOLDER / "deduplicate" / "plan.json").read_text("utf-8"))
    scan = next(node for node in found["nodes"] if "scan" in node["type"])
    reference = {"kind": "INPUT_REF", "inputIndex": 0, "type": "INT"}
    double = {"kind": "CALL", "internalName": "$+$1", "operands": [reference, reference], "type": "INT"}
    calc = {"type": "stream-exec-calc_1", "projection": [double], "condition": double, "outputType": "ROW<`a` INT>"}
    nodes = [scan | {"id": 1}, *(calc | {"id": at} for at in range(2, 5001))]
    edges = [{"source": at, "target": at + 1} for at in range(1, 5000)]
    plan = json.dumps({"flinkVersion": "2.3", "nodes": nodes, "edges": edges}).encode()

    lineage = Lineage(read_plan(plan, "plan.json"))

    assert 1000 > max(
        len(column.computed) for node in lineage.plan.nodes.values() for column in lineage.rows(node).columns
    )


def test_operators_in_a_circle_are_named():
    found = json.loads((FOLDER / "deduplicate" / "plan.json").read_text("utf-8"))
    found["edges"].append({"source": 7, "target": 2})

    with pytest.raises(CorruptFile, match="the operators before it form a circle"):
        describe_plan(read_plan(json.dumps(found).encode(), "plan.json"))


@pytest.mark.parametrize("cut", ["projection", "outputType", "uniqueKeys"])
def test_what_a_node_lacks_is_named_with_its_line(cut):
    found = json.loads((FOLDER / "deduplicate" / "plan.json").read_text("utf-8"))
    node = next(node for node in found["nodes"] if cut in node)
    del node[cut]

    with pytest.raises(CorruptFile, match=f"line [0-9]+, {node['id']}_.*{cut}"):
        describe_plan(read_plan(json.dumps(found, indent=1).encode(), "plan.json"))


class TestNamedBy:
    def test_columns_of_keys_and_rows_have_the_names_of_the_plan(self):
        place = FOLDER / "join-left-no-key-ttl"
        savepoint = Savepoint.open(place / "savepoint").named_by(str(place / "plan.json"))
        join = savepoint.operator("184_join")
        row, _ = join.state("left-records").description.value.snapshot.children()

        assert (("k",), ("k", "a")) == (join.key.names, row.names)

    def test_a_plan_of_another_savepoint_is_refused(self):
        with pytest.raises(DeclarationError, match="none of the operators of the plan"):
            Savepoint.open(FOLDER / "join-left-no-key-ttl" / "savepoint").named_by(
                str(FOLDER / "aggregate-retract" / "plan.json")
            )
