"""STATE-2: a state of one kind becomes one of another, by a function over all that a key has; keys are counted."""

from __future__ import annotations

import itertools

import attrs
import cloudpickle
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stateshift import (
    AggregatingStateDescriptor,
    BadValues,
    DataInputView,
    Float32,
    Job,
    ListStateDescriptor,
    MapStateDescriptor,
    MigrationOptions,
    Operator,
    PickleSerializer,
    ReducingStateDescriptor,
    Repartition,
    Savepoint,
    SavepointWriter,
    StateTransform,
    TimeWindow,
    TtlValue,
    UntrustedCode,
    ValueNotConvertible,
    ValuesCollide,
    ValueStateDescriptor,
    check,
    serializer_for,
)
from stateshift.compat.description import StateKind
from stateshift.compat.header_snapshots import Labels
from stateshift.compat.plan import Recoding, StateAction, StatePlan, Transformation
from stateshift.compat.planner import plan
from stateshift.serializers.flink.namespaces import VoidNamespaceSerializer
from stateshift.serializers.primitives.numeric import LongSerializer
from stateshift.state.entry_keys import encode
from stateshift.state.formats.flink.blocks import Block
from stateshift.state.migration.preparation import prepare
from stateshift.state.migration.run import publish_result, try_out
from stateshift.state.migration.run_task import perform
from stateshift.state.savepoint.quarantine import read_quarantine
from stateshift.state.savepoint.verify import verify
from stateshift.state.storage.files import Folder
from stateshift.state.transcode.entry_layout import entry_framing
from stateshift.state.transcode.executor_choice import ExecutorName
from stateshift.state.transcode.factory import make_transcoder

WINDOWS = ["hashmap-windows-p2-m128", "rocksdb-windows-p1-m200"]


def value(**more):
    return ValueStateDescriptor("s", int, **more)


def reducing(**more):
    return ReducingStateDescriptor("s", None, int, **more)


def aggregating(**more):
    return AggregatingStateDescriptor("s", None, int, **more)


def listed(**more):
    return ListStateDescriptor("s", int, **more)


def mapped(**more):
    return MapStateDescriptor("s", str, int, **more)


def numbered(items):
    return {str(index): item for index, item in enumerate(items)}


# By kind: the descriptor, some contents, and how to come from numbers and go to numbers.
KINDS = {
    "value": (value, 7, lambda numbers: numbers[0], lambda one: [one]),
    "reducing": (reducing, 7, lambda numbers: numbers[0], lambda one: [one]),
    "aggregating": (aggregating, 7, lambda numbers: numbers[0], lambda one: [one]),
    "list": (listed, [3, 1, 2], lambda numbers: numbers, lambda numbers: numbers),
    "map": (mapped, {"b": 3, "a": 1}, numbered, lambda pairs: sorted(pairs.values())),
}


def from_kind(kind, function):
    return getattr(StateTransform, f"from_{kind}")(function)


def job_of(*states, key=int):
    return Job([Operator("op", key=key, states=states)])


def written(folder, job, values, *, namespace=None, **options):
    with SavepointWriter(folder, job, **options) as writer:
        for key, content in values.items():
            writer.put("op", "s", key, content, **({} if namespace is None else {"namespace": namespace}))
    return folder


def values_of(savepoint):
    return {entry.key: entry.value for entry in savepoint.operator("op").state("s").read_entries()}


def counts_of(savepoint):
    """Of keys: read, written, dropped; and the entries."""
    (count,) = savepoint.lineage.states
    return count.read, count.written, count.dropped, count.entries


@pytest.mark.parametrize(("old", "new"), [pair for pair in itertools.product(KINDS, KINDS) if len(set(pair)) == 2])
def test_every_kind_of_keyed_state_becomes_every_other(tmp_path, migrate, old, new):
    make_old, content, _, to_numbers = KINDS[old]
    make_new, _, of_numbers, _ = KINDS[new]

    def turn(stored):
        return of_numbers(to_numbers(stored))

    source = written(tmp_path / "old", job_of(make_old()), dict.fromkeys(range(20), content), parallelism=2)
    job = job_of(make_new(transform=from_kind(old, turn)))
    found = migrate(source, tmp_path / "new", job)
    again = check(found.describe(), job.describe())

    assert dict.fromkeys(range(20), turn(content)) == values_of(found)
    assert new == found.operator("op").state("s").kind
    assert (20, 20, 0) == counts_of(found)[:3]
    assert verify(found).ok
    assert plan(again).is_empty  # RUN-5: its kind is the new one


