"""Classes that values are objects of: subclasses of records, and classes of Avro schemas, which change again and again.

The random machine comes to them among all else; here is nothing else.
"""

from __future__ import annotations

import tempfile
from contextlib import nullcontext
from pathlib import Path

import attrs
import pytest
from evolution import profiles, runs
from evolution.avro_shapes import avro_changed, avro_object, avro_schemas, schema_of
from evolution.beginnings import contents_of
from evolution.declared import Declared
from evolution.shapes import NOTHING, Leaf, ListOf, MapOf, RecordOf
from evolution.shipped import values_of
from evolution.steps import fields_of, leaves, subclass_stepped
from evolution.subclass_steps import with_subclasses
from evolution.takeover import Outcome, Takeover
from evolution.values import fields_of_object
from hypothesis import event, given, settings
from hypothesis import strategies as st

from stateshift import AvroSerializer, DataOutputView, ValueNotConvertible, serializer_for

half = settings(profiles.shorter, max_examples=profiles.shorter.max_examples // 2)


@st.composite
def bases(draw):
    java, form = draw(st.sampled_from(["", "com.acme.Thing"])), draw(st.sampled_from(["attrs", "dataclass"]))
    return draw(with_subclasses(RecordOf("shop.Order", draw(fields_of(leaves)), java, form=form)))


def placed(kind, shape):
    """A type as that of a kind of state."""
    if kind in {"map", "broadcast"}:
        return MapOf(Leaf("string"), shape)
    return shape if kind in {"value", "reducing"} else ListOf(shape)


def lives_on(kind, shape, change, data):
    """Change a type again and again; what is stored goes along wherever the verdict lets it."""
    with tempfile.TemporaryDirectory() as place:
        contents = data.draw(contents_of(kind, placed(kind, shape)))
        state = runs.write(Path(place) / "v0", kind, Declared.of(placed(kind, shape)), contents)
        code = shape
        for version in range(1, data.draw(st.integers(2, 4))):
            changed = change(code)
            takeover = Takeover.of(state, placed(kind, changed))
            after = takeover.run(Path(place) / f"v{version}")
            if takeover.answer is not None:
                for rule in {rule for _, rule in takeover.answer.findings}:
                    event(f"{rule} {takeover.outcome.value}")
            if takeover.outcome not in {Outcome.START, Outcome.MIGRATE}:
                continue
            code, state = changed, after
            if takeover.outcome is Outcome.START and data.draw(st.booleans()):
                more = data.draw(contents_of(kind, takeover.new))
                state = Takeover.of(takeover.state, takeover.new).start(Path(place) / f"v{version}-started", more)


@pytest.mark.slow
@half
@given(st.sampled_from(runs.KINDS), bases(), st.data())
def test_subclasses_live_on_whatever_becomes_of_them_rec_14(kind, base, data):
    lives_on(kind, base, lambda code: data.draw(subclass_stepped(code)), data)


@half
@given(st.sampled_from(runs.KINDS), avro_schemas(), st.data())
def test_classes_of_schemas_live_on_av_12(kind, shape, data):
    lives_on(kind, shape, lambda code: avro_changed(data.draw, code), data)


@half
@given(avro_schemas().filter(lambda shape: shape.bound != "dict"), st.data())
def test_what_a_schema_does_not_hold_whole_is_refused_at_write_rec_14(shape, data):
    """An object of a subclass has more than the schema shows; and so has one with a field that the schema lacks."""
    declared = Declared.of(shape)
    serializer, cls = serializer_for(declared.hint), declared.classes[id(shape), "class"]
    value = declared.value(data.draw(values_of(shape)))
    serializer.serialize(value, DataOutputView())

    of_subclass = type("Special", (cls,), {})(**fields_of_object(value))
    with pytest.raises(ValueNotConvertible):
        serializer.serialize(of_subclass, DataOutputView())

    fewer = [field for field in shape.fields if field.default is NOTHING]
    lacking = [field for field in shape.fields if field.default is not NOTHING]
    if fewer and lacking:
        beside = AvroSerializer(schema_of(attrs.evolve(shape, fields=tuple(fewer))), cls)
        differs = any(getattr(value, field.name) != avro_object(field.default) for field in lacking)
        event(f"fields beside the schema: {differs}")
        with pytest.raises(ValueNotConvertible) if differs else nullcontext():
            beside.serialize(value, DataOutputView())
