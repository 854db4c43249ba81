"""An upgrade as a test: the new code must judge the data of older releases as declared, and read them accordingly.

    class TestAccount(UpgradeCase):
        module = "accounts"                 # the module name of both files, each at its time
        setup = "accounts_v1.py"            # `serializer` and `value`: the old code
        verifier = "accounts_v2.py"         # `serializer`, `verdict`, `value`, `restored`: the new code
        releases = ("1.0", "1.1")           # the last one is the current one

`pytest --stateshift-record` writes the golden file of the current release. Source: harness cases, section A.

Several versions of one module are loaded side by side, each with its own classes (case A13). Golden files are bytes
written by a release, kept beside the tests and read for ever.

    golden/<release>/<case>.json
    {"format": "stateshift golden", "version": 1, "type": words, "snapshot": base64, "value": base64}

Files of the current release may be rewritten; those of older releases never are. Source: harness cases, A02 and A10.
"""

from __future__ import annotations

import base64
import binascii
import importlib.util
import inspect
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import attrs
import pytest

from ...serializers.compatibility import Verdict
from ...serializers.errors import CorruptFile, JobNotFound, OldReaderUnavailable, located
from ...serializers.registry import registry
from ...serializers.snapshot import snapshot_from_bytes, snapshot_to_bytes
from ..json_files import parse_document, print_document
from ..old_reader import ReaderSource, find_old_reader
from ..type_difference import type_text
from .values import read, shipped, written

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from types import ModuleType

    from ...serializers.compatibility import CompatibilityResult
    from ...serializers.serializer import TypeSerializer
    from ...serializers.snapshot import TypeSerializerConfigSnapshot
    from ..plain_data import Fields


@contextmanager
def isolated(file: Path, name: str) -> Iterator[ModuleType]:
    """Load a file as the module `name` for the duration of the `with` block.

    Within the block, imports of `name` return this module, and what it registers is known; afterwards everything is as
    before, but for other modules that it imported: they stay loaded, with what they registered. So
    `accounts_v1.py` and `accounts_v2.py` may both be the module `accounts`, and define `accounts.Account`.

    Raises:
        JobNotFound: The file does not exist.
    """
    spec = importlib.util.spec_from_file_location(name, file)
    if spec is None or spec.loader is None or not file.is_file():
        raise JobNotFound(
            f"there is no Python file {file}", advice="name a file beside the test, such as accounts_v1.py"
        )
    module, shadowed = importlib.util.module_from_spec(spec), sys.modules.get(name)
    with registry.restored(module=name):
        sys.modules[name] = module
        try:
            spec.loader.exec_module(module)
            yield module
        finally:
            if shadowed is None:
                del sys.modules[name]
            else:
                sys.modules[name] = shadowed


FORMAT, VERSION = "stateshift golden", 1


@attrs.frozen
class Golden:
    """The bytes that one release wrote for one case.

    Attributes:
        snapshot: The bytes of the serializer's snapshot, with its id and version.
        value: The bytes of one value.
    """

    snapshot: bytes
    value: bytes

    @classmethod
    def of(cls, serializer: TypeSerializer[Any], value: object) -> Golden:
        """Write a value and its snapshot with the current code."""
        return cls(snapshot_to_bytes(serializer.snapshot_configuration()), written(serializer, value))

    @classmethod
    def read(cls, file: Path) -> Golden:
        """Read a golden file.

        Raises:
            CorruptFile: The file is not a golden file.
        """
        with located(file=str(file)):
            facts = parse_document(file.read_bytes(), FORMAT, VERSION)
            facts.text("type")
            golden = cls(_bytes(facts, "snapshot"), _bytes(facts, "value"))
            facts.require_empty()
            return golden

    def save(self, file: Path) -> bool:
        """Write the file unless it already has this content, and return whether it was written."""
        of_bytes = {name: base64.b64encode(data).decode("ascii") for name, data in attrs.asdict(self).items()}
        text = print_document(FORMAT, VERSION, {"type": type_text(self.restored_snapshot()), **of_bytes})
        if file.is_file() and Golden.read(file) == self:
            return False
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
        return True

    def restored_snapshot(self) -> TypeSerializerConfigSnapshot[Any]:
        """Return the snapshot, read by the current code."""
        return snapshot_from_bytes(self.snapshot)