def test_what_a_transform_leaves_empty_is_dropped_and_counted_run_2(tmp_path, migrate):
    source = written(tmp_path / "old", job_of(mapped()), {1: {"a": 1}, 2: {"a": 2, "b": 3}, 3: {"c": 5}})
    job = job_of(listed(transform=StateTransform.from_map(lambda pairs: [n for n in pairs.values() if n > 1])))

    found = migrate(source, tmp_path / "new", job, parallelism=3)

    assert {2: [2, 3], 3: [5]} == values_of(found)
    assert (3, 2, 1, 2) == counts_of(found)
    assert verify(found).ok


@pytest.mark.parametrize("nothing", [None, [], ()])
def test_nothing_for_a_list_is_no_entry(tmp_path, migrate, nothing):
    source = written(tmp_path / "old", job_of(value()), {1: 1, 2: 2})
    transform = StateTransform.from_value(lambda number: [number] if number > 1 else nothing)

    found = migrate(source, tmp_path / "new", job_of(listed(transform=transform)))

    assert ({2: [2]}, (2, 1, 1, 1)) == (values_of(found), counts_of(found))


def test_entries_of_a_map_count_as_their_key_and_are_counted_next_to_it(tmp_path, migrate):
    """So `verify` knows how many entries there are, and RUN-2 holds for the keys."""
    source = written(tmp_path / "old", job_of(listed()), {1: [1, 2, 3], 2: [4]})
    found = migrate(source, tmp_path / "new", job_of(mapped(transform=StateTransform.from_list(numbered))))

    assert (2, 2, 0, 4) == counts_of(found)
    assert 4 == found.operator("op").state("s").measure().entries
    assert verify(found).ok


def test_the_plan_and_the_lineage_name_the_function(tmp_path, migrate):
    source = written(tmp_path / "old", job_of(value()), {1: 1})
    found = migrate(source, tmp_path / "new", job_of(mapped(transform=StateTransform.from_value(as_map))))
    (state,) = found.lineage.plan["operators"][0]["states"]

    assert {"name": f"{__name__}.as_map", "from": "value"} == state["transform"]
    assert ("map", ["STATE-2"]) == (state["kind"], [finding["rule"] for finding in state["findings"]])


def as_map(number):
    return {"only": number}


@attrs.frozen
class Order:
    id: int
    amount: float


def test_types_may_change_with_the_kind(tmp_path, migrate):
    """The function sees what a reader without the class sees, and gives objects of the new types."""
    source = written(tmp_path / "old", job_of(ValueStateDescriptor("s", Order), key=str), {"ann": Order(7, 1.5)})
    new = MapStateDescriptor(
        "s", int, Float32, transform=StateTransform.from_value(lambda order: {order.id: order.amount})
    )

    assert {"ann": {7: 1.5}} == values_of(migrate(source, tmp_path / "new", job_of(new, key=str)))


def test_keys_that_end_by_their_length_stay_apart_in_a_namespace(tmp_path, migrate):
    """Key and namespace both vary in length here, so each is followed by its own (format notes 5.4)."""
    source = written(
        tmp_path / "old", job_of(listed(namespace=str), key=str), {"a" * n: list(range(n)) for n in range(1, 300, 37)},
        namespace="w" * 130,
    )  # fmt: skip
    job = job_of(mapped(namespace=str, transform=StateTransform.from_list(numbered)), key=str)
    back = job_of(listed(namespace=str, transform=StateTransform.from_map(lambda m: sorted(m.values()))), key=str)

    there = migrate(source, tmp_path / "there", job)
    again = migrate(there.place, tmp_path / "again", back)

    assert {"a" * n: numbered(range(n)) for n in range(1, 300, 37)} == values_of(there)
    assert values_of(Savepoint.open(source)) == values_of(again)
    assert {"w" * 130} == {entry.namespace for entry in there.operator("op").state("s").read_entries()}


@pytest.mark.parametrize("name", WINDOWS)
def test_the_reduced_values_of_windows_that_flink_wrote_become_lists(savepoint_of, migrate, tmp_path, name):
    def entries(savepoint):
        found = savepoint.operator("window-reduce").state("window-contents").read_entries()
        return sorted(((e.key, str(e.namespace)), e.value) for e in found)

    state = ListStateDescriptor(
        "window-contents", tuple[int, int], namespace=TimeWindow,
        transform=StateTransform.from_reducing(lambda pair: [pair, pair]),
    )  # fmt: skip
    source = savepoint_of(name)
    found = migrate(source, tmp_path / "new", Job([Operator("window-reduce", key=str, states=[state])]))
    before = entries(Savepoint.open(source))

    assert before
    assert [(place, [pair, pair]) for place, pair in before] == entries(found)
    assert verify(found).ok


