"""Levels against histories (harness cases, section I; compatibility rules, section 12)."""

from __future__ import annotations

import datetime as dt

import attrs
import pytest
from avro_schemas import enum, field, record
from hypothesis import given, settings
from hypothesis import strategies as st

from stateshift import AvroSerializer, Int32, Job, Operator, ValueStateDescriptor, Verdict, serializer_for
from stateshift import record as record_of
from stateshift.compat.gate.answers import KEY
from stateshift.compat.gate.levels import Direction, Level, Levels, Override, Revision, judge
from stateshift.compat.gate.recording import from_json, to_json
from stateshift.serializers.snapshot import snapshot_from_bytes, snapshot_to_bytes

TODAY = dt.date(2026, 3, 1)
BACKWARD, FORWARD = Direction.BACKWARD, Direction.FORWARD


def job(value, key=str, *, name="order"):
    return Job([Operator("shop", key=key, states=[ValueStateDescriptor(name, value)])]).describe()


def recorded(description):
    """As a revision is read back from its file."""
    return from_json(to_json(description))


def history_of(*values):
    return [Revision(f"{number:04}", recorded(job(value))) for number, value in enumerate(values, 1)]


def gate(history, value, level, **more):
    return judge(history_of(*history), job(value), Levels(Level(level)), today=TODAY, **more)


def failures(report):
    return [
        (state.state, failure.revision, failure.direction.value)
        for state in report.states
        for failure in state.failures
    ]


def order(**fields):
    """A class `Order` with fields by name; one with a default is a pair."""
    made = {}
    for name, declared in fields.items():
        hint, *default = declared if isinstance(declared, tuple) else (declared,)
        made[name] = attrs.field(type=hint, kw_only=True, **({"default": default[0]} if default else {}))
    return attrs.make_class("Order", made, frozen=True)


def avro(*fields):
    return AvroSerializer(record("Order", *fields))


ID = field("id", "long")
NOTE = field("note", "string")
NOTE_OR_EMPTY = field("note", "string", default="")


class TestBackward:
    def test_backward_basics(self):
        """I01: defaults, aliases, and unions that become wider or narrower."""
        assert gate([order(id=int)], order(id=int, note=(str, "")), "BACKWARD").passes
        assert not gate([order(id=int)], order(id=int, note=str), "BACKWARD").passes
        assert gate([avro(ID)], avro(ID, NOTE_OR_EMPTY), "BACKWARD").passes
        assert not gate([avro(ID)], avro(ID, NOTE), "BACKWARD").passes
        assert gate([avro(field("id", "long"))], avro(field("key", "long", aliases=["id"])), "BACKWARD").passes
        assert gate(
            [avro(field("id", ["int", "string"]))], avro(field("id", ["int", "string", "null"])), "BACKWARD"
        ).passes
        assert not gate([avro(field("id", ["int", "string"]))], avro(field("id", ["int"])), "BACKWARD").passes

    def test_backward_looks_only_at_latest(self):
        """I02: a default is removed after one version."""
        assert gate([order(id=int), order(id=int, note=(str, ""))], order(id=int, note=str), "BACKWARD").passes

    def test_backward_transitive(self):
        """I03: the same history; the oldest version is named."""
        report = gate([order(id=int), order(id=int, note=(str, ""))], order(id=int, note=str), "BACKWARD_TRANSITIVE")

        assert not report.passes
        assert [("order", "0001", "backward")] == failures(report)


class TestForward:
    def test_forward_basics(self):
        """I04: a field is added, or removed where it had a default."""
        assert gate([avro(ID)], avro(ID, NOTE), "FORWARD").passes
        assert gate([avro(ID, NOTE_OR_EMPTY)], avro(ID), "FORWARD").passes
        assert not gate([avro(ID, NOTE)], avro(ID), "FORWARD").passes

    def test_forward_transitive(self):
        """I05: a field is removed that some old version requires."""
        history = [avro(ID, NOTE), avro(ID, NOTE_OR_EMPTY)]

        assert gate(history, avro(ID), "FORWARD").passes
        assert [("order", "0001", "forward")] == failures(gate(history, avro(ID), "FORWARD_TRANSITIVE"))


