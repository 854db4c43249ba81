"""An assertion that tests a migration in one line: old type, new type, values, and the values that they become."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...serializers.hints import serializer_for
from ...serializers.serializer import TypeSerializer
from ...serializers.snapshot import snapshot_from_bytes, snapshot_to_bytes
from ..old_reader import find_old_reader
from .values import read, written

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ...serializers.compatibility import CompatibilityResult, Verdict

_UNSAID: Any = object()


def assert_migrates(
    old: Any,
    new: Any,
    values: Sequence[Any],
    *,
    expected: Sequence[Any] = _UNSAID,
    verdict: Verdict | None = None,
    converter: Callable[[Any], Any] | None = None,
) -> CompatibilityResult[Any]:
    """Check that values of an old type become values of a new type in the way that the verdict says.

    The values are written with the old serializer; from then on, only its stored snapshot and the bytes are used. If
    the verdict is compatible, the new serializer reads them as they are; if it asks for a reconfigured copy, that copy
    does; if they must be migrated, the old reader reads them, a conversion is applied, and the new serializer writes
    them.

    Args:
        old: The old serializer or type hint.
        new: The new serializer or type hint.
        values: Values that the old serializer writes.
        expected: The values that they become; by default, equal ones.
        verdict: The verdict expected from the new serializer; by default any but `incompatible`.
        converter: A function used instead of the conversion by the rules, as `converter=` of a descriptor.

    Returns:
        The new serializer's result, with its findings.

    Raises:
        AssertionError: The check fails; the message has the value or the findings.
    """
    writer, reader = _serializer(old), _serializer(new)
    snapshot = snapshot_from_bytes(snapshot_to_bytes(writer.snapshot_configuration()))
    result = reader.ensure_compatibility(snapshot)
    found = "; ".join(f"{finding.path}: {finding.reason} [{finding.rule}]" for finding in result.findings)
    assert verdict in {None, result.verdict}, f"the verdict is {result.verdict.label}: {found}"
    assert converter or not result.is_incompatible(), f"the verdict is incompatible: {found}"
    wanted = values if expected is _UNSAID else expected
    assert len(values) == len(wanted), f"{len(values)} values are to become {len(wanted)}"
    for value, becomes in zip(values, wanted, strict=True):
        actual = _taken_over(written(writer, value), result, reader, snapshot, converter)
        assert becomes == actual, f"{value!r} becomes {actual!r}, but {becomes!r} was expected"
    return result


def _serializer(given: Any) -> TypeSerializer[Any]:
    return given if isinstance(given, TypeSerializer) else serializer_for(given)


def _taken_over(
    data: bytes,
    result: CompatibilityResult[Any],
    new: TypeSerializer[Any],
    snapshot: Any,
    converter: Callable[[Any], Any] | None,
) -> Any:
    """Return the value that the new code sees in stored bytes, read as the verdict says."""
    if result.is_compatible_as_is():
        return read(new, data)
    if result.is_compatible_after_reconfiguration():
        return read(result.reconfigured_serializer, data)
    reader = find_old_reader(snapshot, fallbacks=(result.fallback,)).reader
    convert = converter or result.conversion
    value = read(reader, data)
    return read(new, written(new, value if convert is None else convert(value)))
