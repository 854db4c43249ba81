"""A report as text and as data: both are interfaces."""

from __future__ import annotations

import json
import subprocess
import sys

import attrs
import pytest

from stateshift import Decision, Target, check, serializer_for
from stateshift.compat import explain
from stateshift.compat.description import (
    Converter,
    JobDescription,
    OperatorDescription,
    SerializerDescription,
    StateKind,
    operator_id_of_uid,
)
from stateshift.compat.report_data import to_data
from stateshift.serializers.containers.lists import ListSerializer
from stateshift.serializers.primitives.numeric import (
    BooleanSerializer,
    DoubleSerializer,
    FloatSerializer,
    IntSerializer,
    LongSerializer,
)
from stateshift.serializers.records.classes import RecordField
from stateshift.serializers.records.pojo import PojoSerializer


def in_cents(value):
    return round(value * 100)


GOLDEN = """\
refuse: 2 of 7 states cannot be taken over by the new types; 2 stored states are not taken; 1 state starts empty
  from savepoint sp-1 to job accounts:job

operator accounts (0123456789abcdef0123456789abcdef): refuse
  also kept as is: raw keyed state
  key  long: start (compatible)
  active  value  boolean: refuse (incompatible)
    refuse   $  boolean -> long  no conversion keeps the meaning  [PRIM-4]
             ways out: keep the old type; or register a converter (converter=… of the state's descriptor), \
a function that says what the old value becomes
  balance  value  double: migrate (requires_migration; reader: snapshot; converter: CONVERTER)
    migrate  $  double -> long  a stored double may not fit a long  [PRIM-3]
             ways out: converter CONVERTER decides
  fresh  value  long: refuse (incompatible)
    refuse   $<state>  long  the job's state would start empty, although the stored state 'gone', \
which is like it, is not taken  [STATE-7]
             ways out: if it is that state: --rename-state gone=fresh; or if it is meant to start empty: \
--allow-empty accounts/fresh
  gone  value  long: only in the stored state: kept
  profile  value  Profile: migrate (requires_migration; reader: snapshot)
    migrate  $.old           long -> (gone)  the field is gone; its stored value is dropped  [REC-4] drops:$.old
             ways out: migrate the state: the value is dropped; or keep the field 'old'
    migrate  $.visits        int -> long     every int fits a long, in other bytes  [PRIM-2]
             ways out: migrate the state: values are widened; or keep the old type
    note     $.id, $.visits                  Flink does not say whether nulls are stored here; one would fail  \
[REC-17] may_fail_per_value
  ratios  list  list<int>: migrate (requires_migration; reader: snapshot)
    migrate  $[]  int -> float  a large int loses its lowest digits as float  [PRIM-2] lossy
             ways out: migrate the state: values are widened; or keep the old type

operator ffffffffffffffffffffffffffffffff: only in the stored state: kept
  not all of its state can be read: the snapshot class 'com.acme.Odd' is not known
  s  value  long: only in the stored state: kept
""".replace("CONVERTER", Converter.of(in_cents).name)


def profile(**fields):
    """A record with a Java class, whose snapshot does not show nulls."""
    given = {"id": LongSerializer(), **fields}
    return PojoSerializer("Profile", tuple(RecordField(name, given[name]) for name in sorted(given)))


@pytest.fixture
def report(make):
    value = StateKind.VALUE
    old = make.job(
        make.state("profile", value, profile(old=LongSerializer(), visits=IntSerializer())),
        make.state("ratios", StateKind.LIST, ListSerializer(IntSerializer())),
        make.state("balance", value, DoubleSerializer()),
        make.state("active", value, BooleanSerializer()),
        make.state("gone", value, LongSerializer()),
        origin="savepoint sp-1",
        key=LongSerializer(),
        keeps=("raw keyed state",),
    )
    unreadable = OperatorDescription(
        "f" * 32,
        states=(make.state("s", value, LongSerializer()),),
        unreadable="the snapshot class 'com.acme.Odd' is not known",
    )
    new = make.job(
        make.state("profile", value, profile(visits=LongSerializer())),
        make.state("ratios", StateKind.LIST, ListSerializer(FloatSerializer())),
        make.state("balance", value, SerializerDescription.of(LongSerializer(), converter=Converter.of(in_cents))),
        make.state("active", value, LongSerializer()),
        make.state("fresh", value, LongSerializer()),
        origin="job accounts:job",
        key=LongSerializer(),
    )
    return check(JobDescription(old.origin, (unreadable, *old.operators)), new)


def test_a_report_reads_as_it_always_did(report):
    assert GOLDEN == "\n".join(explain.text_lines(report)) + "\n"


