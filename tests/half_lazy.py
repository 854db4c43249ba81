"""A state that is half migrated lazily: three classes, each of which renames or adds what the next one takes over."""

from __future__ import annotations

from typing import Annotated

import attrs
from live_backends import BACKENDS

from stateshift import (
    Field,
    Job,
    KeyedProcessFunction,
    ListStateDescriptor,
    MapStateDescriptor,
    Operator,
    StateTransform,
    ValueStateDescriptor,
    record,
)
from stateshift.state.testing import KeyedProcessHarness


@attrs.frozen
class First:
    total: int = 0


@record(aliases=[f"{__name__}.First", f"{__name__}.Third"])
@attrs.frozen
class Second:
    amount: Annotated[int, Field(aliases=["total", "sum"])] = 0
    city: str = "of the second"


@record(aliases=[f"{__name__}.Second"])
@attrs.frozen
class Third:
    sum: Annotated[int, Field(aliases=["amount"])] = -1
    city: str = "of the third"
    more: str = "of the third"


@record(aliases=[f"{__name__}.Second"])
@attrs.frozen
class Back:
    """The first class, once more, by another name."""

    total: Annotated[int, Field(aliases=["amount"])] = 0


@record(aliases=[f"{__name__}.Second"])
@attrs.frozen
class Renamed:
    """The second class by other names: what has its bytes is read as it is."""

    sum: Annotated[int, Field(aliases=["amount"])] = -1
    town: Annotated[str, Field(aliases=["city"])] = "of another"


def job(of, *, state="v", key=str, uid="f", **options):
    states = [ValueStateDescriptor(state, of), MapStateDescriptor("by name", str, of)]
    return Job([Operator(uid, key=key, states=states, **options)])


first, second, third, back = map(job, (First, Second, Third, Back))
other_default = job(
    record(aliases=[f"{__name__}.First"])(
        attrs.make_class(
            "Second",
            {
                "amount": attrs.field(default=0, type=Annotated[int, Field(aliases=["total", "sum"])]),
                "city": attrs.field(default="another", type=str),
            },
            frozen=True,
            class_body={"__module__": __name__},
        )
    )
)
renamed = job(Second, state="w")
other_uid = job(Second, uid="g")
merging = job(Second, key=int, key_converter=lambda key: 0 if key == "new" else int(key[1:]) // 7)
as_list = StateTransform.from_map(lambda found: list(found.values()))
turned = Job([Operator("f", key=str, states=[ListStateDescriptor("by name", Second, transform=as_list)])])


def sum_of(one, other):
    return Second(one.amount + other.amount, one.city)


class Keeps(KeyedProcessFunction):
    """Keeps a value, and a map with two names, for each key; an element is (key, total or None to read)."""

    def __init__(self, of, state="v"):
        self.of, self.state = of, state

    def open(self, runtime_context):
        self.value = runtime_context.get_state(ValueStateDescriptor(self.state, self.of))
        self.map = runtime_context.get_map_state(MapStateDescriptor("by name", str, self.of))

    def process_element(self, value, ctx):
        if value[1] is None:
            yield self.value.value(), dict(self.map.items())
            return
        self.value.update(self.of(value[1]))
        self.map.put("x", self.of(value[1]))
        if not self.map.contains("y"):
            self.map.put("y", self.of(value[1]))


def by_key(value):
    return value[0]


def harness(of, backend="rocksdb", state="v"):
    return KeyedProcessHarness(Keeps(of, state), by_key, str, uid="f", backend=BACKENDS[backend])


def half_lazy(place, keys):
    """Write `first` and `half` into a folder, and return the last one: of the keys a tenth was touched as `Second`."""
    made = harness(First)
    made.process_elements(*((f"k{number}", number) for number in range(keys)))
    before = made.snapshot(place / "first", is_checkpoint=True)
    made.close()
    made = harness(Second)
    made.restore(before, lazy=True)
    made.process_elements(*((f"k{number}", number + 1) for number in range(0, keys, 10)))
    made.process_element(("new", -5))
    half = made.snapshot(place / "half", is_checkpoint=True)
    made.close()
    return half


def contents(made, keys):
    """What a harness has for each key, and whether there is more."""
    asked = [f"k{number}" for number in range(keys)] + ["new"]
    return dict(zip(asked, made.process_elements(*((key, None) for key in asked)), strict=True))


def expected(of, keys, city):
    """What each key has to have, touched or not: `of` with the default of the class that it went through."""

    def value(total):
        return of(total, city) if city else of(total)

    found = {"new": (value(-5), {"x": value(-5), "y": value(-5)})}
    for number in range(keys):
        last = number + (number % 10 == 0)
        found[f"k{number}"] = value(last), {"x": value(last), "y": value(number)}
    return found
