"""State of records that contain themselves (COMP-3) in whole savepoints: read, migrated, verified, declared again."""

from __future__ import annotations

import sys
import types
from typing import Annotated

import attrs

from stateshift import (
    AvroSerializer,
    Field,
    Int32,
    Job,
    ListStateDescriptor,
    MapStateDescriptor,
    Operator,
    Savepoint,
    SavepointWriter,
    ValueStateDescriptor,
    check,
    record,
)
from stateshift.state.savepoint.job_source import job_source
from stateshift.state.savepoint.verify import verify


@attrs.frozen
class Place:
    name: str
    visits: Int32
    within: tuple[Region, Region] | None = None
    nearby: dict[str, Place | None] = attrs.field(factory=dict)


@attrs.frozen
class Region:
    title: str
    places: list[Place] = attrs.field(factory=list)


@record(aliases=(f"{__name__}.Place",))
@attrs.frozen
class NewPlace:
    label: Annotated[str, Field(aliases=("name",))]
    visits: int
    within: tuple[NewRegion, NewRegion] | None = None
    nearby: dict[str, NewPlace | None] = attrs.field(factory=dict)


@record(aliases=(f"{__name__}.Region",))
@attrs.frozen
class NewRegion:
    title: str
    places: list[NewPlace] = attrs.field(factory=list)
    code: int = 7


HOME = Place("home", 3, (Region("north", [Place("inn", 1)]), Region("south")), {"x": None, "y": Place("mill", 2)})


def job(place):
    lists = [ListStateDescriptor(name, place) for name in ("all", "pending")]
    states = [ValueStateDescriptor("at", place), lists[0], MapStateDescriptor("by", str, place)]
    return Job([Operator("map", key=str, states=states, list_states=lists[1:])])


def written(folder):
    with SavepointWriter(folder, job(Place)) as writer:
        writer.put("map", "at", "ada", HOME)
        writer.put("map", "all", "ada", [HOME, HOME])
        writer.put("map", "by", "ada", {"k": HOME})
        writer.add("map", "pending", HOME)
    return folder


def fields_of(tagged):
    return tagged["$pojo"]["fields"]


def test_states_of_all_kinds_are_migrated_at_every_level(tmp_path, migrate, contents):
    found = migrate(written(tmp_path / "old"), tmp_path / "new", job(NewPlace))

    assert "start" == check(found.describe(), job(NewPlace).describe()).decision
    outcomes = {proof.name: str(proof.status) for proof in verify(found).checks}
    assert ("ok", "ok") == (outcomes["values"], outcomes["elements"])
    (rooms,) = contents(found).values()
    keyed = {name: state["entries"][0][1] for name, state in rooms["keyed"].items()}
    for home in (keyed["at"], *keyed["all"], keyed["by"]["$map"][0][1], *rooms["operator"]["pending"]["subtasks"][0]):
        north = fields_of(fields_of(home)["within"]["$tuple"][0])
        mill = fields_of(fields_of(home)["nearby"]["$map"][1][1])
        assert ("north", 7, "inn") == (north["title"], north["code"], fields_of(north["places"][0])["label"])
        assert ("mill", 2) == (mill["label"], mill["visits"])


def test_they_become_avro_and_are_again_what_they_were(tmp_path, migrate, contents):
    source = written(tmp_path / "old")
    schema = """{"type": "record", "name": "Link", "fields": [{"name": "next", "type": ["null", "Link"]},
        {"name": "n", "type": "long"}]}"""

    @attrs.frozen
    class Link:
        n: int
        next: Link | None = None

    links, avro = (
        Job([Operator("op", key=str, states=[ValueStateDescriptor("s", one)])])
        for one in (record(aliases=("Link",))(Link), AvroSerializer(schema))
    )
    with SavepointWriter(tmp_path / "links", links) as writer:
        writer.put("op", "s", "ada", Link(1, Link(2)))

    (rooms,) = contents(migrate(tmp_path / "links", tmp_path / "avro", avro)).values()
    assert {"next": {"Link": {"next": None, "n": 2}}, "n": 1} == rooms["keyed"]["s"]["entries"][0][1]["$avro"]
    assert contents(tmp_path / "links") == contents(migrate(tmp_path / "avro", tmp_path / "back", links))
    assert "start" == check(Savepoint.open(source).describe(), job(Place).describe()).decision


def test_the_job_that_init_writes_takes_over_the_state(tmp_path):
    savepoint = Savepoint.open(written(tmp_path / "old"))
    source = job_source(savepoint)
    module = sys.modules["written_by_init"] = types.ModuleType("written_by_init")
    try:
        exec(compile(source, "written_by_init", "exec", dont_inherit=True), vars(module))  # noqa: S102 - written above

        assert '    nearby: "dict[str, Place | None]"\n' in source
        assert "start" == check(savepoint.describe(), module.job.describe()).decision
    finally:
        del sys.modules["written_by_init"]
