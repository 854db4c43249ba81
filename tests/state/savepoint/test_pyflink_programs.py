"""What real PyFlink kept of functions, windows, broadcast state and two inputs is read as values, in both modes.

The savepoints are made by tests/interop/pyflink/make_fixtures.py: canonical and native ones, and checkpoints.
"""

import json
import pickle
from collections import defaultdict
from decimal import Decimal
from pathlib import Path

import pytest

from stateshift import (
    AggregatingStateDescriptor,
    Decision,
    DeclarationError,
    Job,
    ListStateDescriptor,
    MapStateDescriptor,
    Operator,
    ReducingStateDescriptor,
    Savepoint,
    TimeWindow,
    ValueStateDescriptor,
    check,
)
from stateshift.compat.description import StateKind
from stateshift.pyflink.common import Instant, Row, Types
from stateshift.serializers.views import SEPARATOR
from stateshift.state.columnar.table import StateTable
from stateshift.state.entry_keys import decode, encode
from stateshift.state.formats.flink.entries import each_entry
from stateshift.state.runtime.windows.assigners import CountWindow
from stateshift.state.testing import migrate_in_process

LONG, STRING = Types.LONG(), Types.STRING()
NUMBERS = Types.TUPLE([LONG, LONG])
KEPT_IN = Path(__file__).parents[2] / "fixtures/pyflink-2.3"


def forms(*names):
    """Give names of savepoints in each form that there is."""
    return [
        name + form for name in names for form in ("", "-native", "-incremental") if (KEPT_IN / (name + form)).exists()
    ]


@pytest.fixture
def opened(root):
    """`opened(name, uid, states)`: an operator of a savepoint with types, and what is expected of it."""

    def of(name, uid, states, **others):
        place = root / "tests/fixtures/pyflink-2.3" / name
        expected = json.loads((place / "expected.json").read_text("utf-8"))
        mode = expected.setdefault("mode", "process")
        operator = Operator.pyflink(uid, states, key=LONG, execution_mode=mode, **others)
        return Savepoint.open(place / "savepoint").told_by(Job([operator])).operator(uid), expected

    return of


def of_each_key(operator, prefix):
    """Give the value that each state has of each key, by key and name."""
    found = defaultdict(dict)
    for state in operator.states:
        if state.kind.is_keyed and "timers" not in state.name:
            for entry in state.read_entries():
                found[entry.key[0]][state.name.removeprefix(prefix)] = entry.value
    return found


def elements(value, mode):
    """Give the elements of a list: in process mode it is a list of lines, one a flush."""
    return [one for line in value for one in line] if mode == "process" else value


KEPT = [
    ValueStateDescriptor("count", LONG),
    ValueStateDescriptor("last", Types.ROW_NAMED(["at", "text"], [LONG, STRING])),
    ValueStateDescriptor("note", bytes),
    ValueStateDescriptor("kept", STRING, time_to_live=True),
    ListStateDescriptor("events", STRING),
    MapStateDescriptor("counts", STRING, LONG),
    ReducingStateDescriptor("total", None, LONG),
    AggregatingStateDescriptor("mean", None, NUMBERS),
]


@pytest.mark.parametrize("name", forms("values-process", "values-thread"))
def test_states_of_each_kind(opened, name):
    operator, expected = opened(name, "keeps", KEPT)
    mode = expected["mode"]

    found = of_each_key(operator, "python-state-")
    told = {
        str(key): {
            "count": one["count"],
            "note": pickle.loads(one["note"]),
            "kept": one["kept"].value,
            "events": elements(one["events"], mode),
            "counts": one["counts"],
            "total": one["total"],
            "mean": division(one["mean"]),
        }
        for key, one in found.items()
    }
    assert told == {key: {name: one[name] for name in told[key]} for key, one in expected["last"].items()}
    assert {str(key): [*one["last"]] for key, one in found.items()} == {
        key: [*one["last"].values()] for key, one in expected["last"].items()
    }


def division(pair):
    return pair[0] / pair[1]


