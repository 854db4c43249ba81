"""What every test may ask for."""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path

import attrs
import pytest
import spark_classes
from hypothesis import HealthCheck, settings

from stateshift.serializers.records.pojo import PojoField, PojoSerializerSnapshot
from stateshift.spark.testing import stateshift_spark  # noqa: F401 - also where the plugin is not installed anew
from stateshift.state.formats.flink.blocks import Block
from stateshift.state.formats.flink.handles import InlineHandle
from stateshift.state.formats.flink.keyed_stream import KeyedStreamReader, write_keyed_stream
from stateshift.state.formats.flink.metadata import read_metadata, write_metadata
from stateshift.state.formats.flink.sources import InlineBytes

# Machines of CI are slow and shared: how long a draw takes says nothing about the code. Each run draws other examples.
settings.register_profile(
    "stateshift",
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    max_examples=int(os.environ.get("STATESHIFT_EXAMPLES") or 50),
)
settings.load_profile("stateshift")

# Hundreds of processes are started, each of which would compile the package, and each run would compile the tests.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

# A pytest that a test starts elsewhere would work out tables of characters again, which hypothesis keeps.
os.environ.pop("GITHUB_STEP_SUMMARY", None)  # a check of a test is not what a workflow tells of itself
os.environ.setdefault("HYPOTHESIS_STORAGE_DIRECTORY", str(Path(__file__).parents[1] / ".hypothesis"))

for _name, _value in spark_classes.environment().items():
    os.environ.setdefault(_name, _value)

# Savepoints are flushed to the disk thousands of times. In memory that takes no time; a run needs about a gigabyte.
MEMORY = Path("/dev/shm")  # noqa: S108 - what is made there has names of its own
if "TMPDIR" not in os.environ and MEMORY.is_dir() and shutil.disk_usage(MEMORY).free > 6 << 30:
    os.environ["TMPDIR"] = tempfile.tempdir = str(MEMORY)  # pytest has already looked for it

# In the background of a script interrupts are ignored, here and by what is started here, unless it is said otherwise.
signal.signal(signal.SIGINT, signal.default_int_handler)

FIXTURES = Path(__file__).parent / "fixtures"
ROOT = Path(__file__).parents[1]


class _Folders:
    """One node for each folder.

    The root has an `__init__.py`, which pytest would import a second time, under the name of the checkout. And pytest
    makes the nodes of folders anew for a file beside them that is named on its command line: the fixtures of their
    conftest files would stay with the nodes before (`pytest tests/state/native tests/test_facade.py tests/state`).
    """

    def __init__(self):
        self._nodes = {}

    @pytest.hookimpl(tryfirst=True)
    def pytest_collect_directory(self, path, parent):
        if path == ROOT:
            self._nodes.setdefault(path, pytest.Dir.from_parent(parent, path=path))
        return self._nodes.get(path)

    @pytest.hookimpl
    def pytest_collectstart(self, collector):
        if isinstance(collector, pytest.Directory):
            self._nodes.setdefault(collector.path, collector)


def pytest_configure(config):
    config.pluginmanager.register(_Folders())


TOGETHER = {"stateshift_spark": "spark", "s3": "s3", "wheel": "wheel", "chromium": "chromium"}
"""Fixtures that cost seconds, and the group of the tests that share them."""

QUERIES = {ROOT / "tests" / "spark" / folder for folder in ("streaming", "environment")}
"""Tests of running queries, which mostly wait: they have a session of their own beside that of all other tests."""


@pytest.hookimpl(tryfirst=True)  # before pytest-xdist reads the groups
def pytest_collection_modifyitems(items):
    """Distribute the tests to the processes of `make test`: two begin with all that share a session of Spark.

    Other tests go to the process that is free, Spark's too, when it has finished.
    """
    for item in items:
        shared = [group for fixture, group in TOGETHER.items() if fixture in item.fixturenames]
        if shared and item.get_closest_marker("xdist_group") is None:
            group = "queries" if QUERIES & set(item.path.parents) else shared[0]
            item.add_marker(pytest.mark.xdist_group(group))


MOST_S = 3.0
"""How much processor time a test may take without the mark `slow`."""

