"""Compiled plans are read with the place of what can be edited, and what is none is named with its line."""

import json

import pytest

from stateshift import CorruptFile
from stateshift.state.plans.compiled_plan import read_plan


@pytest.fixture
def data(root):
    return (root / "tests/fixtures/flink-sql-2.3/join/plan.json").read_bytes()


def test_nodes_states_and_inputs_are_those_of_the_plan(data):
    plan = read_plan(data, "plan.json")
    join = plan.nodes[7]

    assert ("2.3", 9) == (plan.flink_version, len(plan.nodes))
    assert ("7_join", 1, ["leftState", "rightState"]) == (join.title, join.version, [one.name for one in join.states])
    assert ["4_exchange", "6_exchange"] == [node.title for node in plan.inputs(join)]
    assert '"type" : "stream-exec-join_1"' in data.decode().splitlines()[join.line - 1]
    assert {'"0 ms"'} == {plan.text[one.start : one.end] for one in join.states}


@pytest.mark.parametrize("name", ["group-aggregate", "deduplicate", "changelog-normalize"])
def test_plans_of_flink_are_read(root, name):
    data = (root / f"tests/fixtures/flink-sql-2.3/{name}/plan.json").read_bytes()

    assert any(node.states for node in read_plan(data, name).nodes.values())


def changed(data, change):
    found = json.loads(data)
    change(found)
    return json.dumps(found, indent=1).encode()


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda plan: plan.pop("flinkVersion"), "the plan: 'flinkVersion' is missing"),
        (lambda plan: plan.update(nodes={}), "the plan: 'nodes' is missing, or has another form"),
        (lambda plan: plan["nodes"][6].update(type="join"), "the node of the type join: the type has another form"),
        (lambda plan: plan["nodes"][6].pop("id"), "line .*, the node of the type stream-exec-join_1: 'id'"),
        (lambda plan: plan["nodes"][6]["state"][0].pop("ttl"), "'ttl' is missing"),
        (lambda plan: plan["nodes"][6]["state"][1].update(index=7), "are not numbered from 0 on"),
        (lambda plan: plan["nodes"][6].update(id=1), "the number 1 is that of two operators"),
        (lambda plan: plan["edges"][0].update(target=99), "there is no operator 99"),
    ],
)
def test_what_is_wrong_in_a_plan_is_named(data, change, why):
    with pytest.raises(CorruptFile, match=why):
        read_plan(changed(data, change), "plan.json")


@pytest.mark.parametrize(
    ("cut", "why"),
    [
        (lambda data: data[:4000], "line 1.., column"),
        (lambda _: b"", "line 1, column 1"),
        (lambda data: data.replace(b'"id" : 7,', b'"id" : 7'), "line 28., column"),
        (lambda _: b"\xff", "UnicodeDecodeError"),
        (lambda _: b"[" * 100_000, "RecursionError"),
        (lambda _: b"[]", "the plan: 'flinkVersion'"),
    ],
)
def test_what_is_no_plan_is_refused(data, cut, why):
    with pytest.raises(CorruptFile, match=why):
        read_plan(cut(data), "plan.json")


def test_a_plan_of_five_thousand_operators_is_read(data):
    def grown(plan):
        (node,) = (one for one in plan["nodes"] if one["id"] == 7)
        plan["nodes"] += [{**node, "id": number} for number in range(100, 5_100)]
        plan["edges"] += [{"source": number, "target": number + 1} for number in range(100, 5_099)]

    assert 5_009 == len(read_plan(changed(data, grown), "plan.json").nodes)
