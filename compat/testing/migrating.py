"""A migration in one line of a test: old type, new type, values, and what they are to become."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...serializers.hints import serializer_for
from ...serializers.serializer import TypeSerializer
from ...serializers.snapshot import snapshot_from_bytes, snapshot_to_bytes
from ..old_reader import find_old_reader
from .coding import read, written

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
    """Say that values of an old type become values of a new one, as the verdict says that they do.

    The values are written with the old serializer, and only its stored snapshot and their bytes are used from then on:
    they are read as they are where the verdict is compatible, by the reconfigured copy where that is asked for, and by
    the old reader, a conversion and the new serializer where they must be migrated.

    Args:
        old: Serializer or type hint.
        new: Serializer or type hint.
        values: That the old serializer writes.
        expected: What they become; by default they are equal to what they were.
        verdict: The verdict that the new serializer is to give; by default any but `incompatible`.
        converter: In place of the conversion that the rules give, as `converter=` of a descriptor.

    Returns:
        What the new serializer answered, with its findings.

    Raises:
        AssertionError: It does not hold; with the value, or with the findings.
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
        assert becomes == actual, f"{value!r} becomes {actual!r}, and {becomes!r} is expected"
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
    """Read stored bytes as the verdict says, and give the value that the new code sees."""
    if result.is_compatible_as_is():
        return read(new, data)
    if result.is_compatible_after_reconfiguration():
        return read(result.reconfigured_serializer, data)
    reader = find_old_reader(snapshot, fallbacks=(result.fallback,)).reader
    convert = converter or result.conversion
    value = read(reader, data)
    return read(new, written(new, value if convert is None else convert(value)))
