"""What cannot be read is reported with its place and class, and hides as little as possible of the rest."""

import re

import pytest

from stateshift import (
    Decision,
    Job,
    ListStateDescriptor,
    OldReaderUnavailable,
    Operator,
    Savepoint,
    UnknownSnapshot,
    ValueStateDescriptor,
    check,
)
from stateshift.compat.report import Status
from stateshift.state.savepoint.verify import Outcome, verify


@pytest.fixture
def unknown_class(savepoint_copy):
    """`unknown_class(name, class)`: a savepoint of Flink in which a snapshot class has a name that is unknown."""

    def patch(name, known):
        folder = savepoint_copy(name)
        data = (folder / "_metadata").read_bytes()
        assert known.encode() in data
        (folder / "_metadata").write_bytes(data.replace(known.encode(), known[:-1].encode() + b"q"))
        return folder

    return patch


@pytest.mark.parametrize(
    ("name", "known", "place"),
    [
        ("hashmap-long-p1-m128", "base.MapSerializerSnapshot", "is not known, of the state 'counts'"),
        (
            "hashmap-account-v1",
            "IntSerializer$IntSerializerSnapshot",
            r"at \${}\.visits of the state 'account-by-.+'",
        ),
        ("hashmap-collections", "SetSerializerSnapshot", r"at \$\[\]\.names\? of the state 'bags'"),
        ("hashmap-account-v1", "LongSerializer$LongSerializerSnapshot", r"at \$<key>"),
        (
            "hashmap-windows-p2-m128",
            "$TimeWindowSerializerSnapshot",
            r"at \$<namespace> of the state '.+'",
        ),
    ],
)
def test_an_unknown_class_is_reported_with_state_and_path(unknown_class, name, known, place):
    unreadable = [op for op in Savepoint.open(unknown_class(name, known)).operators if op.unreadable]

    assert unreadable
    for operator in unreadable:
        assert f"{known[:-1]}q' is not known" in operator.unreadable
    assert re.search(place + "$", unreadable[0].unreadable), unreadable[0].unreadable
    with pytest.raises(UnknownSnapshot) as caught:
        unreadable[0].state("any")
    assert {"savepoint", "operator", "file", "offset"} <= caught.value.where.keys()


class TestKeyedStateThatCannotBeTold:
    """The header of a keyed stream has an unknown class; the operator has broadcast state too."""

    @pytest.fixture
    def folder(self, unknown_class):
        return unknown_class("hashmap-long-p1-m128", "base.MapSerializerSnapshot")

    def test_its_broadcast_state_and_other_operators_are_read(self, folder, savepoint_of, contents):
        expected = contents(savepoint_of("hashmap-long-p1-m128"))
        operator = Savepoint.open(folder).operator("keyed-op")
        for room in ("keyed", "timers"):
            expected[operator.operator_id].pop(room, None)

        assert operator.unreadable_keyed
        assert "" == operator.unreadable_lists
        assert ["rules"] == [state.name for state in operator.states]
        assert expected == contents(folder)
        assert len(expected) > 1

    def test_others_are_checked_and_what_is_unknown_is_refused(self, folder):
        old = Savepoint.open(folder).describe()
        lists = Operator("list-op", union_list_states=[ListStateDescriptor("known", str)])
        keyed = Operator("keyed-op", key=int, states=[ValueStateDescriptor("count", int)])

        assert Decision.REFUSE == check(old, Job([lists, keyed]).describe()).decision
        report = check(old, Job([keyed]).describe())
        (state,) = (state for _, state in report.states() if state.name == "count")
        assert Status.UNREADABLE == state.status
        assert "base.MapSerializerSnapshoq" in state.result.findings[0].reason

    def test_others_are_migrated_and_its_bytes_are_copied(self, folder, migrate, tmp_path):
        source = Savepoint.open(folder)
        old = source.operator("list-op").state("offsets")
        convert = ListStateDescriptor("offsets", str, converter=repr)
        assert "tuple<string, long>" == old.description.describe()
        found = migrate(folder, tmp_path / "new", Job([Operator("list-op", list_states=[convert])]))

        before, after = (one.operator("keyed-op").stored for one in (source, found))
        for old_subtask, new_subtask in zip(before.subtasks, after.subtasks, strict=True):
            assert old_subtask.managed_keyed == new_subtask.managed_keyed
            assert old_subtask.managed_operator == new_subtask.managed_operator
        converted = [[repr(element) for element in elements] for elements in old.read_elements()]
        assert converted == found.operator("list-op").state("offsets").read_elements()

    def test_the_rest_is_proven(self, folder):
        report = verify(Savepoint.open(folder))

        assert report.ok
        unproven = [c for c in report.checks if c.status is Outcome.UNPROVEN and c.where == "keyed-op"]
        assert ["structure"] == [c.name for c in unproven]
        assert {"keyed-op", "list-op"} <= {c.where for c in report.checks if c.name == "elements"}


