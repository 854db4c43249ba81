"""The upgrade harness (harness cases, section A), as a project of a user has it: files, golden files, pytest."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import textwrap

import pytest

V1 = """
import attrs
from stateshift import Int32, serializer_for

@attrs.frozen
class Account:
    visits: Int32

serializer = serializer_for(Account)
value = Account(visits=7)
"""
WIDER = """
import attrs
from stateshift import Verdict, serializer_for

@attrs.frozen
class Account:
    visits: int
    note: str = ""

serializer = serializer_for(Account)
value = Account(visits=7, note="")
verdict = Verdict.REQUIRES_MIGRATION
"""
SAME = V1 + "from stateshift import Verdict\nverdict = Verdict.COMPATIBLE\n"
TEXT = (
    V1.replace("Int32", "str", 1)
    .replace("import str,", "import")
    .replace("visits: Int32", "visits: str")
    .replace("visits=7", 'visits="7"')
    + "from stateshift import Verdict\nverdict = Verdict.INCOMPATIBLE\n"
)
LEVELS = """
import enum
from stateshift import Verdict, serializer_for

Level = enum.Enum("Level", "{symbols}", module=__name__)
serializer = serializer_for(Level)
value = Level.HIGH
verdict = Verdict.COMPATIBLE_AFTER_RECONFIGURATION
"""
GONE = """
import attrs
from stateshift import TypeSerializer, TypeSerializerConfigSnapshot, register_snapshot
from stateshift.serializers.errors import OldReaderUnavailable

@attrs.frozen
class OldSerializer(TypeSerializer[int]):
    def serialize(self, value, target):
        target.write_short(value)

    def deserialize(self, source):
        return source.read_short()

    def snapshot_configuration(self):
        return OldSnapshot()

@register_snapshot
@attrs.define
class OldSnapshot(TypeSerializerConfigSnapshot[int]):
    snapshot_id = "stateshift/acme-old"

    def write(self, target):
        pass

    def read(self, source):
        pass

    def restore_serializer(self):
        raise OldReaderUnavailable("its code is gone")

serializer = OldSerializer()
value = 7
"""
WITH_FALLBACK = (
    GONE
    + """
from stateshift import CompatibilityResult, Verdict

class Fallback:
    def deserialize(self, source):
        return source.read_short()

@attrs.frozen
class NewSerializer(TypeSerializer[int]):
    def serialize(self, value, target):
        target.write_long(value)

    def deserialize(self, source):
        return source.read_long()

    def snapshot_configuration(self):
        return NewSnapshot()

    def ensure_compatibility(self, snapshot):
        if isinstance(snapshot, OldSnapshot):
            return CompatibilityResult.requires_migration(fallback=Fallback())
        return super().ensure_compatibility(snapshot)

@register_snapshot
@attrs.define
class NewSnapshot(TypeSerializerConfigSnapshot[int]):
    snapshot_id = "stateshift/acme-new"

    def write(self, target):
        pass

    def read(self, source):
        pass

    def restore_serializer(self):
        return NewSerializer()

serializer = NewSerializer()
verdict = Verdict.REQUIRES_MIGRATION_WITH_FALLBACK
"""
)
CASE = """
from stateshift.compat.testing import UpgradeCase

class TestAccount(UpgradeCase):
    setup = "accounts_v1.py"
    verifier = "accounts_v2.py"
    releases = {releases!r}