def test_states_that_are_not_alike_are_not_taken_for_renamed(make):
    value = StateKind.VALUE
    stored = (make.state("a", value, LongSerializer()), make.state("b", value, LongSerializer()))
    for old, new in (
        (stored, make.state("other", value, LongSerializer())),
        (stored[:1], make.state("other", value, DoubleSerializer())),
        (stored[:1], make.state("other", StateKind.LIST, ListSerializer(LongSerializer()))),
    ):
        found = check(make.job(*old, key=LongSerializer()), make.job(new, key=LongSerializer()))
        assert Decision.START is found.decision


def test_a_mistyped_uid_is_asked_for(make):
    def operator(uid, *states):
        return OperatorDescription(
            operator_id_of_uid(uid).hex(), uid=uid, states=states, key=SerializerDescription.of(LongSerializer())
        )

    state, other = (make.state(name, StateKind.VALUE, LongSerializer()) for name in ("total", "other"))
    found = check(
        JobDescription("old", (operator("accounts", state), operator("same", other))),
        JobDescription("new", (operator("acounts", state), operator("same", other))),
    )

    assert Decision.REFUSE is found.decision
    assert any(
        "if it is that operator: --rename-uid accounts=acounts; or" in line for line in explain.text_lines(found)
    )


def test_flink_as_the_target_reports_what_it_never_could_restore(make):
    @attrs.frozen
    class Own:
        id: int

    state = make.state("total", StateKind.VALUE, serializer_for(Own))
    job = make.job(state, key=LongSerializer())

    lines = explain.text_lines(check(job, job, target=Target.FLINK))

    told = "  Flink can restore this operator neither now nor afterwards: give each record its java_class"
    assert told in lines
    assert told not in explain.text_lines(check(job, job))


def test_the_terminal_shows_the_same_words(report):
    """As lines and tables, which the command line folds to the width of the terminal."""
    shown = []
    for block in explain.blocks(report):
        if isinstance(block, explain.Words):
            shown.append(" " * block.indent + "".join(text for text, _ in block.pieces))
        else:
            shown += ["  ".join(map(str, attrs.astuple(row, recurse=False))) for row in block.rows]

    for words in (
        "refuse: 2 of 7 states",
        "no conversion keeps the meaning  [PRIM-4]",
        "only in the stored state: kept",
    ):
        assert any(words in line for line in shown)


def test_the_data_hold_everything_that_the_text_shows(report):
    data = json.loads(json.dumps(to_data(report)))
    accounts, other = data["operators"]
    states = {state["name"]: state for state in accounts["states"]}
    back = states["ratios"].pop("way_back")

    assert ("refuse", ["PRIM-3"]) == (back["decision"], [finding["rule"] for finding in back["findings"]])
    assert {"start": 2, "migrate": 3, "refuse": 2} == data["counts"]
    assert (["accounts/gone", f"{'f' * 32}/s"], ["accounts/fresh"]) == (data["not_taken"], data["starting_empty"])
    assert ("refuse", "incompatible", "auto") == (data["decision"], data["verdict"], data["target"])
    assert ("start", []) == (accounts["key"]["decision"], accounts["key"]["findings"])
    assert {"before": True, "after": True} == accounts["flink_restorable"]
    assert None is other["flink_restorable"]["before"]
    assert {
        "name": "ratios",
        "kind": "list",
        "status": "matched",
        "decision": "migrate",
        "verdict": "requires_migration",
        "old": "list<int>",
        "new": "list<float>",
        "reader": "snapshot",
        "converter": None,
        "transform": None,
        "note": None,
        "findings": [
            {
                "path": "$[]",
                "rule": "PRIM-2",
                "verdict": "requires_migration",
                "old": "int",
                "new": "float",
                "reason": "a large int loses its lowest digits as float",
                "ways_out": ["migrate the state: values are widened", "keep the old type"],
                "flags": ["lossy"],
                "forbidden": [],
            }
        ],
    } == states["ratios"]


@pytest.mark.parametrize(
    ("new", "headline"),
    [
        (IntSerializer(), "start: every state can be used as it is"),
        (LongSerializer(), "migrate: 1 of 1 state must be rewritten before the job can start"),
        (BooleanSerializer(), "refuse: 1 of 1 state cannot be taken over by the new types"),
    ],
)
def test_the_decision_comes_first(make, new, headline):
    old, new = make.state("s", StateKind.VALUE, IntSerializer()), make.state("s", StateKind.VALUE, new)

    assert headline == explain.text_lines(check(make.job(old), make.job(new)))[0]


def test_a_pipe_needs_neither_rich_nor_spark():
    code = (
        "import sys, stateshift.compat.explain, stateshift.compat.plan; print({'rich', 'pyspark'} & set(sys.modules))"
    )

    run = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)

    assert "set()" == run.stdout.strip()