def _bytes(facts: Fields, name: str) -> bytes:
    try:
        return base64.b64decode(facts.text(name), validate=True)
    except (binascii.Error, ValueError) as error:
        raise CorruptFile(f"{name!r} is not base64: {error}") from error


RECORD_OPTION = "--stateshift-record"


@attrs.frozen
class Upgrade:
    """One golden file, judged by the new code.

    Attributes:
        release: The release that wrote the file.
        golden: The bytes that it wrote.
        snapshot: The stored snapshot, read by the new code.
        serializer: The serializer of the new code.
        expected: The verdict expected from it.
        value: The stored value as the new code sees it; after a migration, the value that it becomes.
        fallback: The new code's deserializer for bytes whose serializer no longer exists, or None.
        converter: The new code's converter, or None.
        restored: A function that returns whether a value read by the restored snapshot is the stored one, or None.
    """

    release: str
    golden: Golden
    snapshot: TypeSerializerConfigSnapshot[Any]
    serializer: TypeSerializer[Any]
    expected: Verdict
    value: Any
    fallback: Any = None
    converter: Callable[[Any], Any] | None = None
    restored: Callable[[Any], bool] | None = None

    def ask(self) -> CompatibilityResult[Any]:
        """Ask the new serializer about the stored snapshot."""
        return self.serializer.ensure_compatibility(self.snapshot)


