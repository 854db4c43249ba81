"""`job_source`: the file passes ruff and mypy, says start, and reads what the generic readers read."""

from __future__ import annotations

import enum
import importlib.util
import os
import subprocess
import sys
from decimal import Decimal
from pathlib import Path

import attrs
import pytest

from stateshift import (
    Array,
    BigInt,
    DataInputView,
    DataOutputView,
    Either,
    Float32,
    Int8,
    Int16,
    Int32,
    Job,
    ListStateDescriptor,
    MapStateDescriptor,
    Operator,
    Record,
    Row,
    Savepoint,
    SavepointWriter,
    Symbol,
    TimeWindow,
    TtlValue,
    ValueStateDescriptor,
    check,
    record,
    serializer_for,
)
from stateshift.compat.description import StateKind
from stateshift.serializers.containers.lists import ArrayListSerializer
from stateshift.serializers.containers.wrappers import OptionalSerializer
from stateshift.serializers.enums.serializers import JavaEnumSerializer
from stateshift.serializers.flink.namespaces import GlobalWindowSerializer
from stateshift.serializers.records.classes import RecordField
from stateshift.serializers.records.pojo import PojoSerializer
from stateshift.state.savepoint.job_source import job_source

ROOT = Path(__file__).parents[3]
FIXTURES = sorted((ROOT / "tests" / "fixtures").glob("*/*/savepoint"))


def pojo(name, subclasses=(), unregistered=(), base=None, **fields):
    """A class of a Java job that has no Python class here."""
    own = [RecordField(field, serializer_for(fields[field])) for field in fields]
    inherited = (
        [attrs.evolve(field, declared_by=field.declared_by or base.name) for field in base.fields] if base else []
    )
    return PojoSerializer(
        name,
        tuple(sorted([*own, *inherited], key=lambda field: field.name)),
        registered=tuple((subclass.name, subclass) for subclass in subclasses),
        unregistered=tuple((subclass.name, subclass) for subclass in unregistered),
    )


@attrs.frozen
class Inner:
    flag: bool
    note: str | None


@record(java_class="com.acme.Java")
@attrs.frozen
class Java:
    amounts: list[Decimal]
    by_day: dict[str, list[int] | None]


class Color(enum.Enum):
    RED = "r"
    GREEN = "g"


@attrs.frozen
class Own:
    color: Color
    inner: Inner
    javas: list[Java] | None
    picks: set[tuple[Int8, Float32]]
    size: BigInt | None = None


@record()
@attrs.frozen
class Wider(Own):
    extra: str | None = None


ROOT_CLASS = pojo("com.acme.Root", **{"the id": int})
PARENT = pojo("com.acme.Parent", a=int, base=ROOT_CLASS)
LEAF = pojo("com.acme.Leaf", c=str, base=pojo("com.acme.Middle", b=str, base=PARENT))
MIDDLE = pojo("com.acme.Middle", [LEAF], b=str, base=PARENT)
BASE = attrs.evolve(
    PARENT,
    registered=((LEAF.name, LEAF), (MIDDLE.name, MIDDLE)),
    unregistered=(("com.acme.Other", pojo("com.acme.Other", z=bytes, base=PARENT)),),
)
LONG = dict[str, list[tuple[int, str, dict[Int16, list[tuple[bool, bytes, Decimal, float, Float32, BigInt, str]]]]]]
ODD_NAMES = [
    *[
        "class",
        "from",
        "None",
        "self",
        "list",
        "str",
        "type",
        "record",
        "attrs",
        "Job",
        "Names",
        "_id",
        "id",
        "x",
        "$x",
    ],
    *["1st", "a b", "ﬁ", "Ärger", "__dunder__", "a" * 95, 'say "hi"', "it's", "new\nline", "back\\slash"],
]