TYPES = {
    "byte": (Types.BYTE(), lambda n: n),
    "short": (Types.SHORT(), lambda n: n * 300),
    "int": (Types.INT(), lambda n: n * 70_000),
    "float": (Types.FLOAT(), lambda n: n / 4),
    "double": (Types.DOUBLE(), lambda n: n / 8),
    "boolean": (Types.BOOLEAN(), lambda n: n % 2 == 0),
    "char": (Types.CHAR(), lambda n: chr(65 + n % 26)),
    "big_int": (Types.BIG_INT(), lambda n: n * 10**12),
    "big_dec": (Types.BIG_DEC(), lambda n: Decimal(n) / 100),
    "instant": (Types.INSTANT(), lambda n: Instant(n, n * 1000)),
    "texts": (Types.BASIC_ARRAY(STRING), lambda n: [f"t{n}", "é"]),
    "objects": (Types.OBJECT_ARRAY(Types.MAP(STRING, LONG)), lambda n: [{"n": n}]),
    "ints": (Types.PRIMITIVE_ARRAY(Types.INT()), lambda n: [n, -n]),
    "numbers": (Types.LIST(LONG), lambda n: [n, n + 1]),
    "floats": (Types.MAP(Types.INT(), Types.FLOAT()), lambda n: {n: n / 2}),
    "tuple": (Types.TUPLE([STRING, Types.INT()]), lambda n: (f"t{n}", n)),
    "row": (Types.ROW_NAMED(["a", "b"], [LONG, STRING]), lambda n: Row(n, None)),
}
NOT_IN_THREADS = {"big_int", "instant", "ints", "numbers", "texts"}
ALL = [ValueStateDescriptor(one, of) for one, (of, _) in TYPES.items()]
ALL_IN_THREADS = [one for one in ALL if one.name not in NOT_IN_THREADS]


@pytest.mark.parametrize("name", forms("types", "types-thread"))
def test_a_value_of_each_type(opened, name):
    left_out = NOT_IN_THREADS if "thread" in name else set()
    types = {one: of for one, of in TYPES.items() if one not in left_out}
    operator, expected = opened(name, "types", ALL_IN_THREADS if left_out else ALL)

    found = of_each_key(operator, "python-state-")
    assert set(expected["last"]) == {str(key) for key in found}
    for key, values in found.items():
        assert values == {one: make(expected["last"][str(key)]) for one, (_, make) in types.items()}


@pytest.mark.parametrize("name", sorted(NOT_IN_THREADS))
def test_what_thread_mode_cannot_keep_is_refused(name):
    with pytest.raises(DeclarationError, match="in thread mode"):
        Operator.pyflink("types", [ValueStateDescriptor(name, TYPES[name][0])], key=LONG, execution_mode="thread")


LISTED = [ListStateDescriptor("window-contents", NUMBERS, namespace=TimeWindow)]
REDUCED = [ReducingStateDescriptor("window-contents", None, NUMBERS, namespace=TimeWindow)]


@pytest.mark.parametrize("name", forms("windows", "windows-thread"))
def test_windows_of_time(opened, name):
    listed, expected = opened(name, "lists", LISTED)
    reduced, _ = opened(name, "reduced", REDUCED)
    mode = expected["mode"]
    state_name = "window-contents" if mode == "thread" else "python-state-window-contents"

    of_key = defaultdict(list)
    for key, number in expected["lines"]:
        of_key[key].append((key, number))
    assert {(key, 0): lines for key, lines in of_key.items()} == {
        (entry.key[0], entry.namespace.start): elements(entry.value, mode)
        for entry in listed.state(state_name).read_entries()
    }
    assert {key: (key, sum(number for _, number in lines)) for key, lines in of_key.items()} == {
        entry.key[0]: entry.value for entry in reduced.state(state_name).read_entries()
    }


@pytest.mark.parametrize("name", forms("sessions"))
def test_windows_of_a_session(opened, name):
    operator, _ = opened(name, "sessions", LISTED)

    (entry,) = operator.state("python-state-window-contents").read_entries()
    assert (2, TimeWindow(37_000, 40_000), [[(2, 37)]]) == (entry.key[0], entry.namespace, entry.value)


COUNTED = [
    ListStateDescriptor("window-contents", NUMBERS, namespace=CountWindow),
    ReducingStateDescriptor("count", None, LONG, namespace=CountWindow),
]
TUMBLING = [*COUNTED, ValueStateDescriptor("tumble-count-assigner", LONG)]