"""


@pytest.fixture
def project(tmp_path):
    """`project(setup, verifier)`: a folder with an upgrade case; gives a function that runs pytest in it."""

    def make(setup, verifier, *, releases=("1.0",)):
        for name, text in {
            "accounts_v1.py": setup,
            "accounts_v2.py": verifier,
            "test_accounts.py": CASE.format(releases=tuple(releases)),
        }.items():
            (tmp_path / name).write_text(textwrap.dedent(text))

        def run(*options):
            command = [sys.executable, "-m", "pytest", "-p", "stateshift.compat.testing.plugin", "-rs", "-v", *options]
            environment = os.environ | {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTEST_ADDOPTS": ""}
            environment["PYTHONDONTWRITEBYTECODE"] = "1"  # a change within a second would not be seen
            done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
            return Run(done.returncode, done.stdout + done.stderr)

        return run

    return make


class Run:
    def __init__(self, status, text):
        self.status, self.text = status, text

    @property
    def endings(self):
        """Case and release -> PASSED, FAILED, SKIPPED, ERROR."""
        found = re.findall(r"::(test_\w+)\[(\S+)\] (PASSED|FAILED|SKIPPED|ERROR)", self.text)
        return {(case.removeprefix("test_"), release): ending for case, release, ending in found}

    def of(self, ending, release="1.0"):
        return {case for (case, of), found in self.endings.items() if (of, found) == (release, ending)}


def test_restored_serializer_is_valid_and_upgraded_serializer_valid_after_migration(project):
    """A03, A04, A05."""
    run = project(V1, WIDER)
    assert 0 == run("--stateshift-record").status
    done = run()

    assert 0 == done.status, done.text
    assert {
        "restored_serializer_is_valid",
        "upgraded_serializer_has_expected_verdict",
        "upgraded_serializer_valid_after_migration",
    } == done.of("PASSED")


@pytest.mark.parametrize(("visits", "ending"), [(7, "PASSED"), (8, "FAILED")])
def test_the_verifier_says_what_the_snapshot_alone_restores(project, visits, ending):
    """Without the old class: the value is a record of its fields."""
    restored = f"\ndef restored(record):\n    return record.visits == {visits}\n"
    done = project(V1, WIDER + restored)("--stateshift-record")

    assert ending == done.endings["restored_serializer_is_valid", "1.0"]
    assert "upgraded_serializer_valid_after_migration" in done.of("PASSED")
    assert ("the verifier rejects it" in done.text) is (ending == "FAILED")


def test_inapplicable_checks_are_skipped_not_passed(project):
    """A08: under a migration neither a reconfigured copy nor the new serializer alone is tried; the reason is shown."""
    done = project(V1, WIDER)("--stateshift-record")

    assert {"reconfigured_serializer_valid", "as_is_serializer_valid"} == done.of("SKIPPED")
    assert "the expected verdict is requires_migration" in done.text


def test_as_is_serializer_valid(project):
    """A07."""
    run = project(V1, SAME)

    assert "as_is_serializer_valid" in run("--stateshift-record").of("PASSED")


def test_reconfigured_serializer_valid(project):
    """A06: a symbol moved to the middle is read by a copy with pinned ordinals."""
    run = project(LEVELS.format(symbols="LOW HIGH"), LEVELS.format(symbols="LOW MIDDLE HIGH"))

    assert "reconfigured_serializer_valid" in run("--stateshift-record").of("PASSED")


def test_incompatible_case_skips_restore(project):
    """A11: the verdict is still asked."""
    done = project(V1, TEXT)("--stateshift-record")

    assert {"upgraded_serializer_has_expected_verdict"} == done.of("PASSED")
    assert "restored_serializer_is_valid" in done.of("SKIPPED")


def test_fallback_case_uses_fallback(project, tmp_path):
    """A12: the report of the run names the reader."""
    done = project(GONE, WITH_FALLBACK)("--stateshift-record", "--junitxml=report.xml")

    assert {"upgraded_serializer_valid_after_migration"} < done.of("PASSED")
    assert "its code is gone" in done.text
    assert '<property name="reader" value="fallback"' in (tmp_path / "report.xml").read_text()


def test_another_verdict_than_expected_fails_with_the_findings(project):
    done = project(V1, WIDER.replace("REQUIRES_MIGRATION", "COMPATIBLE"))("--stateshift-record")

    assert {"upgraded_serializer_has_expected_verdict", "as_is_serializer_valid"} == done.of("FAILED")
    assert "$.visits" in done.text
    assert "[PRIM-2]" in done.text


def test_another_value_than_expected_fails(project):
    done = project(V1, WIDER.replace('note="")', 'note="x")'))("--stateshift-record")

    assert {"upgraded_serializer_valid_after_migration"} == done.of("FAILED")
    assert "note='x'" in done.text


def test_golden_files_only_for_current_release(project, tmp_path):
    """A02: the file of an older release is not touched, whatever the setup says."""
    project(V1, WIDER)("--stateshift-record")
    old = tmp_path / "golden" / "1.0" / "TestAccount.json"
    before = old.read_bytes()
    done = project(V1.replace("visits=7", "visits=8"), WIDER, releases=("1.0", "1.1"))("--stateshift-record")

    assert before == old.read_bytes()
    assert {"1.0", "1.1"} == {path.name for path in (tmp_path / "golden").iterdir()}
    assert "TestAccount.json" in done.text.partition("written: ")[2]
    assert {"upgraded_serializer_valid_after_migration"} == done.of("FAILED", "1.1"), "8 is not 7"
    assert "upgraded_serializer_valid_after_migration" in done.of("PASSED", "1.0")


def test_plugin_golden_update_flag(project, tmp_path):
    """K13: with the option the files that differ are written and listed, and no others; without it none ever is."""
    run = project(V1, WIDER)
    file = tmp_path / "golden" / "1.0" / "TestAccount.json"
    (tmp_path / "golden" / "0.9").mkdir(parents=True)
    other = tmp_path / "golden" / "0.9" / "TestOther.json"
    other.write_text("somebody's")
    assert [str(file)] == re.findall(r"written: (\S+)", run("--stateshift-record").text)
    assert "none written" in run("--stateshift-record").text
    file.unlink()
    run()

    assert not file.exists()
    assert "somebody's" == other.read_text()


def test_plugin_collects_cases(project):
    """K12: a class in a test file is all that it takes."""
    done = project(V1, WIDER)("--collect-only", "-qq")

    assert {
        "restored_serializer_is_valid",
        "upgraded_serializer_has_expected_verdict",
        "upgraded_serializer_valid_after_migration",
        "reconfigured_serializer_valid",
        "as_is_serializer_valid",
    } <= set(re.findall(r"test_accounts\.py::TestAccount::test_(\w+)\[1\.0\]", done.text))


def test_missing_golden_file_fails_loudly(project):
    """A10: with its name and the command that makes it."""
    done = project(V1, WIDER)()

    assert 1 == done.status
    assert re.search(r"no golden file \S+/golden/1.0/TestAccount.json; write it: pytest --stateshift-record", done.text)


def test_a_golden_file_that_is_damaged_is_reported_as_such(project, tmp_path):
    run = project(V1, WIDER)
    run("--stateshift-record")
    file = tmp_path / "golden" / "1.0" / "TestAccount.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | {"value": "?"}))

    assert "'value' is not base64" in run().text


def test_verdict_may_depend_on_release(project):
    """A09: release 1.0 wrote ints, and 1.1 longs."""
    project(V1, WIDER)("--stateshift-record")
    longs = V1.replace("visits: Int32", "visits: int")
    verifier = longs + (
        'from stateshift import Verdict\nverdict = {"1.0": Verdict.REQUIRES_MIGRATION, "1.1": Verdict.COMPATIBLE}\n'
    )
    done = project(longs, verifier, releases=("1.0", "1.1"))("--stateshift-record")

    assert 0 == done.status, done.text
    assert "upgraded_serializer_valid_after_migration" in done.of("PASSED", "1.0")
    assert "as_is_serializer_valid" in done.of("PASSED", "1.1")


def test_isolated_classes_do_not_leak(tmp_path):
    """A13: two generations of one module, in one process."""
    from stateshift.compat.testing.upgrade import isolated
    from stateshift.serializers.registry import registry

    (tmp_path / "one.py").write_text(GONE)
    (tmp_path / "two.py").write_text(V1)
    with isolated(tmp_path / "one.py", "accounts") as one:
        assert sys.modules["accounts"] is one
        assert registry.snapshot_class("stateshift/acme-old") is one.OldSnapshot
        with isolated(tmp_path / "two.py", "accounts") as two:
            assert sys.modules["accounts"] is two
            assert not hasattr(two, "OldSerializer")
        assert sys.modules["accounts"] is one

    assert "accounts" not in sys.modules
    assert registry.snapshot_class("stateshift/acme-old") is None


def test_a_run_without_the_harness_loads_nothing_heavy():
    """The plugin is loaded in every run of every project on the machine."""
    code = (
        "import sys, pytest\n"
        "import stateshift.compat.testing.plugin, stateshift.state.testing, stateshift.spark.testing\n"
        "heavy = {'hypothesis', 'numpy', 'pyspark', 'pandas', 'pyarrow'} & set(sys.modules)\n"
        "print(sorted(heavy))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert "[]" == done.stdout.strip()


SHARED = """
import attrs
from stateshift import TypeSerializer, TypeSerializerConfigSnapshot, register_serializer, register_snapshot