@pytest.mark.parametrize("name", ["hashmap-account-v1", "rocksdb-account-v1"])
def test_maps_that_flink_wrote_are_gathered_by_key(savepoint_of, migrate, tmp_path, name):
    """The heap backend writes user keys in any order, RocksDB sorted."""

    def states(savepoint):
        return {e.key: e.value for e in savepoint.operator("account-state").state("account-by-name").read_entries()}

    source = Savepoint.open(savepoint_of(name))
    before = states(source)
    account = source.operator("account-state").state("account").description.value.new_side()
    state = ListStateDescriptor("account-by-name", account, transform=StateTransform.from_map(in_order))
    found = migrate(source.place, tmp_path / "new", Job([Operator("account-state", key=int, states=[state])]))

    assert {key: in_order(accounts) for key, accounts in before.items()} == states(found)


@pytest.mark.parametrize("name", ["hashmap-native-long-p2-m128", "hashmap-long-p2-m128-snappy"])
def test_native_and_compressed_state_changes_its_kind_as_any_other(savepoint_of, migrate, tmp_path, name):
    def states(savepoint):
        operator = savepoint.operator("keyed-op")
        return [{e.key: e.value for e in operator.state(state).read_entries()} for state in ("count", "counts")]

    counts, maps = states(Savepoint.open(savepoint_of(name)))
    job = Job(
        [
            Operator("keyed-op", key=int, states=[
                ListStateDescriptor("count", int, transform=StateTransform.from_value(lambda n: [n])),
                ValueStateDescriptor("counts", int, transform=StateTransform.from_map(lambda m: sum(m.values()))),
            ])
        ]
    )  # fmt: skip
    found = migrate(savepoint_of(name), tmp_path / "new", job, parallelism=3)

    assert counts and maps  # noqa: PT018 - else nothing is shown
    assert [{k: [n] for k, n in counts.items()}, {k: sum(m.values()) for k, m in maps.items()}] == states(found)
    assert verify(found).ok


def in_order(accounts):
    return [accounts[name] for name in sorted(accounts)]


DOUBLE = serializer_for(float)
NOTHING = LongSerializer().snapshot_configuration()