class UpgradeCase:
    """Test cases of an upgrade, run for each release; a subclass names the upgrade.

    Attributes:
        module: The name under which both files are loaded; by default that of the setup, without `_v1` and the like.
        setup: The file of the old code, beside the test. It defines `serializer`, and a `value` to write.
        verifier: The file of the new code. It defines `serializer`; `value`, the old value as the new code sees it;
            `verdict`, either one or a dict with one for each release; if needed, `fallback` and `converter`; and
            `restored`, a function that returns whether a value which the snapshot read without any class is the stored
            one.
        releases: The releases with golden files, the oldest first; the last one is the current one.
        golden: The folder of golden files, beside the test.
    """

    module: ClassVar[str] = ""
    setup: ClassVar[str]
    verifier: ClassVar[str]
    releases: ClassVar[Sequence[str]]
    golden: ClassVar[str] = "golden"

    def matches(self, expected: object, actual: object) -> bool:
        """Whether a value is the expected one; override it where `==` does not fit."""
        return bool(expected == actual)

    @classmethod
    def golden_file(cls, release: str) -> Path:
        """Return the path of the golden file of a release."""
        return cls._folder() / cls.golden / release / f"{cls.__name__}.json"

    @classmethod
    def record(cls) -> Path | None:
        """Write the golden file of the current release; return None if it exists with the same bytes."""
        with isolated(cls._folder() / cls.setup, cls._module()) as old:
            file = cls.golden_file(cls.releases[-1])
            return file if Golden.of(old.serializer, old.value).save(file) else None

    @classmethod
    def pytest_generate_tests(cls, metafunc: pytest.Metafunc) -> None:
        """Run each case once per release."""
        if "release" in metafunc.fixturenames:
            metafunc.parametrize("release", cls.releases)

    @pytest.fixture
    def upgrade(self, release: str) -> Iterator[Upgrade]:
        """Yield the golden file of a release, judged by the new code."""
        file = self.golden_file(release)
        if not file.is_file():
            how = f"write it: pytest {RECORD_OPTION}" if release == self.releases[-1] else "take it from that release"
            pytest.fail(f"there is no golden file {file}; {how}", pytrace=False)
        golden = Golden.read(file)
        with isolated(self._folder() / self.verifier, self._module()) as new:
            verdict = new.verdict[release] if isinstance(new.verdict, dict) else new.verdict
            yield Upgrade(
                release,
                golden,
                golden.restored_snapshot(),
                new.serializer,
                verdict,
                new.value,
                getattr(new, "fallback", None),
                getattr(new, "converter", None),
                getattr(new, "restored", None),
            )

    def test_restored_serializer_is_valid(self, upgrade: Upgrade) -> None:
        """A03: the restored serializer reads the stored value from the golden bytes, and writes the same bytes."""
        if upgrade.expected is Verdict.INCOMPATIBLE:
            pytest.skip("the upgrade is incompatible: nothing will read the old bytes")
        try:
            restored = upgrade.snapshot.restore_serializer()
        except OldReaderUnavailable as error:
            if upgrade.expected is not Verdict.REQUIRES_MIGRATION_WITH_FALLBACK:
                raise
            pytest.skip(f"the snapshot cannot be restored, so the fallback is used: {error.what}")
        for serializer in (restored, shipped(restored)):
            value = read(serializer, upgrade.golden.value)
            if upgrade.restored is not None:
                assert upgrade.restored(value), f"{value!r} was restored, but the verifier rejects it"
            assert upgrade.golden.value == written(serializer, value)

    def test_upgraded_serializer_has_expected_verdict(self, upgrade: Upgrade) -> None:
        """A04: the new serializer returns exactly the expected verdict."""
        result = upgrade.ask()
        found = "; ".join(f"{finding.path}: {finding.reason} [{finding.rule}]" for finding in result.findings)

        assert upgrade.expected is result.verdict, found or "no finding"

    def test_upgraded_serializer_valid_after_migration(
        self, upgrade: Upgrade, record_property: Callable[[str, object], None]
    ) -> None:
        """A05 and A12: values from the old reader are converted, and the new serializer writes and reads them."""
        self._only_for(upgrade, Verdict.REQUIRES_MIGRATION, Verdict.REQUIRES_MIGRATION_WITH_FALLBACK)
        result = upgrade.ask()
        found = find_old_reader(upgrade.snapshot, fallbacks=(result.fallback, upgrade.fallback))
        record_property("reader", str(found.source))
        if upgrade.expected is Verdict.REQUIRES_MIGRATION_WITH_FALLBACK:
            assert ReaderSource.FALLBACK is found.source, "the old serializer can be restored: no fallback is needed"
        convert = upgrade.converter or result.conversion
        old = read(found.reader, upgrade.golden.value)
        data = written(upgrade.serializer, old if convert is None else convert(old))
        self._assert_valid(upgrade.serializer, data, upgrade.value)

    def test_reconfigured_serializer_valid(self, upgrade: Upgrade) -> None:
        """A06: the reconfigured copy reads and writes the golden bytes, and the original is unchanged."""
        self._only_for(upgrade, Verdict.COMPATIBLE_AFTER_RECONFIGURATION)
        before = snapshot_to_bytes(upgrade.serializer.snapshot_configuration())
        copy = upgrade.ask().reconfigured_serializer

        self._assert_valid(copy, upgrade.golden.value, upgrade.value)
        assert before == snapshot_to_bytes(upgrade.serializer.snapshot_configuration()), (
            "the check changed the serializer"
        )

    def test_as_is_serializer_valid(self, upgrade: Upgrade) -> None:
        """A07: the new serializer reads and writes the golden bytes."""
        self._only_for(upgrade, Verdict.COMPATIBLE)

        self._assert_valid(upgrade.serializer, upgrade.golden.value, upgrade.value)

    @staticmethod
    def _only_for(upgrade: Upgrade, *verdicts: Verdict) -> None:
        """A08: a check that does not apply is skipped, not passed."""
        if upgrade.expected not in verdicts:
            pytest.skip(f"the expected verdict is {upgrade.expected.label}")

    def _assert_valid(self, serializer: TypeSerializer[Any], data: bytes, expected: object) -> None:
        """Check that a serializer reads the expected value, and that it and its copies write the same bytes."""
        value = read(serializer, data)
        assert self.matches(expected, value), f"{value!r} was read, but {expected!r} was expected"
        restored = snapshot_from_bytes(snapshot_to_bytes(serializer.snapshot_configuration())).restore_serializer()
        for one in (serializer, restored, shipped(restored)):
            assert data == written(one, read(one, data))

    @classmethod
    def _folder(cls) -> Path:
        return Path(inspect.getfile(cls)).parent

    @classmethod
    def _module(cls) -> str:
        return cls.module or Path(cls.setup).stem.rpartition("_v")[0] or Path(cls.setup).stem
