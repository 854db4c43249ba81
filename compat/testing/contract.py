"""The contract of every serializer, as test cases that a class inherits.

    class TestTemperature(SerializerContract):
        serializer = TemperatureSerializer()
        values = st.builds(Temperature, st.integers(-300, 2000).map(float))
        edges = (Temperature(0.0), Temperature(-273.0))

pytest finds the class by its name, and runs each case of the contract on it. Source: harness cases, section B.
"""

from __future__ import annotations

import itertools
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, ClassVar

from ...serializers.compatibility import Verdict
from ...serializers.errors import (
    CorruptSavepoint,
    OldReaderUnavailable,
    StateShiftError,
    ValueNotConvertible,
    cause_text,
)
from ...serializers.snapshot import snapshot_from_bytes, snapshot_to_bytes
from ...serializers.views import DataInputView, DataOutputView
from .values import declared_type, disturb, doubles_of, neighbours_of, read, shipped, written, written_elsewhere

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from hypothesis.strategies import SearchStrategy

    from ...serializers.compatibility import CompatibilityResult
    from ...serializers.serializer import TypeSerializer
    from ...serializers.snapshot import TypeSerializerConfigSnapshot
    from .values import Samples

_THREADS, _MOST_TRUNCATIONS = 10, 50


class SerializerContract:
    """Test cases that every serializer must pass; a subclass names the serializer.

    Attributes:
        serializer: The serializer under test.
        values: A hypothesis strategy for values that the serializer accepts.
        edges: Values that are always tried: the empty value, the largest, None where it is allowed.
        max_examples: The number of examples that each case draws from `values`.
        declared: A strategy for the declared type, including values that do not fit. By default it is derived from the
            type argument of the class, `TypeSerializer[int]`.
        neighbours: Further serializers whose snapshots it is asked about: earlier versions, or others of your own.
            Plain serializers, and the serializer itself with other parameters, are always asked about.
        bytes_beyond_length: The number of bytes that each value takes beyond the declared length. Only Flink's void
            namespace has one.
    """

    serializer: ClassVar[TypeSerializer[Any]]
    values: ClassVar[SearchStrategy[Any]]
    edges: ClassVar[Sequence[Any]] = ()
    declared: ClassVar[SearchStrategy[Any] | None] = None
    neighbours: ClassVar[Sequence[TypeSerializer[Any]]] = ()
    max_examples: ClassVar[int] = 25
    bytes_beyond_length: ClassVar[int] = 0

    def are_equal(self, expected: object, actual: object) -> bool:
        """Whether two values are the same; override it where `==` does not fit, as for NaN."""
        return bool(expected == actual)

    def write(self, *values: object) -> bytes:
        """Return the bytes of the values, one after the other."""
        return written(self.serializer, *values)

    def read(self, data: bytes) -> Any:
        """Return the one value encoded in the bytes."""
        with _of_its_own("read"):
            return read(self.serializer, data)

    def test_snapshot_class_is_instantiable(self) -> None:
        """B02: the snapshot class is created without arguments, and knows the version that it writes (SNAP-6)."""
        snapshot = self.serializer.snapshot_configuration()

        assert snapshot.get_version() == type(snapshot)().get_version()
        assert snapshot.get_version() in snapshot.get_compatible_versions(), "it cannot read its own version"

    def test_own_snapshot_is_compatible(self) -> None:
        """B03: its own snapshot is `compatible`, fresh and read back; what it restores writes the same bytes (V-4).

        Snapshots of its neighbours, too, restore what reads and writes their bytes: with other parameters than the
        default ones.
        """
        fresh = self.serializer.snapshot_configuration()
        stored = snapshot_from_bytes(snapshot_to_bytes(fresh))

        assert snapshot_to_bytes(fresh) == snapshot_to_bytes(stored), "a snapshot differs after it was read back"
        for snapshot in (fresh, stored):
            assert Verdict.COMPATIBLE is self.serializer.ensure_compatibility(snapshot).verdict
        _expect_restored(self.serializer, [(value, self.write(value)) for value in self._some()])
        for other, samples in neighbours_of(self.serializer, self.neighbours, [*self._some()]):
            if type(other) is type(self.serializer) or other in self.neighbours:
                _expect_restored(other, samples)
        for other, samples in doubles_of(self.serializer, self.neighbours, [*self._some()]):
            for value, data in samples:
                words = f"{other} has the same snapshot and writes {value!r} in other bytes: it lacks a parameter"
                assert data == self.write(value), words

    def test_answers_about_others_are_true(self) -> None:
        """B21: data that it calls compatible reads back equal; data that it migrates can be written (V-5)."""
        for other, samples in neighbours_of(self.serializer, self.neighbours, [*self._some()]):
            snapshot = snapshot_from_bytes(snapshot_to_bytes(other.snapshot_configuration()))
            try:
                result = self.serializer.ensure_compatibility(snapshot)
            except Exception as error:
                words = f"ensure_compatibility fails on the snapshot of {other.describe()}, and does not answer"
                raise AssertionError(f"{words}: {cause_text(error)}") from error
            if result.is_migration_required():
                self._expect_migrated(result, snapshot, samples)
            elif not result.is_incompatible():
                copy = self.serializer if result.is_compatible_as_is() else result.reconfigured_serializer
                self._expect_the_same(copy, other, samples)

    def _expect_the_same(self, copy: TypeSerializer[Any], other: TypeSerializer[Any], samples: Samples) -> None:
        words = f"it accepts what {other.describe()} wrote as compatible"
        for value, data in samples:
            try:
                found = read(copy, data)
            except (StateShiftError, AssertionError) as error:
                raise AssertionError(f"{words}, and cannot read {value!r} of it: {error}") from error
            assert self.are_equal(value, found), f"{words}, and reads {value!r} of it as {found!r}"
            assert data == written(copy, found), f"{words}, and writes {value!r} in other bytes"

    def _expect_migrated(
        self, result: CompatibilityResult[Any], snapshot: TypeSerializerConfigSnapshot[Any], samples: Samples
    ) -> None:
        for _, data in samples:
            try:
                value = read(result.fallback or snapshot.restore_serializer(), data)
                self.write(value if result.conversion is None else result.conversion(value))
            except StateShiftError:
                continue  # a value that does not fit ends a run with an error, so it is not wrong here

    def test_values_of_the_declared_type_fit_or_are_refused(self) -> None:
        """B22: a value of the declared type round-trips or raises `ValueNotConvertible`; none is truncated or wraps."""

        def holds(value: object) -> None:
            try:
                data = self.write(value)
            except ValueNotConvertible:
                return
            self._assert_equal(value, self.read(data))

        strategy = self.declared if self.declared is not None else self._of_declared_type()
        if strategy is not None:
            self._drawn(strategy, holds)

    def _of_declared_type(self) -> SearchStrategy[Any] | None:
        from hypothesis import strategies as st
        from hypothesis.errors import HypothesisException

        hint = declared_type(self.serializer)
        strategy = None if hint is None else st.from_type(hint).filter(_is_itself)
        try:
            if strategy is not None:
                strategy.validate()
        except HypothesisException:
            return None  # hypothesis cannot generate values of this type
        return strategy

    def test_declared_length_is_true(self) -> None:
        """B04: where a length is declared, the bytes of every value have it."""
        length = self.serializer.length + self.bytes_beyond_length

        def holds(value: object) -> None:
            assert self.serializer.length < 0 or length == len(self.write(value))

        self._for_all(holds)

    def test_values_are_not_shared(self) -> None:
        """B05: changing a value after writing or reading it changes neither the bytes nor another read."""
        for value in self._some():
            data = self.write(value)
            first, second = self.read(data), self.read(data)
            if disturb(first):
                assert data == self.write(second), "two reads share a mutable part"
                assert data == self.write(self.read(data)), "a read value is part of the serializer"

    def test_round_trip_one_by_one(self) -> None:
        """B08: each value alone round-trips, with no bytes left over."""

        def holds(value: object) -> None:
            data = self.write(value)
            assert len(data) > 0, "a value without bytes cannot be distinguished from no value"
            self._assert_equal(value, self.read(data))

        self._for_all(holds)

    def test_round_trip_stream(self) -> None:
        """B10: values written one after the other are read back in order."""

        def holds(values: list[object]) -> None:
            source = DataInputView(self.write(*values))
            for value in values:
                with _of_its_own("read"):
                    found = self.serializer.deserialize(source)
                self._assert_equal(value, found)
            assert source.remaining() == 0, "it leaves bytes of the last value unread"

        self._for_lists(holds)

    def test_binary_copy_one(self) -> None:
        """B12: copying the bytes of a value, without decoding it, keeps the value."""

        def holds(value: object) -> None:
            data = self.write(value)
            source, target = DataInputView(data), DataOutputView()
            with _of_its_own("copy"):
                self.serializer.copy_bytes(source, target)
            assert (data, 0) == (target.getvalue(), source.remaining()), "copy_bytes copies other bytes"

        self._for_all(holds)

    def test_binary_copy_stream(self) -> None:
        """B13: copying works for values one after the other, too: each copy ends where its value ends."""

        def holds(values: list[object]) -> None:
            source, target = DataInputView(self.write(*values)), DataOutputView()
            ends = []
            for _ in values:
                self.serializer.copy_bytes(source, target)
                ends.append(len(target))
            assert list(itertools.accumulate(len(self.write(value)) for value in values)) == ends

        self._for_lists(holds)

    def test_serializer_equality_and_shipping(self) -> None:
        """B14: shipped to a worker, it is equal to the original, has the same hash, and writes the same bytes."""
        there = shipped(self.serializer)

        assert self.serializer == there
        assert hash(self.serializer) == hash(there)
        for value in self._some():
            assert self.write(value) == written(there, value)
        for other, _ in neighbours_of(self.serializer, self.neighbours, []):
            if type(other) is type(self.serializer):
                sent, received = other.snapshot_configuration(), shipped(other).snapshot_configuration()
                assert snapshot_to_bytes(sent) == snapshot_to_bytes(received), f"shipped, {other} loses a parameter"

    def test_nullability_is_declared(self) -> None:
        """B15: None round-trips or raises `ValueNotConvertible`; it never becomes another value."""
        try:
            data = self.write(None)
        except ValueNotConvertible:
            assert None not in self.edges, "None is among the edge values, but is refused"
            return
        assert self.read(data) is None

    def test_one_serializer_many_threads(self) -> None:
        """B16: ten threads can share one serializer."""
        expected = [self.write(value) for value in self._some()]

        def work(_: int) -> list[bytes]:
            return [self.write(self.read(data)) for data in expected * 5]

        with ThreadPoolExecutor(_THREADS) as threads:
            for found in threads.map(work, range(_THREADS)):
                assert expected * 5 == found

    def test_repr_of_result_is_sound(self) -> None:
        """B17: every value that was read has a working `repr`; a half-built object fails here."""

        def holds(value: object) -> None:
            assert isinstance(repr(self.read(self.write(value))), str)

        self._for_all(holds)

    def test_deterministic_bytes(self) -> None:
        """B18: equal values have equal bytes, also in another process with another hash seed."""
        values = list(self._some())

        assert [self.write(value) for value in values] == written_elsewhere(self.serializer, values)

    def test_garbage_is_rejected(self) -> None:
        """B19: truncated bytes raise `CorruptSavepoint`; other garbage does, too, or reads as a value with a `repr`."""
        for value in self._some():
            data = self.write(value)
            for size in range(min(len(data), _MOST_TRUNCATIONS)):
                _expect_refused(self.serializer.deserialize, data[:size])
                _expect_refused(lambda source: self.serializer.copy_bytes(source, DataOutputView()), data[:size])

        def holds(garbage: bytes) -> None:
            try:
                repr(self.serializer.deserialize(DataInputView(garbage)))
            except StateShiftError:
                return

        self._for_garbage(holds)

    def test_immutable_types_are_declared(self) -> None:
        """B20: two reads return the same object only if its type is immutable and hashable.

        A value of a type that is declared immutable has no part that can be changed.
        """
        for value in self._some():
            data = self.write(value)
            first, second = self.read(data), self.read(data)
            assert first is not second or _is_hashable(first), f"two reads share one {type(first).__name__}"
            if self.serializer.is_immutable_type:
                assert not disturb(first), f"it is declared immutable, but {type(first).__name__} can be changed"

    def _assert_equal(self, expected: object, actual: object) -> None:
        assert self.are_equal(expected, actual), f"{expected!r} was written, but {actual!r} was read"

    def _some(self) -> Iterator[Any]:
        """Return a few values: the edges, or the simplest value where there are no edges."""
        from hypothesis import Phase, find, settings

        if self.edges:
            return iter(self.edges)
        simplest = find(
            self.values, lambda _: True, settings=settings(max_examples=1, phases=[Phase.generate], database=None)
        )
        return iter([simplest])

    def _for_all(self, holds: Callable[[Any], None]) -> None:
        for value in self.edges:
            holds(value)
        self._drawn(self.values, holds)

    def _for_lists(self, holds: Callable[[list[Any]], None]) -> None:
        from hypothesis import strategies as st

        holds(list(self.edges))
        self._drawn(st.lists(self.values, max_size=5), holds)

    def _for_garbage(self, holds: Callable[[bytes], None]) -> None:
        """Run the check on random bytes, and on the bytes of values with one byte changed."""
        from hypothesis import strategies as st

        written = [self.write(value) for value in self._some()]

        def flipped(data: bytes, at: int, by: int) -> bytes:
            at %= min(len(data), 41)
            return data[:at] + bytes([data[at] ^ by]) + data[at + 1 :]

        damaged = st.builds(flipped, st.sampled_from(written), st.integers(0, 40), st.integers(1, 255))
        self._drawn(damaged | st.binary(max_size=40), holds)

    def _drawn(self, strategy: SearchStrategy[Any], holds: Callable[[Any], None]) -> None:
        """Run the check on drawn examples. It is defined here: subclasses would share an inherited test."""
        from hypothesis import HealthCheck, given, settings

        def case(drawn: Any) -> None:
            holds(drawn)

        case.__qualname__ = f"{type(self).__qualname__}.{holds.__qualname__.split('.')[-3]}"
        few = settings(max_examples=self.max_examples, deadline=None, suppress_health_check=[HealthCheck.too_slow])
        few(given(strategy)(case))()