def states_of_all_kinds():
    """Types that no fixture of Flink has."""
    return [
        ValueStateDescriptor("own", Own),
        ListStateDescriptor("owns", Own),
        ValueStateDescriptor("base", BASE),
        MapStateDescriptor("middles", Color, MIDDLE),
        ValueStateDescriptor("leaf", LEAF),
        ValueStateDescriptor("no subclass", pojo("com.acme.Top", [pojo("com.acme.Sub", a=str)], a=int)),
        ValueStateDescriptor("names", pojo("com.acme.Names", **dict.fromkeys(ODD_NAMES, str))),
        ValueStateDescriptor("other package", pojo("org.acme.Names", n=int, long=LONG)),
        ValueStateDescriptor("former version", pojo("com.acme.Names", n=int)),
        ValueStateDescriptor("reserved", pojo("com.acme.Job", n=float, empty=pojo("com.acme.empty"))),
        ValueStateDescriptor("bare list in a class", pojo("com.acme.Bags", bag=list[int], maybe=int | None, d=Decimal)),
        ValueStateDescriptor("symbols", JavaEnumSerializer(("None", "name", "A$B", "__x"), "com.acme.E$Symbols")),
        ValueStateDescriptor("padded", OptionalSerializer(serializer_for(int), padding=8)),
        ValueStateDescriptor("twice", OptionalSerializer(serializer_for(int | None))),
        ValueStateDescriptor("no member", JavaEnumSerializer(("A", "mro"), "com.acme.NoMember")),
        ValueStateDescriptor("array list", ArrayListSerializer(serializer_for(str))),
        ValueStateDescriptor("sets", set[tuple[str, frozenset[int]]]),
        ValueStateDescriptor("nothing", tuple[()]),
        ValueStateDescriptor("void", dict[str, None]),
        ValueStateDescriptor("no columns", Row[()]),
        ValueStateDescriptor("one column", Row[LONG]),
        ValueStateDescriptor("row", Row[int, Array[Int16], Either[str, Row[bool, None]], list[Java], PARENT]),
        ValueStateDescriptor("arrays", Array[Array[Array[float]]]),
        ValueStateDescriptor("optional arrays", Array[list[int] | None] | None),
        ValueStateDescriptor("either of classes", Either[Java, Array[BASE]]),
        MapStateDescriptor("keys to look up", Row[int, str], Either[int, Array[int | None]]),
        ValueStateDescriptor("row without kind", attrs.evolve(serializer_for(Row[int]), supports_row_kind=False)),
        ValueStateDescriptor("long", LONG),
        MapStateDescriptor("nullable", str, int | None, time_to_live=True),
        ValueStateDescriptor("nullable in a map", MAP),
        ValueStateDescriptor("windowed", int, namespace=TimeWindow),
        ValueStateDescriptor("global", int, namespace=GlobalWindowSerializer()),
        ListStateDescriptor("\"'\\\n# type: ignore \ud800\x00", str, namespace=str),
    ]


MAP = serializer_for(dict[str, int])
MAP = attrs.evolve(MAP, value=OptionalSerializer(MAP.value))


def job_of_all_kinds():
    return Job(
        [
            Operator("all-kinds", key=tuple[int, str], states=states_of_all_kinds()),
            Operator(
                'quotes " and \\ in a uid',
                list_states=[ListStateDescriptor("offsets", tuple[str, int])],
                union_list_states=[ListStateDescriptor("known", Java)],
                broadcast_states=[MapStateDescriptor("rules", str, Own)],
            ),
            Operator("all kinds", key=Color, states=[ValueStateDescriptor("count", Int32)], name="same variable"),
            Operator(operator_id="0123456789abcdef0123456789abcdef", key=int, states=[ValueStateDescriptor("a", int)]),
        ]
    )


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """All savepoints, and the module written for each."""
    folder = tmp_path_factory.mktemp("jobs")
    synthetic = tmp_path_factory.mktemp("synthetic") / "savepoint"
    with SavepointWriter(synthetic, job_of_all_kinds()):
        pass
    modules = {}
    for place in [*FIXTURES, synthetic]:
        name = "_".join(place.parts[-3:-1]).replace("-", "_").replace(".", "_")
        savepoint = Savepoint.open(place)
        file = folder / f"{name}.py"
        file.write_text(job_source(savepoint), encoding="utf-8", errors="strict")
        modules[name] = (savepoint, file)
    return modules


def imported(file):
    spec = importlib.util.spec_from_file_location(file.stem, file)
    module = importlib.util.module_from_spec(spec)
    sys.modules[file.stem] = module
    try:
        spec.loader.exec_module(module)
        return module.job
    finally:
        del sys.modules[file.stem]


def tool(*arguments, cwd, mypy_path=""):
    environment = os.environ | {"MYPYPATH": str(mypy_path), "NO_COLOR": "1"}
    ran = subprocess.run(
        [sys.executable, "-m", *map(str, arguments)],
        cwd=cwd, capture_output=True, text=True, env=environment, check=False,
    )  # fmt: skip
    return f"{ran.stdout}{ran.stderr}" if ran.returncode else ""


OURS = ["--config", ROOT / "pyproject.toml", "--config", "lint.isort.known-first-party=[]", "--ignore", "INP001"]


@pytest.mark.parametrize(
    "arguments",
    [
        ("ruff", "check", "--isolated"),
        ("ruff", "format", "--isolated", "--diff"),
        ("ruff", "check", *OURS, "--ignore", "E501,PLC2401,RUF001,RUF002"),
        ("ruff", "format", *OURS[:2], "--diff"),
    ],
    ids=["rules", "format", "our-rules", "our-format"],
)
def test_every_file_passes_ruff(written, arguments):
    folder = next(iter(written.values()))[1].parent

    assert tool(*arguments, "--no-cache", folder, cwd=folder) == ""