LARGE = {"numba", "pandas", "pyspark"}
"""Libraries whose loading takes up to two seconds by itself."""


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item):
    """Fail a test that takes long without its mark: it would make each run of `make test` longer.

    Counted is the processor time of this process and of those that have ended in the test. It grows where more
    processes run than there are cores, and so does the limit. Not counted are fixtures, and the session of Spark that
    all tests share: after a test it works on what that began. Not judged is the first test of a process that loads a
    large library, or compiles machine code: `make test` compiles it before; nor are as many examples as were asked for.
    """
    before, known = sum(os.times()[:4]), LARGE & set(sys.modules)
    with ExitStack() as until_end:
        compiled = []
        if "numba" in sys.modules:
            from numba.core.event import install_recorder

            compiled = until_end.enter_context(install_recorder("numba:compile")).buffer
        result = yield
    taken, limit = sum(os.times()[:4]) - before, MOST_S * max(1.0, os.getloadavg()[0] / (os.cpu_count() or 1))
    is_free = bool(compiled) or known != LARGE & set(sys.modules) or "STATESHIFT_EVOLUTION" in os.environ
    if taken > limit and not is_free and not any(map(item.get_closest_marker, ("slow", "faults", "interop"))):
        pytest.fail(
            f"{item.nodeid} takes {taken:.1f} s of processor time, and has no mark: a test of more than {limit:.1f} s "
            "is marked @pytest.mark.slow, and runs in `make slow`. Make it quicker, or mark it where `make test` keeps "
            "a test of its kind.",
            pytrace=False,
        )
    return result


@pytest.fixture(autouse=True)
def _forgotten_modules(tmp_path_factory):
    """Modules that a test loads from files of its own are forgotten after it: others write files of the same names."""
    known = set(sys.modules)
    yield
    base = f"{tmp_path_factory.getbasetemp()}{os.sep}"
    for name in set(sys.modules) - known:
        if (getattr(sys.modules[name], "__file__", None) or "").startswith(base):
            del sys.modules[name]


PARTITIONS = "spark.sql.shuffle.partitions"


def _partitions():
    """The number of partitions in the session of all tests; None: there is no session."""
    if "pyspark" not in sys.modules:
        return None
    from pyspark.sql import SparkSession

    session = SparkSession._instantiatedSession
    try:
        return None if session is None else session.conf.get(PARTITIONS)
    except Exception:  # noqa: BLE001 - it is stopped, or its Java has ended
        return None


@pytest.fixture(autouse=True)
def _same_partitions():
    """Code of a test may set the number of partitions: with 200 of them each test behind it takes ten times as long."""
    before = _partitions()
    yield
    if before is not None and _partitions() not in {before, None}:
        from pyspark.sql import SparkSession

        SparkSession._instantiatedSession.conf.set(PARTITIONS, before)


@pytest.fixture(scope="session")
def root():
    """The checkout."""
    return ROOT


@pytest.fixture(scope="session")
def savepoint_of():
    """`savepoint_of("rocksdb-account-v1")`: folder of a savepoint that Flink wrote (`version=` 2.3 or 1.20)."""

    def find(name, *, version="2.3"):
        folder = FIXTURES / f"flink-{version}" / name / "savepoint"
        assert folder.is_dir(), f"no such fixture: {folder}"
        return folder

    return find


@pytest.fixture(scope="session")
def expected_of(savepoint_of):
    """`expected_of("rocksdb-account-v1")`: what its job read back; `file=` names another file next to it."""

    def read(name, *, version="2.3", file="expected.json"):
        return json.loads((savepoint_of(name, version=version).parent / file).read_text(encoding="utf-8"))

    return read


@pytest.fixture
def savepoint_copy(savepoint_of, tmp_path):
    """`savepoint_copy("rocksdb-account-v1")`: a copy that a test may damage."""

    def copy(name, *, version="2.3"):
        return Path(shutil.copytree(savepoint_of(name, version=version), tmp_path / "copies" / name))

    return copy