@contextmanager
def _of_its_own(do: str) -> Iterator[None]:
    """Name the serializer in an error about bytes that it wrote itself, which are no damaged file."""
    try:
        yield
    except StateShiftError as error:
        raise AssertionError(f"the serializer cannot {do} bytes that it wrote: {error.what}") from error


def _expect_restored(serializer: TypeSerializer[Any], samples: Samples) -> None:
    """Expect that the snapshot of a serializer, once it was stored, restores a reader and writer of its bytes."""
    fresh = serializer.snapshot_configuration()
    stored = snapshot_from_bytes(snapshot_to_bytes(fresh))
    assert snapshot_to_bytes(fresh) == snapshot_to_bytes(stored), f"the snapshot of {serializer} reads back differently"
    try:
        restored = stored.restore_serializer()
    except OldReaderUnavailable:
        return  # it says so: nothing is read wrongly
    hint = "does its snapshot store all parameters, and restore_serializer pass them on?"
    if type(restored) is type(serializer):
        again = snapshot_to_bytes(restored.snapshot_configuration())
        assert snapshot_to_bytes(fresh) == again, f"the snapshot of {serializer} restores {restored}: {hint}"
    for value, data in samples:
        try:
            again = written(restored, read(restored, data))
        except (StateShiftError, AssertionError) as error:
            words = f"what the snapshot of {serializer} restores cannot read its bytes of {value!r}"
            raise AssertionError(f"{words}: {hint} ({cause_text(error)})") from error
        assert data == again, f"what the snapshot of {serializer} restores writes {value!r} in other bytes: {hint}"


def _expect_refused(use: Callable[[DataInputView], object], data: bytes) -> None:
    try:
        use(DataInputView(data))
    except CorruptSavepoint:
        return
    raise AssertionError(f"truncated bytes were read as a value: {data.hex()}")


def _is_itself(value: Any) -> bool:
    """Whether a value is equal to itself, as NaN is not."""
    try:
        return bool(value == value)  # noqa: PLR0124 - comparing it with itself is the test
    except Exception:  # noqa: BLE001 - a signalling NaN
        return False


def _is_hashable(value: object) -> bool:
    try:
        hash(value)
    except TypeError:
        return False
    return True