@pytest.mark.slow
def test_every_file_passes_mypy(written):
    folder = next(iter(written.values()))[1].parent
    kept = ROOT / ".cache"  # what mypy finds out of the package takes most of the time, and is kept for the next run
    if not (kept / "stateshift").is_symlink():  # mypy does not follow editable installs
        kept.mkdir(exist_ok=True)
        (kept / "stateshift").symlink_to("..")
    options = ["--strict", "--config-file", ROOT / "pyproject.toml", "--cache-dir", kept / "mypy"]

    assert tool("mypy", *options, *sorted(folder.glob("*.py")), cwd=folder, mypy_path=kept) == ""


def test_every_file_says_start_for_all_states(written):
    for name, (savepoint, file) in written.items():
        report = check(savepoint.describe(), imported(file).describe())

        assert "start" == report.decision, name
        declared = {(o.operator_id, s.kind, s.name) for o, s in report.states() if s.becomes is not None}
        readable = {
            (operator.operator_id, state.kind, state.name)
            for operator in savepoint.operators
            for state in operator.states
            if not (state.kind.is_keyed and "RowData" in operator.key.describe())  # a query of SQL declares its state
            if not state.unsupported and "kryo" not in state.description.describe()
        }
        left_out = {"twice", "no member", "no subclass", "row without kind"} if "synthetic" in name else set()
        assert left_out == {state for _, _, state in readable - declared}, name
        assert set() == declared - readable, name


def test_what_is_left_out_is_reported_with_its_reason(written):
    source = written[next(name for name in written if "synthetic" in name)][1].read_text()

    assert "# - row without kind: no type hint says rows without a kind, as Flink wrote them before\n" in source


def test_timer_services_are_declared_with_their_namespace(written):
    plain = written[next(name for name in written if "long_p1_m128" in name)][1].read_text()
    windows = written[next(name for name in written if "windows" in name)][1].read_text()

    assert "    timers=[TimerServiceDescriptor()],\n" in plain
    assert '    timers=[TimerServiceDescriptor("window-timers", namespace=TimeWindow)],\n' in windows


def test_nulls_that_were_met_are_declared(written):
    source = written[next(name for name in written if "string_p1_m128" in name)][1].read_text()

    assert "    age: Int32 | None = None\n" in source
    assert "    score: float\n" in source
    assert 'MapStateDescriptor("labels", str, str, nullable_values=True)' in source
    assert 'MapStateDescriptor("counts", str, int)' in source


def plain(value):
    """A value of either reader, without its class."""
    if isinstance(value, TtlValue):
        return {"at": value.last_access_ms, "value": plain(value.value)}
    if isinstance(value, Record):
        return {name: plain(item) for name, item in sorted(value._asdict().items())}
    if isinstance(value, Symbol | enum.Enum):
        return value.name
    if attrs.has(type(value)):
        return {name: plain(item) for name, item in sorted(attrs.asdict(value, recurse=False).items())}
    if isinstance(value, dict):
        return {plain_key(key): plain(item) for key, item in sorted(value.items(), key=repr)}
    if isinstance(value, set | frozenset):
        return sorted(map(plain, value), key=repr)
    return [plain(item) for item in value] if isinstance(value, list) else value


def plain_key(key):
    return key.name if isinstance(key, Symbol | enum.Enum) else key


@pytest.mark.slow
def test_the_types_of_the_files_read_what_the_generic_readers_read(written):
    compared = 0
    for savepoint, file in written.values():
        declared = {
            (operator.operator_id, state.kind, state.name): state.value.serializer
            for operator in imported(file).describe().operators
            for state in operator.states
        }
        for operator in savepoint.operators:
            for state in operator.states:
                serializer = declared.get((operator.operator_id, state.kind, state.name))
                if serializer is None or not state.kind.is_keyed or state.kind is StateKind.TIMERS:
                    continue
                result = serializer.ensure_compatibility(state.description.value.snapshot)
                if result.is_compatible_after_reconfiguration():
                    serializer = result.reconfigured_serializer
                generic = state.description.value.snapshot.restore_serializer()
                for entry in state.read_entries():
                    target = DataOutputView()
                    generic.serialize(entry.value, target)
                    typed = serializer.deserialize(DataInputView(target.getvalue()))
                    compared += 1

                    if file.name.startswith("pyflink"):  # the generic reader gives the bytes that PyFlink wrote
                        again = DataOutputView()
                        serializer.serialize(typed, again)
                        assert again.getvalue() == target.getvalue(), (file.name, state.name)
                    else:
                        assert repr(plain(entry.value)) == repr(plain(typed)), (file.name, state.name)  # NaN
    assert compared > 2000
