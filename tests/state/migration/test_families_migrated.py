"""State that moves from one family to another that describes the same types (FAM-4), through whole savepoints."""

from __future__ import annotations

import attrs

from stateshift import (
    AvroSerializer,
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


@attrs.frozen
class Line:
    article: str
    count: Int32
    note: str | None = None


@record(java_class="com.acme.Line")
@attrs.frozen
class JavaLine:
    article: str
    count: Int32
    note: str | None = None


PEN, CAP = Line("pen", 2), Line("cap", -1, "red")
AVRO = AvroSerializer.of(Line)
FROM_JAVA = AvroSerializer(
    {
        "type": "record",
        "name": "com.acme.Line",
        "fields": [
            {"name": "note", "type": ["null", "string"]},
            {"name": "count", "type": "long"},
            {"name": "article", "type": "string"},
        ],
    }
)


def job(line):
    """A job whose states of all kinds hold lines."""
    states = [
        ValueStateDescriptor("last", line), ListStateDescriptor("all", line), MapStateDescriptor("by", str, line),
    ]  # fmt: skip
    pending = ListStateDescriptor("pending", line)
    return Job([Operator("orders", key=str, states=states, list_states=[pending])])


def written(folder, declared, *lines):
    with SavepointWriter(folder, declared) as writer:
        writer.put("orders", "last", "ada", lines[0])
        writer.put("orders", "all", "ada", list(lines))
        writer.put("orders", "by", "ada", {"x": lines[0], "y": lines[1]})
        for line in lines:
            writer.add("orders", "pending", line)
    return folder


def test_records_become_avro_and_records_again_in_states_of_all_kinds(tmp_path, migrate, contents):
    source = written(tmp_path / "records", job(Line), PEN, CAP)

    avro = migrate(source, tmp_path / "avro", job(AVRO))
    back = migrate(tmp_path / "avro", tmp_path / "back", job(Line))

    assert contents(source) == contents(back)
    assert contents(Savepoint.open(written(tmp_path / "same", job(AVRO), PEN, CAP))) == contents(avro)
    assert "start" == check(avro.describe(), job(AVRO).describe()).decision
    assert "start" == check(back.describe(), job(Line).describe()).decision


def test_what_flink_could_restore_becomes_avro_with_wider_numbers(tmp_path, migrate, contents):
    source = written(tmp_path / "java", job(JavaLine), JavaLine("pen", 2), JavaLine("cap", 1, "red"))

    (rooms,) = contents(migrate(source, tmp_path / "avro", job(FROM_JAVA))).values()

    cap = {"$avro": {"note": {"string": "red"}, "count": 1, "article": "cap"}}
    assert cap == rooms["keyed"]["by"]["entries"][0][1]["$map"][1][1]
    assert cap == rooms["operator"]["pending"]["subtasks"][0][1]
