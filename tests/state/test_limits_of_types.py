"""A type that cannot be read back is not written: its levels, headers of streams, documents (limits of readers)."""

from __future__ import annotations

from datetime import timedelta

import pytest

from stateshift import (
    DeclarationError,
    Job,
    ListStateDescriptor,
    MapStateDescriptor,
    Operator,
    Savepoint,
    SavepointWriter,
    StateTtlConfig,
    ValueStateDescriptor,
    check,
)
from stateshift.compat import json_files
from stateshift.compat.json_files import parse_document, parse_json, print_document
from stateshift.serializers import limits
from stateshift.serializers.containers.lists import ListSerializer, MapSerializer, SetSerializer
from stateshift.serializers.containers.object_arrays import GenericArraySerializer
from stateshift.serializers.containers.tuples import EitherSerializer, TupleSerializer
from stateshift.serializers.containers.wrappers import OptionalSerializer
from stateshift.serializers.limits import MAX_NESTING
from stateshift.serializers.primitives.numeric import IntSerializer
from stateshift.serializers.primitives.text import StringSerializer
from stateshift.serializers.records.classes import RecordField
from stateshift.serializers.records.pojo import PojoSerializer
from stateshift.serializers.records.serializers import RecordSerializer
from stateshift.serializers.rows.serializers import RowSerializer
from stateshift.serializers.snapshot import snapshot_from_bytes, snapshot_to_bytes
from stateshift.state.columnar.new_savepoint import check_position
from stateshift.state.publication.lineage import Lineage

FORMS = {
    "list": ListSerializer,
    "set": SetSerializer,
    "map": lambda inner: MapSerializer(StringSerializer(), inner),
    "tuple": lambda inner: TupleSerializer((inner,)),
    "row": lambda inner: RowSerializer((RecordField("", inner),)),
    "array": GenericArraySerializer,
    "optional": lambda inner: OptionalSerializer(ListSerializer(inner)),
    "pojo": lambda inner: PojoSerializer("fx.Deep", (RecordField("a", inner),)),
    "record": lambda inner: RecordSerializer("deep.Deep", (RecordField("a", inner),)),
    "either": lambda inner: EitherSerializer(IntSerializer(), inner),
}


def nested(form, levels):
    found = IntSerializer()
    for _ in range(levels):
        found = FORMS[form](found)
    return found


def job_of(*descriptors):
    return Job([Operator("op", key=int, states=descriptors)])


def levels_in(snapshot):
    return 1 + max(map(levels_in, snapshot.children()), default=0)


@pytest.mark.parametrize("form", FORMS)
def test_a_type_is_written_if_it_can_be_read_and_refused_before_anything_if_not(tmp_path, form):
    step = levels_in(nested(form, 2).snapshot_configuration()) - levels_in(nested(form, 1).snapshot_configuration())
    most = (MAX_NESTING - 1) // step
    deepest, deeper = nested(form, most), nested(form, most + 1)

    with SavepointWriter(tmp_path / "sp", job_of(ValueStateDescriptor("v", deepest))):
        pass
    data = snapshot_to_bytes(deepest.snapshot_configuration())
    assert data == snapshot_to_bytes(snapshot_from_bytes(data))
    assert "start" == check_of(tmp_path / "sp", deepest)
    with pytest.raises(DeclarationError, match="nested more than 100 levels"):
        snapshot_to_bytes(deeper.snapshot_configuration())
    with pytest.raises(DeclarationError, match="nested more than 100 levels"):
        check_of(tmp_path / "sp", deeper)


def check_of(place, serializer):
    return str(
        check(Savepoint.open(place).describe(), job_of(ValueStateDescriptor("v", serializer)).describe()).decision
    )


TTL = StateTtlConfig.new_builder(timedelta(days=1)).build()


@pytest.mark.parametrize(
    "descriptor",
    [
        lambda inner: ListStateDescriptor("s", inner),
        lambda inner: MapStateDescriptor("s", str, inner),
        lambda inner: with_ttl(ValueStateDescriptor("s", inner)),
        lambda inner: with_ttl(MapStateDescriptor("s", str, inner)),
    ],
)
def test_the_levels_that_a_kind_of_state_and_its_time_to_live_add_count(tmp_path, descriptor):
    """Whatever a job can declare, its savepoint can be opened and described."""
    declared = []
    for levels in range(MAX_NESTING - 5, MAX_NESTING + 1):
        try:
            job = job_of(descriptor(nested("list", levels)))
            job.describe()
        except DeclarationError:
            continue
        declared.append(levels)
        with SavepointWriter(tmp_path / f"{levels}", job):
            pass
        report = check(Savepoint.open(tmp_path / f"{levels}").describe(), job.describe())
        assert "refuse" != str(report.decision)
    assert MAX_NESTING - 5 in declared
    assert MAX_NESTING not in declared


def with_ttl(descriptor):
    descriptor.enable_time_to_live(TTL)
    return descriptor


def test_a_header_that_is_not_read_is_not_written(tmp_path, monkeypatch):
    monkeypatch.setattr(limits, "MAX_HEADER_BYTES", 2_000)
    job = job_of(*(ValueStateDescriptor(f"state {number}", int) for number in range(50)))

    with (
        pytest.raises(DeclarationError, match="the header of a stream is read up to"),
        SavepointWriter(tmp_path / "sp", job) as writer,
    ):
        writer.put("op", "state 1", 1, 1)
    assert not (tmp_path / "sp" / "_metadata").exists()


@pytest.mark.parametrize("limit", ["MOST_BYTES", "MOST_NESTED"])
def test_a_document_that_is_not_read_is_not_written(monkeypatch, limit):
    inner = []
    for _ in range(30):
        inner = [inner]
    text = print_document("a form", 1, {"deep": inner})
    parse_document(text, "a form", 1)
    monkeypatch.setattr(json_files, limit, 20)

    with pytest.raises(DeclarationError, match="could not be read back"):
        print_document("a form", 1, {"deep": inner})


@pytest.mark.parametrize(("levels", "is_read"), [(150, True), (250, False), (100_000, False)])
def test_a_position_that_would_make_the_lineage_unreadable_is_refused(levels, is_read):
    position = []
    for _ in range(levels):
        position = [position]
    if not is_read:
        with pytest.raises(DeclarationError, match="the position of the history cannot be kept as JSON"):
            check_position(position)
        return
    check_position(position)
    lineage = Lineage(stateshift="0.1", created="now", job="job", position=position)
    later = Lineage(stateshift="0.1", created="now", job="job", history=lineage.as_history())
    assert parse_json(later.to_json())
