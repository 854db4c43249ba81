"""A reader that fails on every entry of a state is the likely cause; one that fails on some is not."""

import pytest
from measures import Measure, MeasureSerializer, MeasureSnapshot

from stateshift import CorruptSavepoint, Job, ListStateDescriptor, MapStateDescriptor, Operator, ValueStateDescriptor
from stateshift.state.testing import migrate_in_process, write_savepoint

KINDS = {
    "value": (ValueStateDescriptor, Measure),
    "list": (ListStateDescriptor, lambda number: [Measure(number), Measure(2)]),
    "map": (lambda name, value: MapStateDescriptor(name, str, value), lambda number: {"a": Measure(number)}),
}


def job(kind, serializer):
    return Job([Operator("op", key=str, states=[KINDS[kind][0]("s", serializer)])])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("entries", [1, 5, 150])
def test_a_forgotten_parameter_is_the_fault_of_the_serializer(kind, entries, tmp_path, monkeypatch):
    values = {f"k{number}": KINDS[kind][1](number + 1) for number in range(entries)}
    before = write_savepoint(tmp_path / "before", job(kind, MeasureSerializer(wide=True)), {"op/s": values})
    monkeypatch.setattr(MeasureSnapshot, "restore_serializer", lambda self: MeasureSerializer(self.scale))

    cause = "measures.MeasureSerializer reads (none of|not the only).* so this serializer is the likely cause"
    with pytest.raises(CorruptSavepoint, match=cause):
        migrate_in_process(before, tmp_path / "after", job(kind, MeasureSerializer()))
    with pytest.raises(CorruptSavepoint, match=cause):
        list(before.operator("op").state("s").read_entries())


def test_a_reader_that_fails_on_some_entries_is_not_suspected(tmp_path, monkeypatch):
    before = write_savepoint(
        tmp_path / "before", job("value", MeasureSerializer()), {"op/s": {"a": Measure(1), "b": Measure(2)}}
    )
    read = MeasureSerializer.deserialize

    def damaged(self, source):
        found = read(self, source)
        if found.steps == 2:
            raise CorruptSavepoint("the bytes are no measure")
        return found

    monkeypatch.setattr(MeasureSerializer, "deserialize", damaged)
    with pytest.raises(CorruptSavepoint, match="check the file against its source"):
        migrate_in_process(before, tmp_path / "after", job("value", MeasureSerializer(wide=True)))
