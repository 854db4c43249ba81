"""Fingerprints of code: equal if and only if no call could distinguish two functions."""

from __future__ import annotations

import functools
import importlib
import os
import subprocess
import sys
import textwrap

import pytest

from stateshift.compat.fingerprint import UNKNOWN, fingerprint

PRINTED = """
import sys
sys.path.insert(0, sys.argv[1])
from stateshift.compat.fingerprint import fingerprint
import job
print(*[fingerprint(getattr(job, name)) for name in sys.argv[2:]], sep="\\n")
"""


def written(folder, modules):
    for module, text in modules.items():
        file = folder / f"{module.replace('__', '/')}.py"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(textwrap.dedent(text), encoding="utf-8")
    return folder


@pytest.fixture
def fingerprint_of(tmp_path, monkeypatch):
    """`fingerprint_of(job="def f…", helpers="…")`: that of `job.f`, in a folder of its own."""
    numbers, known = iter(range(100)), set(sys.modules)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)

    def take(name="f", **modules):
        with monkeypatch.context() as patch:
            patch.syspath_prepend(written(tmp_path / str(next(numbers)), modules))
            try:
                return fingerprint(getattr(importlib.import_module("job"), name))
            finally:
                for module in set(sys.modules) & {"job", "helpers", "pack", "pack.inner", "pack.deep"} - known:
                    del sys.modules[module]

    return take


def differ(fingerprint_of, one, other, name="f"):
    return fingerprint_of(name, **one) != fingerprint_of(name, **other)


BASE = {
    "helpers": """
        import math
        LIMIT = {1: "a", 2: ("b", {"x", "y", "z", "w"})}
        def scaled(x): return math.floor(x) * 2
        def unused(x): return 1
        class Rate:
            by = 3
            def __init__(self, base): self.base = base
            def __call__(self, x): return x * self.base * self.by
    """,
    "job": """
        import abc, dataclasses, enum, functools, re
        from typing import Generic, NamedTuple, TypeVar
        import attrs
        import helpers
        from helpers import Rate, scaled
        T = TypeVar("T")
        WORDS = frozenset({"one", "two", "three"})
        PATTERN = re.compile("a+")
        def f(x):
            '''What it does.'''
            # nothing else
            return scaled(x), helpers.LIMIT, WORDS, PATTERN
        def even(n): return n == 0 or odd(n - 1)
        def odd(n): return n != 0 and even(n - 1)
        def made(by):
            def inside(x): return x * by
            return inside
        closed = made(2)
        part = functools.partial(scaled, 1)
        obj = Rate(4)
        method = Rate(4).__call__
        lam = lambda x: [helpers.scaled(y) for y in x]
        def local(x):
            from helpers import scaled as s
            return s(x)
        @functools.cache
        def cached(x, *, more=1): return x + more
        def wrapping(g):
            @functools.wraps(g)
            def inner(*a): return g(*a)
            return inner
        @wrapping
        def wrapped(x): return x + 1
        @attrs.frozen
        class Frozen:
            a: int = 0
            b: dict = attrs.field(factory=dict)
        @dataclasses.dataclass(frozen=True)
        class Data:
            a: int = 0
            b: set = dataclasses.field(default_factory=set)
        class Color(enum.Flag):
            RED, BLUE = 1, 2
        class Named(NamedTuple):
            a: int
            b: str | None = "b"
        class Abstract(abc.ABC, Generic[T]):
            @abc.abstractmethod
            def a(self, other: T) -> T: ...
            @functools.cached_property
            def b(self): return WORDS
    """,
}


def changed(module, before, after):
    assert before in BASE[module]
    return {**BASE, module: BASE[module].replace(before, after)}


EACH = ("f", "even", "closed", "part", "obj", "method", "lam", "local", "cached", "wrapped", "Rate",
        "Frozen", "Data", "Color", "Named", "Abstract")  # fmt: skip