def test_full_and_full_transitive():
    """I06: of the last revision both directions count, of earlier ones too where the level is transitive."""
    history = [avro(ID, NOTE), avro(ID, NOTE_OR_EMPTY)]

    assert gate(history, avro(ID), "FULL").passes
    assert [("order", "0001", "forward")] == failures(gate(history, avro(ID), "FULL_TRANSITIVE"))
    assert [("order", "0002", "backward")] == failures(gate(history, avro(ID, field("n", "int")), "FULL"))


def test_level_none_accepts():
    """I07: the report lists what a level would refuse."""
    report = gate([order(id=str)], order(id=int), "NONE")

    assert report.passes
    assert [("order", "0001", "backward"), ("order", "0001", "forward")] == failures(report)


def test_level_change_applies_to_next_check():
    """I08: what was accepted at a lower level is not judged again: only the candidate is."""
    history = [order(id=str), order(id=int)]

    assert gate(history, order(id=int), "BACKWARD").passes
    assert not gate(history, order(id=int), "BACKWARD_TRANSITIVE").passes


def test_level_precedence():
    """I09: a state's level goes before an operator's, and that before the project's; the report says which (CI-5)."""
    levels = Levels(Level.NONE, {"shop": Level.FULL}, {"shop/order": Level.FORWARD})

    assert (Level.FORWARD, "shop/order") == levels.of("shop", "order")
    assert (Level.FULL, "shop") == levels.of("shop", KEY)
    assert (Level.NONE, "project") == levels.of("bank", "order")
    report = judge(history_of(avro(ID)), job(avro(ID, NOTE)), levels, today=TODAY)
    assert [(KEY, "FULL", "shop"), ("order", "FORWARD", "shop/order")] == [
        (state.state, state.level, state.set_for) for state in report.states
    ]
    assert report.passes


def test_first_version():
    """I10: an empty history accepts anything (CI-1)."""
    report = gate([], order(id=int), "FULL_TRANSITIVE")

    assert report.passes
    assert not report.is_recorded
    assert [KEY, "order"] == [state.state for state in report.states]


@pytest.mark.parametrize("level", Level)
def test_same_again(level):
    """I11: a candidate that equals the last revision is accepted, and needs no new one (CI-4)."""
    report = gate([order(id=int)], order(id=int), level)

    assert report.passes
    assert report.is_recorded
    assert not gate([order(id=int)], order(id=int, note=(str, "")), level).is_recorded


def test_delete_then_readd_other_type():
    """I12: only a transitive level sees it, or a name that was retired (REC-16)."""
    history = [order(id=int, note=(str, "")), order(id=int)]
    again = order(id=int, note=(int, 0))

    assert gate(history, again, "BACKWARD").passes
    assert [("order", "0001", "backward")] == failures(gate(history, again, "BACKWARD_TRANSITIVE"))
    retired = record_of(retired=("note",))(again)
    assert [("order", "0002", "backward")] == failures(gate(history, retired, "BACKWARD"))


class TestOverrides:
    def override(self, **more):
        facts = {"state": "shop/order", "rule": "PRIM-4", "reason": "state is thrown away", "expires": TODAY} | more
        return Override(**facts)

    def ask(self, **more):
        return gate([order(id=str)], order(id=int), "BACKWARD", overrides=[self.override(**more)])

    def test_force_is_recorded(self):
        """I13: an override lets a failure pass until its last day, and stays in the report (CI-6)."""
        report = self.ask()

        assert report.passes
        assert [self.override()] == [override for state in report.states for override in state.overridden]
        assert [("order", "0001", "backward")] == failures(report)

    def test_an_override_that_has_expired_lets_nothing_pass_and_is_reported(self):
        expired = self.override(expires=TODAY - dt.timedelta(days=1))
        report = self.ask(expires=expired.expires)

        assert not report.passes
        assert [expired] == [override for state in report.states for override in state.expired]

    @pytest.mark.parametrize("more", [{"rule": "REC-3"}, {"state": "shop/other"}, {"state": "bank/order"}])
    def test_an_override_of_something_else_lets_nothing_pass(self, more):
        assert not self.ask(**more).passes