@pytest.fixture(scope="session")
def describe_anew():
    """`describe_anew(folder, uid, describe, value=…)`: write the keyed states of an operator under other descriptions.

    `describe` is a function from what a header says of a state, `value` one from a state's name and a value's bytes.
    The savepoint is one of Flink's, uncompressed and without files.
    """

    def write(folder, uid, describe, value=lambda name, data: data):  # noqa: ARG005 - by default as they are
        def keyed(handle):
            reader = KeyedStreamReader.open(InlineBytes(handle.stream.data), handle)
            names = [info.name for info in reader.header.states]
            blocks = [
                Block.of(
                    block.key_group,
                    block.state_id,
                    [(key, value(names[block.state_id], data)) for key, data in block.items()],
                )
                for block in reader.blocks()
            ]
            header = attrs.evolve(reader.header, states=tuple(map(describe, reader.header.states)))
            data, offsets = write_keyed_stream(header, handle.key_groups, blocks)
            return attrs.evolve(handle, offsets=offsets, stream=InlineHandle("stream", data))

        metadata = read_metadata((folder / "_metadata").read_bytes())
        operators = tuple(
            attrs.evolve(
                operator,
                subtasks=tuple(attrs.evolve(s, managed_keyed=keyed(s.managed_keyed)) for s in operator.subtasks),
            )
            if operator.uid == uid
            else operator
            for operator in metadata.operators
        )
        (folder / "_metadata").write_bytes(write_metadata(attrs.evolve(metadata, operators=operators)))
        (folder / "_stateshift.json").unlink(missing_ok=True)  # as of Flink's, there are no digests then

    return write


@pytest.fixture
def kryo_in_pojo(savepoint_copy, describe_anew):
    """A savepoint of Flink whose Kryo values, those of state `thing`, were put into a field of a POJO: `$.inner`."""
    folder = savepoint_copy("hashmap-kryo")

    def describe(info):
        field = PojoField("inner", "fx.Order", info.value)
        pojo = PojoSerializerSnapshot("fx.Order", (field,))
        return info.with_snapshots(VALUE_SERIALIZER=pojo) if info.name == "thing" else info

    describe_anew(folder, "keyed-op", describe, lambda name, data: b"\2\0" + data if name == "thing" else data)
    return folder


@pytest.fixture
def undescribed_subclass(savepoint_copy, describe_anew):
    """A savepoint as the heap backend writes it, with values of a subclass that its header does not describe."""
    folder = savepoint_copy("rocksdb-subclass-unregistered")

    def describe(info):
        if info.name not in {"home", "homes"}:
            return info
        record = info.value.nested[0] if info.name == "homes" else info.value
        record = attrs.evolve(record, unregistered=())
        return info.with_snapshots(VALUE_SERIALIZER=type(info.value)((record,)) if info.name == "homes" else record)

    describe_anew(folder, "keyed-op", describe)
    return folder


@pytest.fixture(scope="session")
def spark(stateshift_spark):  # noqa: F811 - the fixture
    """The one session of a test run, as the package gives it to its users' tests.

    Most of its plans run once: to interpret one takes a fifth less than to compile Java code for it.
    """
    stateshift_spark.conf.set("spark.sql.codegen.wholeStage", "false")
    stateshift_spark.conf.set("spark.sql.codegen.factoryMode", "NO_CODEGEN")
    return stateshift_spark


@pytest.fixture(scope="session")
def chromium():
    """One real browser for the whole run."""
    place = shutil.which("chromium") or shutil.which("google-chrome")
    if place is None:
        pytest.skip("no Chromium here, so that no report is opened (Debian: apt install chromium)")
    sync_api = pytest.importorskip("playwright.sync_api", reason="reports are opened with playwright: make installs it")
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=place, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture
def opened(chromium):
    """`opened(file, width=390, scheme="dark")`: a page of the browser, of which nothing may fail or leave the file."""
    problems, contexts = [], []

    def start(file, *, width=1100, scheme="light", scripts=True):
        context = chromium.new_context(
            viewport={"width": width, "height": 900}, color_scheme=scheme, java_script_enabled=scripts
        )
        contexts.append(context)
        page, address = context.new_page(), Path(file).resolve().as_uri()
        page.on("console", lambda message: problems.append(message.text))
        page.on("pageerror", lambda error: problems.append(str(error)))
        page.on("request", lambda request: problems.extend([request.url] * (request.url != address)))
        page.goto(address)
        return page

    yield start
    for context in contexts:
        context.close()
    assert problems == []