def test_another_process_with_another_hash_seed_gives_the_same(tmp_path):
    folder = written(tmp_path, BASE)

    def printed(seed):
        environment = {**os.environ, "PYTHONHASHSEED": seed}
        command = [sys.executable, "-c", PRINTED, str(folder), *EACH]
        return subprocess.run(command, capture_output=True, text=True, check=True, env=environment).stdout.split("\n")

    first = printed("1")

    assert first == printed("2")
    assert len(EACH) == len(set(first) - {""})
    assert all(one.startswith("py3.") for one in first if one)


@pytest.mark.parametrize(
    ("name", "module", "before", "after"),
    [
        ("f", "job", "return scaled(x)", "return scaled(x) + 1"),
        ("f", "helpers", "math.floor(x) * 2", "math.floor(x) * 3"),
        ("f", "helpers", "math.floor(x)", "math.ceil(x)"),
        ("f", "helpers", '("b", {', '("c", {'),
        ("f", "helpers", '"w"}', '"v"}'),
        ("f", "job", '"three"', '"four"'),
        ("f", "job", 're.compile("a+")', 're.compile("a*")'),
        ("even", "job", "n != 0", "n != 1"),
        ("closed", "job", "made(2)", "made(3)"),
        ("part", "job", "partial(scaled, 1)", "partial(scaled, 2)"),
        ("part", "helpers", "math.floor(x) * 2", "math.floor(x) * 3"),
        ("obj", "job", "obj = Rate(4)", "obj = Rate(5)"),
        ("obj", "helpers", "by = 3", "by = 4"),
        ("method", "helpers", "x * self.base", "x + self.base"),
        ("method", "job", "method = Rate(4)", "method = Rate(5)"),
        ("lam", "helpers", "math.floor(x) * 2", "math.floor(x) * 3"),
        ("lam", "job", "for y in x", "for y in x if y"),
        ("local", "helpers", "math.floor(x) * 2", "math.floor(x) * 3"),
        ("cached", "job", "more=1", "more=2"),
        ("cached", "job", "x + more", "x - more"),
        ("wrapped", "job", "return x + 1", "return x + 2"),
        ("wrapped", "job", "return g(*a)", "return g(*a), a"),
    ],
)
def test_what_a_call_would_notice_is_noticed(fingerprint_of, name, module, before, after):
    assert differ(fingerprint_of, BASE, changed(module, before, after), name)


@pytest.mark.parametrize(
    ("name", "module", "before", "after"),
    [
        ("f", "job", "# nothing else", "# something else,\n            # over several lines"),
        (
            "f",
            "job",
            "import abc, dataclasses, enum, functools, re",
            "\n\n\nimport re\nimport enum, functools, abc, dataclasses".replace("\n", "\n        "),
        ),
        ("f", "job", "'''What it does.'''", "'''Told in other words.'''"),
        ("f", "helpers", "return 1", "return 2"),
        ("f", "helpers", "by = 3", "by = 4"),
        ("f", "job", "made(2)", "made(3)"),
        ("lam", "helpers", "return 1", "return 2"),
        ("local", "helpers", "return 1", "return 2"),
        ("Rate", "helpers", "by = 3\n", "by = 3  # by default\n\n"),
    ],
)
def test_what_no_call_would_notice_is_not(fingerprint_of, name, module, before, after):
    assert not differ(fingerprint_of, BASE, changed(module, before, after), name)


def test_a_module_of_a_package_that_a_function_imports_when_it_runs_counts(fingerprint_of):
    job = "def f(x):\n    import pack.inner\n    return pack.inner.g(x)\n"
    files = {"job": job, "pack____init__": "", "pack__inner": "from . import deep\ndef g(x): return deep.h(x)\n"}
    mended = {**files, "pack__deep": "def h(x): return x + 1\n"}

    assert differ(fingerprint_of, {**files, "pack__deep": "def h(x): return x\n"}, mended)