class TestFailures:
    def failure(self, tmp_path, migrate, old, content, new, error=ValueNotConvertible):
        source = written(tmp_path / "old", job_of(old), {5: content})
        with pytest.raises(error) as caught:
            migrate(source, tmp_path / "new", job_of(new))
        assert not (tmp_path / "new" / "_metadata").exists()
        assert ("s", "5", "STATE-2") == tuple(str(caught.value.where[name]) for name in ("state", "key", "rule"))
        return caught.value

    def test_a_transform_that_fails_is_reported_with_its_key(self, tmp_path, migrate):
        new = mapped(transform=StateTransform.from_value(lambda number: {"half": number // 0}))
        error = self.failure(tmp_path, migrate, value(), 7, new)

        assert "<lambda> failed on 7: ZeroDivisionError" in error.what
        assert "transform" in error.advice

    @pytest.mark.parametrize(
        ("new", "given", "words"),
        [
            (listed, 8, "8 is not a list of elements"),
            (mapped, [8], "[8] is not a map"),
            (listed, ["x"], "'x'"),
            (mapped, {"a": None}, "a map value is None"),
        ],
    )
    def test_what_the_new_state_does_not_hold_is_reported_with_its_key(self, tmp_path, migrate, new, given, words):
        error = self.failure(tmp_path, migrate, value(), 7, new(transform=StateTransform.from_value(lambda _: given)))

        assert words in error.what

    def test_two_new_user_keys_that_are_one_collide(self, tmp_path, migrate):
        state = MapStateDescriptor(
            "s", Float32, int, transform=StateTransform.from_value(lambda n: {0.1: n, 0.1 + 1e-12: n})
        )
        source = written(tmp_path / "old", job_of(value()), {5: 7})

        with pytest.raises(ValuesCollide) as caught:
            migrate(source, tmp_path / "new", job_of(state))
        assert ("$<key>", "5") == (caught.value.where["path"], caught.value.where["key"])

    def test_two_stored_user_keys_that_python_takes_for_one_collide(self, tmp_path, migrate):
        """0.0 and -0.0 are two keys to Flink: a dict of both would lose one in silence."""
        writer = serializer_for(list[int])
        key = Recoding("<key>", DOUBLE, "snapshot", None, writer)
        state = StatePlan(
            "s", StateKind.LIST, StateAction.CONVERT, Labels(NOTHING), Labels(NOTHING),
            Recoding("{}", LongSerializer(), "snapshot", None, writer), key,
            transform=Transformation(StateKind.MAP, "list", list),
        )  # fmt: skip
        framing = entry_framing(
            StateKind.MAP, key=LongSerializer(), namespace=VoidNamespaceSerializer(), max_parallelism=128
        )
        entries = [(bytes(10) + encode(DOUBLE, zero), bytes(9)) for zero in (0.0, -0.0)]

        with pytest.raises(ValuesCollide, match="read as the same"):
            make_transcoder(state, framing, ExecutorName.OBJECTS).transcode(Block.of(0, 0, entries).data)


def carried_out(source, target, job, options):
    prepared, folder = prepare(Savepoint.open(source), job, options), Folder.at(target)
    folder.create()
    tasks = cloudpickle.loads(cloudpickle.dumps(prepared.tasks))
    results = [perform(task, prepared.savepoint.folder, folder) for task in tasks]
    publish_result(prepared.savepoint, prepared.plan, tasks, results, folder)
    return Savepoint.open(target)


@pytest.mark.parametrize("key_groups", [None, 1000])
def test_keys_and_kinds_change_in_one_run_role_4(tmp_path, key_groups):
    stored = {key: {"a": key, "b": 2 * key} for key in range(40)}
    source = written(tmp_path / "old", job_of(mapped()), stored, parallelism=2)
    transform = StateTransform.from_map(lambda pairs: [number for number in pairs.values() if number > 10])
    job = Job([Operator("op", key=str, key_converter=str, states=[listed(transform=transform)])])
    options = MigrationOptions(repartition=Repartition(max_parallelism=key_groups), parallelism=3)

    found = carried_out(source, tmp_path / "new", job, options)

    lists = {str(key): [n for n in pairs.values() if n > 10] for key, pairs in stored.items()}
    assert {key: numbers for key, numbers in lists.items() if numbers} == values_of(found)
    assert (40, 34, 6, 34) == counts_of(found)
    assert verify(found).ok


def test_values_become_entries_of_a_map_where_keys_change_role_4(tmp_path):
    source = written(tmp_path / "old", job_of(value()), {key: 10 * key for key in range(40)}, parallelism=2)
    state = mapped(transform=StateTransform.from_value(lambda number: {"a": number, "b": -number}))
    job = Job([Operator("op", key=str, key_converter=str, states=[state])])

    found = carried_out(source, tmp_path / "new", job, MigrationOptions(repartition=Repartition(), parallelism=3))

    assert {str(key): {"a": 10 * key, "b": -10 * key} for key in range(40)} == values_of(found)
    assert verify(found).ok


def test_lists_of_keys_that_become_one_are_merged_after_the_transform_role_4(tmp_path):
    source = written(tmp_path / "old", job_of(value(), key=str), {"1": 10, "01": 20, "2": 30})
    state = listed(transform=StateTransform.from_value(lambda number: [number]))
    job = Job([Operator("op", key=int, key_converter=int, states=[state])])
    options = MigrationOptions(repartition=Repartition(merge={"s": lambda one, other: sorted(one + other)}))

    assert {1: [10, 20], 2: [30]} == values_of(carried_out(source, tmp_path / "new", job, options))


class TestQuarantine:
    """RUN-4: with a transform, the key is what may be left out."""

    def test_a_key_whose_transform_fails_lies_aside_with_all_its_entries(self, tmp_path):
        def turn(pairs):
            return [100 // number for number in pairs.values()]

        source = written(tmp_path / "old", job_of(mapped()), {1: {"a": 5}, 2: {"a": 0, "b": 4}, 3: {"c": 4}})
        job = job_of(listed(transform=StateTransform.from_map(turn)))
        found = carried_out(source, tmp_path / "new", job, MigrationOptions(bad_values=BadValues.QUARANTINE))
        (bad,) = read_quarantine(found.folder, found.lineage)
        view = DataInputView(bad.value_bytes)
        parts = [view.read_fully(view.read_int()) for _ in range(4)]

        assert {1: [20], 3: [25]} == values_of(found)
        assert ("2", "STATE-2") == (bad.key, bad.rule)
        assert {True} == {part.startswith(bad.key_bytes) for part in parts[::2]}
        assert 0 == view.remaining()
        (count,) = found.lineage.states
        assert (3, 2, 0, 1) == (count.read, count.written, count.dropped, count.quarantined)
        assert verify(found).ok


class TestTimeToLive:
    def test_stamps_pass_through_the_function_where_both_sides_have_them(self, tmp_path, migrate):
        source = written(tmp_path / "old", job_of(value(time_to_live=True)), {1: TtlValue(1000, 7)})
        job = job_of(listed(time_to_live=True, transform=StateTransform.from_value(lambda stamped: [stamped])))

        assert {1: [TtlValue(1000, 7)]} == values_of(migrate(source, tmp_path / "new", job))

    @pytest.mark.parametrize("stamped", [True, False])
    def test_switching_it_at_once_is_refused_with_the_way_to_do_it(self, tmp_path, stamped):
        old = job_of(mapped(time_to_live=stamped))
        new = job_of(listed(time_to_live=not stamped, transform=StateTransform.from_map(list)))
        (finding,) = check(old.describe(), new.describe()).operators[0].states[0].result.findings

        assert ("STATE-2", "incompatible") == (finding.rule, finding.verdict.label)
        assert "TTL" in str(finding.ways_out[0])


class TestPickles:
    """A transform gets pickles as they are stored, unopened, and opens what the migration trusts by name."""

    @pytest.fixture
    def source(self, tmp_path):
        return written(tmp_path / "old", job_of(ValueStateDescriptor("s", PickleSerializer(Order))), {1: Order(7, 1.5)})

    def opened(self):
        return job_of(listed(transform=StateTransform.from_value(lambda pickled: [pickled.load().id])))

    def test_one_that_is_trusted_is_opened(self, tmp_path, source):
        trust = frozenset({f"{__name__}.Order"})

        assert {1: [7]} == values_of(
            carried_out(source, tmp_path / "new", self.opened(), MigrationOptions(trust=trust))
        )

    def test_one_that_is_not_trusted_stays_closed(self, tmp_path, source):
        with pytest.raises(UntrustedCode) as caught:
            carried_out(source, tmp_path / "new", self.opened(), MigrationOptions())
        assert ("s", "1") == (caught.value.where["state"], caught.value.where["key"])

    def test_what_is_not_opened_need_not_be_trusted(self, tmp_path, source):
        job = job_of(listed(transform=StateTransform.from_value(lambda pickled: [len(pickled.data)])))

        ((size,),) = values_of(carried_out(source, tmp_path / "new", job, MigrationOptions())).values()
        assert size > 0


def test_a_dry_run_transforms_all_entries_of_the_first_key_read_5(tmp_path):
    source = written(tmp_path / "old", job_of(mapped()), {1: {"a": 5, "b": 6}})
    seen = []

    def turn(pairs):
        seen.append(pairs)
        return list(pairs.values())

    prepared = prepare(
        Savepoint.open(source), job_of(listed(transform=StateTransform.from_map(turn))), MigrationOptions()
    )
    tried = try_out(prepared.savepoint, prepared.plan)

    assert [True] == list(tried.values())
    assert [{"a": 5, "b": 6}] == seen


@settings(max_examples=25)
@given(st.dictionaries(st.integers(-1000, 1000), st.integers(), max_size=20), st.integers(1, 4))
def test_value_to_list_to_value_is_identity(tmp_path_factory, migrate, values, parallelism):
    """To the byte: the streams are small, and lie in `_metadata`."""
    numbers = {key: number % 2**40 for key, number in values.items()}
    folder = tmp_path_factory.mktemp("law")
    source = written(folder / "old", job_of(value()), numbers, parallelism=parallelism)
    there = migrate(source, folder / "there", job_of(listed(transform=StateTransform.from_value(lambda n: [n]))))
    back = migrate(there.place, folder / "back", job_of(value(transform=StateTransform.from_list(lambda ns: ns[0]))))

    assert numbers == values_of(back)
    assert (source / "_metadata").read_bytes() == (folder / "back" / "_metadata").read_bytes()


@settings(max_examples=25)
@given(
    st.dictionaries(
        st.text(max_size=5), st.dictionaries(st.text(max_size=3), st.integers(0, 9), min_size=1, max_size=4), max_size=9
    )
)
def test_map_to_list_of_pairs_to_map_is_identity(tmp_path_factory, migrate, maps):
    folder = tmp_path_factory.mktemp("law")
    source = written(folder / "old", job_of(mapped(), key=str), maps)
    pairs = ListStateDescriptor("s", tuple[str, int], transform=StateTransform.from_map(lambda m: [*m.items()]))
    there = migrate(source, folder / "there", job_of(pairs, key=str))
    back = migrate(there.place, folder / "back", job_of(mapped(transform=StateTransform.from_list(dict)), key=str))

    assert maps == values_of(back)
    assert {key: sorted(m.items()) for key, m in maps.items()} == {k: sorted(v) for k, v in values_of(there).items()}