def test_unreadable_list_states_hide_no_keyed_ones(savepoint_copy, savepoint_of, contents):
    folder = savepoint_copy("hashmap-long-p1-m128")
    data = (folder / "_metadata").read_bytes()
    place = data.index(b"LongSerializer$LongSerializerSnapshot", data.index(b"\0\5rules\0\0\0\2"))
    (folder / "_metadata").write_bytes(data[:place] + b"Lang" + data[place + 4 :])
    operator = Savepoint.open(folder).operator("keyed-op")
    expected = contents(savepoint_of("hashmap-long-p1-m128"))
    expected[operator.operator_id].pop("broadcast")

    assert "LangSerializer" in operator.unreadable_lists
    assert "" == operator.unreadable_keyed
    assert expected == contents(folder)
    assert verify(Savepoint.open(folder)).ok


class TestSubclassThatIsNotDescribed:
    """Values with flag 4, of a class whose snapshot is missing, as Flink's heap backend leaves it out."""

    NAME = "fx.Scenarios$FancyAddress"

    def test_its_value_is_reported_with_key_path_and_class(self, undescribed_subclass):
        operator = Savepoint.open(undescribed_subclass).operator("keyed-op")

        for name, path in (("home", "$"), ("homes", "$[]")):
            state = operator.state(name)
            assert "" == state.unsupported
            with pytest.raises(OldReaderUnavailable, match=re.escape(self.NAME)) as caught:
                list(state.read_entries())
            where = caught.value.where
            assert {"operator": "keyed-op", "state": name, "path": path}.items() <= where.items()
            assert {"key", "file", "savepoint"} <= where.keys()

    def test_the_savepoint_is_intact_and_its_values_are_unproven(self, undescribed_subclass):
        report = verify(Savepoint.open(undescribed_subclass))

        assert report.ok
        (values,) = (c for c in report.checks if c.name == "values")
        assert Outcome.UNPROVEN == values.status
        assert "home, homes" in values.detail

    def test_an_unchanged_state_is_checked_and_carried_over_as_bytes(self, undescribed_subclass, migrate, tmp_path):
        source = Savepoint.open(undescribed_subclass)
        probe = source.describe().as_probe()
        found = migrate(undescribed_subclass, tmp_path / "new", Job([Operator("keyed-op", key=int)]))

        assert Decision.START == check(source.describe(), probe).decision
        for name in ("home", "homes"):
            old, new = (one.operator("keyed-op").state(name) for one in (source, found))
            assert old.measure() == new.measure()

    def test_converting_it_fails_with_all_of_that_and_publishes_nothing(self, undescribed_subclass, migrate, tmp_path):
        job = Job([Operator("keyed-op", key=int, states=[ValueStateDescriptor("home", str, converter=repr)])])

        with pytest.raises(OldReaderUnavailable, match=re.escape(self.NAME)) as caught:
            migrate(undescribed_subclass, tmp_path / "new", job)
        assert {"operator": "keyed-op", "state": "home"}.items() <= caught.value.where.items()
        assert "key" in caught.value.where
        assert not (tmp_path / "new" / "_metadata").exists()