def test_what_is_looked_up_by_name_in_a_module_counts_whatever_the_name(fingerprint_of):
    job = {"job": "import helpers\ndef f(x):\n    return getattr(helpers, 'on_' + x)(x)\n"}

    assert differ(
        fingerprint_of, {**job, "helpers": "def on_a(x): return 1\n"}, {**job, "helpers": "def on_a(x): return 2\n"}
    )


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("view = memoryview(b'a')\ndef f(x): return view", "memoryview"),
        ("rest = (i for i in 'ab')\ndef f(x): return next(rest)", "generator"),
        ("import importlib\ndef f(x): return importlib.import_module(x)", "imports modules by names"),
    ],
)
def test_what_has_no_stable_form_is_never_the_same_and_says_what_it_is(fingerprint_of, text, what):
    one, other = fingerprint_of(job=text), fingerprint_of(job=text)

    assert one != other
    assert one.startswith(UNKNOWN)
    assert what in one


def test_locks_loggers_and_caches_have_a_form(fingerprint_of):
    text = (
        "import functools, logging, threading, decimal, datetime\n"
        "lock, log = threading.RLock(), logging.getLogger('x')\n"
        "context = decimal.Context(prec=5)\nzone = datetime.timezone.utc\n"
        "def f(x):\n    with lock: log.info(x, context, zone)\n"
    )

    assert not fingerprint_of(job=text).startswith(UNKNOWN)
    assert not differ(fingerprint_of, {"job": text}, {"job": text})


RECORD = """
import attrs, dataclasses, enum
class Colour(enum.Enum):
    RED = 1
    BLUE = 2
@attrs.frozen
class A:
    x: int = 3
    y: list = attrs.field(factory=list)
    z: Colour = Colour.RED
    def total(self): return self.x
@dataclasses.dataclass
class D:
    x: int = 3
    y: list = dataclasses.field(default_factory=list)
def f(v): return A(v), D(v)
"""


@pytest.mark.parametrize(
    "change", [("x: int = 3", "x: int = 4"), ("factory=list", "factory=tuple"), ("BLUE = 2", "BLUE = 3")]
)
def test_classes_that_a_function_builds_count_with_their_defaults(fingerprint_of, change):
    assert differ(fingerprint_of, {"job": RECORD}, {"job": RECORD.replace(*change)})
    assert not differ(fingerprint_of, {"job": RECORD}, {"job": RECORD + "\n# more\n"})


def test_values_know_their_types_and_need_no_version_of_python():
    values = [
        1,
        True,
        1.0,
        "1",
        b"1",
        (1,),
        [1],
        {1},
        None,
        0.0,
        -0.0,
        1 << 70,
        "\ud800",
        {"a": 1},
        [[1]],
        frozenset({1}),
    ]
    found = [fingerprint(value) for value in values]

    assert len(values) == len(set(found))
    assert not [one for one in found if one.startswith("py")]
    assert fingerprint([[1, 2], [1, 2]]) == fingerprint([shared := [1, 2], shared])
    assert fingerprint(10**6000) != fingerprint(10**6000 + 1)


def test_functions_of_libraries_count_by_name_and_version():
    import xxhash

    assert fingerprint(len) != fingerprint(sorted)
    assert fingerprint(xxhash.xxh64) != fingerprint(xxhash.xxh32)
    assert fingerprint("a".join) != fingerprint("b".join)
    assert fingerprint(functools.partial(int, base=2)) != fingerprint(functools.partial(int, base=8))


def test_what_contains_itself_ends():
    circle = [1]
    circle.append(circle)
    other = [2]
    other.append(other)

    assert fingerprint(circle) != fingerprint(other)


def test_nested_data_needs_no_recursion():
    deep = innermost = []
    for _ in range(300):
        innermost.append([])
        innermost = innermost[0]
    innermost.append(1)
    before = fingerprint(deep)
    innermost[0] = 2

    assert before != fingerprint(deep)