class TestKeysThatAreToChange:
    """What `migrate --repartition` will rewrite is accepted by one override of the role's rule."""

    def ask(self, *rules, value=int):
        overrides = [Override("shop/<key>", rule, "all is rekeyed", TODAY) for rule in rules]
        return judge(
            [Revision("0001", recorded(job(int, order(id=Int32))))],
            job(value, order(id=str)),
            Levels(),
            today=TODAY,
            overrides=overrides,
        )

    def test_an_override_of_the_role_covers_what_is_found_within_the_key(self):
        assert {"ROLE-2", "PRIM-4"} == {
            finding.rule for state in self.ask().states for one in state.failures for finding in one.findings
        }
        assert self.ask("ROLE-2").passes

    def test_an_override_of_the_rule_within_does_not_cover_the_role(self):
        assert not self.ask("PRIM-4").passes

    def test_states_under_such_a_key_are_judged_as_ever(self):
        report = self.ask("ROLE-2", value=str)

        assert {"<key>": True, "order": False} == {state.state: state.passes for state in report.states}
        assert [("<key>", "0001", "backward"), ("order", "0001", "backward")] == failures(report)


def test_strict_takes_a_migration_for_a_failure():
    history, wider = [order(id=Int32)], order(id=int)

    assert gate(history, wider, "BACKWARD").passes
    report = gate(history, wider, "BACKWARD", strict=True)
    assert not report.passes
    assert [("order", "0001", "backward")] == failures(report)  # and not the key, which stays
    assert [True] == [failure.strict for state in report.states for failure in state.failures]


def test_every_failing_version_is_listed_newest_first_with_all_findings():
    """CI-2."""
    report = gate([order(a=str, b=int), order(a=bool, b=int)], order(a=int, b=str), "BACKWARD_TRANSITIVE")

    assert [("order", "0002", "backward"), ("order", "0001", "backward")] == failures(report)
    found = next(state for state in report.states if state.state == "order").failures
    assert [["$.a", "$.b"]] * 2 == [[finding.path for finding in failure.findings] for failure in found]


def test_a_key_is_judged_in_its_role():
    report = judge(history_of(int), job(int, key=int), Levels(Level.BACKWARD), today=TODAY)

    assert [(KEY, "0001", "backward")] == failures(report)


def test_units_of_avro_are_not_judged_as_registries_do_not_know_them():
    """CI-3: AV-8 refuses milliseconds read as microseconds; a level does not."""
    millis, micros = ({"type": "long", "logicalType": f"timestamp-{unit}"} for unit in ("millis", "micros"))

    assert gate([avro(field("at", millis))], avro(field("at", micros)), "FULL").passes


# One prior, all prior: levels against their definition, on histories drawn at random.

FIELDS = st.fixed_dictionaries(
    {},
    optional={
        "a": st.sampled_from(["int", "long", "string", ["null", "long"]]),
        "b": st.sampled_from(["int", "double", enum("X", "Y", name="E")]),
    },
)


@st.composite
def avro_types(draw):
    made = [field("id", "long")]
    for name, kind in draw(FIELDS).items():
        default = {"default": None} if isinstance(kind, list) else {"default": 1} if kind in ("int", "long") else {}
        made.append(field(name, kind, **(default if draw(st.booleans()) else {})))
    return avro(*made)


@st.composite
def record_types(draw):
    hints = st.sampled_from([int, Int32, str, str | None])
    defaults = {int: 1, Int32: 1, str: "", str | None: None}
    names = draw(st.sets(st.sampled_from("abc")))
    chosen = {name: draw(hints) for name in sorted(names)}
    return order(id=int, **{n: (h, defaults[h]) if draw(st.booleans()) else h for n, h in chosen.items()})


def ok(new, old):
    """`ok(new, old)` of section 12."""
    new, old = serializer_for(new), serializer_for(old)
    return new.ensure_compatibility(snapshot_from_bytes(snapshot_to_bytes(old.snapshot_configuration()))).verdict


@pytest.mark.parametrize("types", [avro_types(), record_types()], ids=["avro", "record"])
def test_one_prior_all_prior(types):
    """I14: of one revision and of up to four."""

    @given(history=st.lists(types, min_size=1, max_size=4), candidate=types)
    @settings(max_examples=40)
    def holds(history, candidate):
        refused = {
            BACKWARD: [ok(candidate, old) is Verdict.INCOMPATIBLE for old in history],
            FORWARD: [ok(old, candidate) is Verdict.INCOMPATIBLE for old in history],
        }
        for level in Level:
            prior = slice(None) if level.is_transitive else slice(-1, None)
            expected = not any(any(refused[direction][prior]) for direction in level.directions)
            assert expected == gate(history, candidate, level).passes, level

    holds()