@attrs.frozen
class Temperature:
    tenths: int

@attrs.frozen
class TemperatureSerializer(TypeSerializer[Temperature]):
    def serialize(self, value, target):
        target.write_short(value.tenths)

    def deserialize(self, source):
        return Temperature(source.read_short())

    def snapshot_configuration(self):
        return TemperatureSnapshot()

@register_snapshot
@attrs.define
class TemperatureSnapshot(TypeSerializerConfigSnapshot[Temperature]):
    snapshot_id = "stateshift/acme-temperature"

    def write(self, target):
        pass

    def read(self, source):
        pass

    def restore_serializer(self):
        return TemperatureSerializer()

register_serializer(Temperature, TemperatureSerializer())
"""
OF_SHARED = """
from stateshift import Verdict, serializer_for
from temperatures import Temperature

serializer = serializer_for(Temperature)
value = Temperature(7)
verdict = Verdict.COMPATIBLE
"""


def test_both_sides_may_import_one_module_that_registers_snapshots(project, tmp_path):
    (tmp_path / "temperatures.py").write_text(SHARED)
    run = project(OF_SHARED, OF_SHARED)

    recorded, again = run("--stateshift-record"), run()

    assert (0, 0) == (recorded.status, again.status), again.text
    assert {
        "restored_serializer_is_valid",
        "upgraded_serializer_has_expected_verdict",
        "as_is_serializer_valid",
    } == again.of("PASSED")