@pytest.mark.parametrize("name", forms("counts"))
def test_windows_of_counts(opened, name):
    operator, expected = opened(name, "tumbling", TUMBLING)

    of_key = defaultdict(list)
    for key, number in expected["lines"]:
        of_key[key].append((key, number))
    begun = {key: lines[len(lines) // 4 * 4 :] for key, lines in of_key.items()}
    contents = {
        (entry.key[0], entry.namespace.id): elements(entry.value, "process")
        for entry in operator.state("python-state-window-contents").read_entries()
    }
    assert begun == {key: contents[key, len(lines) // 4] for key, lines in of_key.items()}
    assert {key: len(lines) for key, lines in of_key.items()} == {
        entry.key[0]: entry.value for entry in operator.state("python-state-tumble-count-assigner").read_entries()
    }


SEEN = [ListStateDescriptor("seen", LONG)]
RULES = {"broadcast_states": [MapStateDescriptor("rules", STRING, LONG)]}


@pytest.mark.parametrize("name", forms("broadcast"))
def test_broadcast_state(opened, name):
    operator, expected = opened(name, "rules", SEEN, **RULES)

    assert [[expected["last"].pop("rules")]] == operator.state("python-state-rules").read_elements()
    assert {key: one["seen"] for key, one in expected["last"].items()} == {
        str(entry.key[0]): elements(entry.value, "process")
        for entry in operator.state("python-state-seen").read_entries()
    }


BOTH = [ValueStateDescriptor("left", LONG), MapStateDescriptor("right", LONG, STRING)]


@pytest.mark.parametrize("name", forms("inputs", "inputs-thread"))
def test_two_inputs(opened, name):
    operator, expected = opened(name, "both", BOTH)

    found = of_each_key(operator, "python-state-")
    assert expected["last"] == {
        str(key): {"left": one["left"], "right": {str(at): text for at, text in one["right"].items()}}
        for key, one in found.items()
    }


OLD = [
    *(ValueStateDescriptor(name, LONG) for name in ("count", "n")),
    ValueStateDescriptor("account", Types.PICKLED_BYTE_ARRAY()),
    ValueStateDescriptor("name", STRING),
    ValueStateDescriptor("kept", STRING, time_to_live=True),
    ValueStateDescriptor("row", Types.ROW_NAMED(["id", "name", "score"], [Types.INT(), STRING, Types.DOUBLE()])),
    ValueStateDescriptor("tuple", Types.TUPLE([LONG, STRING])),
    ReducingStateDescriptor("sum", None, LONG),
    AggregatingStateDescriptor("avg", None, NUMBERS),
    ListStateDescriptor("events", STRING),
    ListStateDescriptor("picked", Types.PICKLED_BYTE_ARRAY()),
    MapStateDescriptor("counts_map", STRING, LONG),
]
MERGING = [*LISTED, MapStateDescriptor("merging-window-set", NUMBERS, NUMBERS)]
"""A window that merges is two numbers, the times of its begin and end."""
SLIDING = [*COUNTED, ValueStateDescriptor("slide-count-assigner", LONG)]
KEPT_BY_REDUCE = [ReducingStateDescriptor("_reduce_state", None, NUMBERS)]
OPERATORS = {
    ("hashmap", "rocksdb"): {"account-state": (OLD, {})},
    ("values-process", "values-thread"): {"keeps": (KEPT, {})},
    ("types",): {"types": (ALL, {})},
    ("types-thread",): {"types": (ALL_IN_THREADS, {})},
    ("windows", "windows-thread"): {"lists": (LISTED, {}), "reduced": (REDUCED, {})},
    ("sessions",): {"sessions": (MERGING, {})},
    ("counts",): {"tumbling": (TUMBLING, {}), "sliding": (SLIDING, {})},
    ("broadcast",): {"rules": (SEEN, RULES)},
    ("inputs", "inputs-thread"): {"both": (BOTH, {})},
    ("reduces", "reduces-again", "reduces-thread"): {"reduces": (KEPT_BY_REDUCE, {})},
}


def test_no_savepoint_is_left_out():
    assert {one.name for one in KEPT_IN.iterdir() if one.is_dir()} == {
        name for programs in OPERATORS for name in forms(*programs)
    }


def rewritten(decoder, user_key, value):
    """Give the bytes of an entry, read as values by the types of the job, and written again."""
    read = decoder.read_value(user_key, value)
    if decoder.kind.has_user_keys:
        name, inner = read
        return encode(decoder.value.key, name), b"\0" + encode(decoder.value.value, inner)
    if decoder.kind is StateKind.LIST:
        return user_key, SEPARATOR.join(encode(decoder.value.element, one) for one in read)
    return user_key, encode(decoder.value, read)


@pytest.mark.parametrize(
    ("name", "uid", "states", "others"),
    [
        pytest.param(name, uid, *states, id=f"{name}-{uid}")
        for programs, operators in OPERATORS.items()
        for name in forms(*programs)
        for uid, states in operators.items()
    ],
)
def test_the_values_of_each_entry_are_written_as_the_bytes_that_pyflink_wrote(opened, name, uid, states, others):
    operator, expected = opened(name, uid, states, **others)
    described = "bytes of" if expected["mode"] == "process" else ""
    seen = set()

    def again(decoder, user_key, value):
        assert (user_key, value) == rewritten(decoder, user_key, value)

    for state in operator.states:
        if state.kind is StateKind.TIMERS:
            continue
        name = state.name.removeprefix("python-state-")
        seen.add("_reduce_state" if name.startswith("_reduce_state") else name)  # without what each start adds
        assert described in state.description.value.describe()
        if state.kind is StateKind.BROADCAST:
            key, value = (
                part.snapshot.restore_serializer() for part in (state.description.key, state.description.value)
            )
            for (stored,), (entries,) in zip(state._raw_elements(), state.read_elements(), strict=True):
                parts = (
                    encode(of, part) for item in entries.items() for of, part in zip((key, value), item, strict=True)
                )
                assert stored == b"".join((len(entries).to_bytes(4, "big"), *parts))
            continue
        for address, decoder, _ in state.read_by(lambda reader, decoders: each_entry(reader, decoders, again)):
            places = zip((decoder.key, decoder.namespace), address[2:], strict=True)
            assert [*address[2:]] == [encode(of, decode(of, data)) for of, data in places]
    assert seen == {one.name for one in (*states, *others.get("broadcast_states", ()))}


@pytest.mark.parametrize("name", ["windows", "windows-thread"])
def test_a_job_of_windows_goes_on_with_its_state(root, name):
    place = root / "tests/fixtures/pyflink-2.3" / name
    mode = json.loads((place / "expected.json").read_text("utf-8"))["mode"]
    contents = ListStateDescriptor("window-contents", NUMBERS, namespace=TimeWindow)
    job = Job(
        [Operator.pyflink("lists", [contents], key=LONG, execution_mode=mode)],
        former=Job([Operator.pyflink("lists", [contents], key=LONG, execution_mode=mode)]),
    )
    report = check(Savepoint.open(place / "savepoint").describe(), job.describe())

    assert Decision.START is report.decision


@pytest.mark.parametrize("key", [STRING, bytes])
def test_a_job_with_other_keys_did_not_write_it(root, key):
    savepoint = Savepoint.open(root / "tests/fixtures/pyflink-2.3/values-process/savepoint")
    job = Job([Operator.pyflink("keeps", [ValueStateDescriptor("count", LONG)], key=key)])

    with pytest.raises(DeclarationError, match=r"is not the job that wrote the state: it declares row<.*> as the key"):
        savepoint.told_by(job)


def of_rows(names, types, former=None):
    row = ValueStateDescriptor("last", Types.ROW_NAMED(names, types))
    return Job([Operator.pyflink("keeps", [row], key=LONG)], former=former)


BEFORE = of_rows(["at", "text"], [LONG, STRING])


def test_columns_of_rows_have_the_names_that_the_job_gives_them(root):
    savepoint = Savepoint.open(root / "tests/fixtures/pyflink-2.3/values-process/savepoint").told_by(BEFORE)
    operator = savepoint.operator("keeps")
    (entry, *_) = operator.state("python-state-last").read_entries()

    assert ["at", "text"] == [
        field.name for field in StateTable.of(operator, "python-state-last").schema.field("value").type
    ]
    assert f"n{entry.value['at']}" == entry.value["text"]


@pytest.mark.parametrize(
    ("names", "types", "rules", "decision"),
    [
        (["at", "text"], [LONG, STRING], [], Decision.START),
        (["since", "text"], [LONG, STRING], ["ROW-7"], Decision.START),
        (["text", "at"], [STRING, LONG], ["ROW-2"], Decision.MIGRATE),
        (["text"], [STRING], ["ROW-4"], Decision.MIGRATE),
        (["text", "at", "more"], [STRING, LONG, LONG], ["ROW-3"], Decision.REFUSE),
    ],
)
def test_columns_pair_by_the_names_that_the_former_job_gives_them(root, tmp_path, names, types, rules, decision):
    place = root / "tests/fixtures/pyflink-2.3/values-process/savepoint"
    job, savepoint = of_rows(names, types, BEFORE), Savepoint.open(place).told_by(BEFORE)
    report = check(savepoint.describe(), job.describe())
    (state,) = (one for operator in report.operators for one in operator.states if one.name == "python-state-last")

    assert (rules, decision) == ([finding.rule for finding in state.result.findings], report.decision)
    if decision is Decision.MIGRATE:
        migrate_in_process(Savepoint.open(place), tmp_path / "after", job)
        after = Savepoint.open(tmp_path / "after").told_by(job).operator("keeps").state("python-state-last")
        before = savepoint.operator("keeps").state("python-state-last")
        assert [{name: entry.value[name] for name in names} for entry in before.read_entries()] == [
            dict(zip(names, entry.value, strict=True)) for entry in after.read_entries()
        ]


@pytest.mark.parametrize("name", ["values-thread"])
def test_pickled_rows_keep_their_names(opened, name):
    operator, _ = opened(name, "keeps", KEPT)

    assert all(("at", "text") == entry.value._names for entry in operator.state("last").read_entries())
