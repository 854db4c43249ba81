"""User code that a plan calls: found wherever it is, and distinguished although no snapshot and no name shows it."""

from __future__ import annotations

import functools
import importlib
import sys
import textwrap

import pytest

from stateshift import check, row_of, serializer_for
from stateshift.compat.description import Converter, SerializerDescription, StateKind
from stateshift.compat.fingerprint import UNKNOWN
from stateshift.compat.planner import plan
from stateshift.serializers.primitives.numeric import LongSerializer

HEADER = """
    from typing import Annotated
    import attrs
    import dataclasses
    from stateshift import Field, record
    from stateshift.serializers.primitives.text import StringSerializer

    def tidy(x): return x
"""
OLD = """
    @attrs.frozen
    class Account:
        a: int
        b: int | None = None
"""
NEW = """
    @attrs.frozen
    class Account:
        a: int
        b: Annotated[int, Field(on_none=5)]
        c: int = 7
        d: list[int] = attrs.field(factory=lambda: [1])

        def __attrs_post_init__(self): self.check()
        def check(self): assert self.a
        def total(self): return self.a
        @property
        def twice(self): return 2 * self.a
"""


@pytest.fixture
def loaded(tmp_path, monkeypatch):
    """`loaded("class Account…")`: a module of that text; always under one name."""
    numbers = iter(range(100))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)

    def load(text):
        folder = tmp_path / str(next(numbers))
        folder.mkdir()
        (folder / "called.py").write_text(textwrap.dedent(HEADER) + textwrap.dedent(text), encoding="utf-8")
        with monkeypatch.context() as patch:
            patch.syspath_prepend(folder)
            try:
                return importlib.import_module("called")
            finally:
                sys.modules.pop("called", None)

    return load


@pytest.fixture
def code(make):
    """The code that is called for one state of a job."""

    def take(old, new):
        jobs = [make.job(make.state("s", StateKind.VALUE, side), origin="j") for side in (old, new)]
        [operator] = plan(check(*jobs)).operators
        return dict(operator.states[0].code)

    return take


CHANGES = [
    ("on_none=5", "on_none=6", ["defaults"]),
    ("c: int = 7", "c: int = 8", ["defaults", "called.Account"]),
    ("lambda: [1]", "lambda: [2]", ["called.Account", "called.Account.<lambda>"]),
    ("self.check()", "self.check(), 1", ["called.Account"]),
    ("assert self.a", "assert self.b", ["called.Account"]),
    ("return 2 * self.a", "return 3 * self.a", ["called.Account"]),
]


@pytest.mark.parametrize(("before", "after", "names"), CHANGES)
def test_a_changed_default_factory_or_constructor_is_another(loaded, code, before, after, names):
    assert before in NEW
    old, new, changed = (serializer_for(loaded(text).Account) for text in (OLD, NEW, NEW.replace(before, after)))

    one, other = code(old, new), code(old, changed)

    assert set(names) <= {name for name in one if one[name] != other[name]}
    assert one.keys() == other.keys()


SWAPPED = [
    (
        """
    class Scores:
        first: int | None
        second: int | None
        """,
        """
    class Scores:
        first: Annotated[int, Field(on_none={})]
        second: Annotated[int, Field(on_none={})]
        """,
        lambda module: serializer_for(module.Scores),
    ),
    (
        """
    class Scores:
        id: int
        """,
        """
    class Scores:
        id: int
        first: int = {}
        second: int = {}
        """,
        lambda module: serializer_for(row_of(module.Scores, stored=("id",))),
    ),
]


@pytest.mark.parametrize(("before", "after", "serializer"), SWAPPED, ids=["nulls", "columns"])
def test_two_fields_that_swap_their_defaults_are_other_code(loaded, code, before, after, serializer):
    old = serializer(loaded(f"    @attrs.frozen{before}"))
    one, other = (serializer(loaded(f"    @attrs.frozen{after}".format(*both))) for both in ((1, 2), (2, 1)))

    assert code(old, one) == code(old, one)
    assert code(old, one) != code(old, other)


@pytest.mark.parametrize(
    ("before", "after"),
    [("return self.a\n", "return self.b\n"), ("class Account", "# words\n    class Account"), ("def tidy", "def tidy")],
)
def test_what_is_never_called_does_not_count(loaded, code, before, after):
    old = serializer_for(loaded(OLD).Account)

    one, other = (code(old, serializer_for(loaded(text).Account)) for text in (NEW, NEW.replace(before, after)))

    assert one == other
    assert not [value for value in one.values() if value.startswith(UNKNOWN)]


TIDY = """
    class Tidy(StringSerializer):
        pad = 1
        def serialize(self, value, target):
            super().serialize(str(value) + "x" * self.pad, target)
"""
CONVERT = """
    class Convert:
        by = 1
        def __call__(self, x): return x + self.by
        def method(self, x): return x - self.by

    def convert(x): return tidy(x) + 1
"""
READER = """
    class Reader:
        by = 1
        def deserialize(self, source): return source.read_int() + self.by
"""


def described(new=None, **more):
    return SerializerDescription.of(new or serializer_for(str), **more)


@pytest.mark.parametrize(
    ("text", "describe"),
    [
        (TIDY, lambda module: described(module.Tidy(), converter=Converter.of(str))),
        (CONVERT, lambda module: described(converter=Converter.of(module.convert))),
        (CONVERT, lambda module: described(converter=Converter.of(module.Convert()))),
        (CONVERT, lambda module: described(converter=Converter.of(module.Convert().method))),
        (CONVERT, lambda module: described(converter=Converter.of(functools.partial(module.convert)))),
        (READER, lambda module: described(fallback=module.Reader(), converter=Converter.of(str))),
    ],
    ids=["serializer", "function", "object", "method", "partial", "fallback"],
)
def test_code_of_the_users_is_found_wherever_it_is(loaded, code, make, text, describe):
    old = make.LayoutSnapshot(1, restorable=False) if text is READER else LongSerializer()
    bodies = (text, text + "\n    # words\n", text.replace("1", "2"))

    one, same, other = (code(old, describe(loaded(body))) for body in bodies)

    assert one
    assert one == same
    assert one.keys() == other.keys()
    assert one != other
