"""The transcoder that makes an object of every value: old reader, conversion, new writer.

It handles every pair of serializers, and is the reference for faster executors.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

import attrs

from ...compat.description import ValueFraming
from ...serializers.containers.ttl import TtlValue
from ...serializers.errors import (
    CorruptSavepoint,
    StateShiftError,
    ValueNotConvertible,
    ValuesCollide,
    at_step,
    cause_text,
    located,
    shown,
)
from ...serializers.limits import require_room
from ...serializers.views import SEPARATOR, DataInputView, DataOutputView
from .entry_layout import map_value
from .transcoder import BadValue, Transcoded

if TYPE_CHECKING:
    from ...compat.plan import Recoding, StatePlan
    from .entry_layout import EntryFraming

_MAX_SHOWN_BYTES = 40
EXPIRED = object()
"""The result of the conversion for a value that is to be left out."""

_WAY_OUT = "handle such values in a converter, or correct the one that failed"


def read_old(recoding: Recoding, source: DataInputView) -> Any:
    """Read one old value; if the user's reader fails, raise a `ValueNotConvertible` that names it."""
    try:
        return recoding.reader.deserialize(source)
    except StateShiftError:
        raise
    except Exception as error:
        raise _unfit(f"the reader ({recoding.source}) failed", error) from error


def converted(recoding: Recoding, source: DataInputView) -> Any:
    """Read one old value and convert it; if user code fails, raise a `ValueNotConvertible` that names it.

    Returns `EXPIRED` for a value that is to be left out.
    """
    old = read_old(recoding, source)
    if recoding.is_expired(old):
        return EXPIRED
    if recoding.conversion is None or (old is None and recoding.nullable):
        return old
    try:
        return recoding.conversion(old)
    except StateShiftError:
        raise
    except Exception as error:
        who = f"converter {recoding.converter}" if recoding.converter else "the conversion"
        raise _unfit(f"{who} failed on {shown(old)}", error) from error


def write(recoding: Recoding, value: Any, target: DataOutputView) -> None:
    """Write one new value; raise `ValueNotConvertible` if its serializer fails."""
    try:
        recoding.writer.serialize(value, target)
    except StateShiftError:
        raise
    except Exception as error:
        raise _unfit(f"{shown(value)} cannot be written as {recoding.writer.describe()}", error) from error


def recode(recoding: Recoding, source: DataInputView, target: DataOutputView) -> None:
    """Read one old value that never expires, convert it, and write the new one; a check writes the old bytes."""
    start = source.position
    new = converted(recoding, source)
    if recoding.is_check:
        target.write(source.span(start))
    else:
        write(recoding, new, target)


def _unfit(what: str, error: Exception) -> ValueNotConvertible:
    return ValueNotConvertible(
        f"{what}: {cause_text(error)}",
        advice=_WAY_OUT,
    )


def recode_all(recoding: Recoding, data: bytes) -> bytes:
    """Rewrite a value that fills `data` exactly and never expires."""
    source, target = DataInputView(data), DataOutputView()
    recode(recoding, source, target)
    expect_end(source)
    return target.getvalue()


def expect_end(source: DataInputView) -> None:
    """Raise `CorruptSavepoint` if bytes follow the value."""
    if source.remaining():
        raise CorruptSavepoint(f"{source.remaining()} bytes follow the value", offset=source.position)


@attrs.define
class _LeftOut:
    """The expired parts of a block: keys of entries, and a number of list elements."""

    keys: list[bytes] = attrs.field(factory=list)
    elements: int = 0


def _put_entry(target: DataOutputView, key: bytes, value: bytes) -> None:
    for part in (key, value):
        target.write_int(len(part))
        target.write(part)


@attrs.frozen
class CountedKeys:
    """Adds how often keys of a map are there, where several become one.

    Attributes:
        serializer: The serializer of the map. A value is a number, or a number and that of the matches, which equal
            rows have in common; with a time to live, the newest stamp stays.
    """

    serializer: Any

    def added(self, before: bytes | None, value: bytes) -> bytes:
        """Return the value of both."""
        if before is None:
            return value
        return map_value(self.serializer, self._sum(self._read(before), self._read(value)))

    def _read(self, value: bytes) -> Any:
        return self.serializer.value.deserialize(DataInputView(value, 1))

    def _sum(self, first: Any, second: Any) -> Any:
        if isinstance(first, TtlValue):
            newest = max(first.last_access_ms, second.last_access_ms)
            return TtlValue(newest, self._sum(first.value, second.value))
        if not isinstance(first, tuple):
            return first + second
        if first[1] != second[1]:
            raise ValuesCollide(
                f"two rows become the same, and have {first[1]} and {second[1]} matches",
                advice="keep the columns of the old query",
                path="$<key>",
            )
        return first[0] + second[0], first[1]


@attrs.frozen(slots=False)
class ObjectTranscoder:
    """A transcoder of the entries of a keyed state, object by object."""

    plan: StatePlan
    framing: EntryFraming
    quarantines: bool = False

    @property
    def needs_whole_run(self) -> bool:
        return self.plan.user_key is not None and not self.plan.user_key.is_check

    def transcode(self, block: bytes | memoryview, prefix: bytes = b"") -> Transcoded:
        source, target = DataInputView(bytes(block)), DataOutputView()
        rewrite = {
            ValueFraming.WHOLE: self._whole,
            ValueFraming.SEPARATED: self._separated,
            ValueFraming.NULLABLE: self._nullable,
        }[self.framing.value]
        entries, merged, seen, left_out, aside = 0, 0, dict[bytes, bytes](), _LeftOut(), list[BadValue]()
        with located(state=self.plan.name):
            while source.remaining():
                start = source.position
                key = source.read_fully(source.read_size("bytes of a key"))
                value = source.read_fully(source.read_size("bytes of a value"))
                entries += 1
                elements_before = left_out.elements
                try:
                    new_value = rewrite(value, left_out)
                    if new_value is None:
                        left_out.keys.append(key)
                        continue
                    new_key = self._key(key)
                    require_room(len(new_value))
                    if self._counted is not None:
                        before = seen.get(new_key)
                        seen[new_key] = self._counted.added(before, new_value)
                        merged += before is not None
                        continue
                    self._keep_apart(new_key, seen)
                except StateShiftError as error:
                    self._place(error, key, start)
                    bad = BadValue.of(error, key, value, self._key_group(key)) if self.quarantines else None
                    if bad is None:
                        raise
                    left_out.elements = elements_before  # the whole list is quarantined
                    aside.append(attrs.evolve(bad, user_key=self._user_key(key)))
                    continue
                _put_entry(target, new_key, new_value)
        counted = seen if self._counted is not None else {}
        for new_key, new_value in counted.items():
            _put_entry(target, new_key, new_value)
        return Transcoded(
            target.getvalue(), entries, tuple(left_out.keys), left_out.elements, tuple(aside), merged=merged
        )

    @cached_property
    def _counted(self) -> CountedKeys | None:
        """Adds the numbers of keys that become one; None: such keys are refused."""
        recoding = self.plan.user_key
        if recoding is None or recoding.is_check or not recoding.writer.is_counted:
            return None
        assert self.plan.new.value is not None  # noqa: S101 - keyed state has a serializer
        return CountedKeys(self.plan.new.value.restore_serializer())

    def _key_group(self, key: bytes) -> int:
        return int.from_bytes(key[: self.framing.keys.prefix], "big")

    def _user_key(self, key: bytes) -> str:
        """Return the user key of a map state's entry as text; "" for other states."""
        if self.framing.value is not ValueFraming.NULLABLE:
            return ""
        start = self.framing.keys.user_key_start(key)
        try:
            serializer = next(iter(self.plan.old.value.children())).restore_serializer()
            return shown(serializer.deserialize(DataInputView(key, start)))
        except Exception:  # noqa: BLE001 - user code may raise anything, and the value is already reported
            return hex_shown(key[start:])

    def _place(self, error: StateShiftError, key: bytes, start: int) -> None:
        """Add the location to an error: key, path, rule, and the entry's offset in the block."""
        error.where.setdefault("key", self.framing.show_key(key))
        error.where["offset"] = start
        name_rule(error, self.plan)

    def _key(self, key: bytes) -> bytes:
        recoding = self.plan.user_key
        if recoding is None:
            return key
        start = self.framing.keys.user_key_start(key)
        with at_step(recoding.step):
            new_key = key[:start] + recode_all(recoding, key[start:])
        return key if recoding.is_check else new_key

    def _keep_apart(self, new_key: bytes, seen: dict[bytes, bytes]) -> None:
        recoding = self.plan.user_key
        if recoding is None or recoding.is_check:
            return
        if new_key in seen:
            start = self.framing.keys.user_key_start(new_key)
            raise ValuesCollide(
                f"two user keys of one key become the same {recoding.writer.describe()}: {hex_shown(new_key[start:])}",
                advice="let a converter keep them apart, or keep the type of the user key",
                path="$" + recoding.step,
                rule="MAP-3",
            )
        seen[new_key] = b""

    def _whole(self, value: bytes, _: _LeftOut) -> bytes | None:
        recoding = self.plan.value
        if recoding is None:
            return value
        source, target = DataInputView(value), DataOutputView()
        new = converted(recoding, source)
        expect_end(source)
        if new is EXPIRED:
            return None
        write(recoding, new, target)
        return target.getvalue()

    def _separated(self, value: bytes, left_out: _LeftOut) -> bytes | None:
        """Rewrite elements separated by a byte, whose value has no meaning; return None if all have expired."""
        recoding = self.plan.value
        if recoding is None:
            return value
        source, target = DataInputView(value), DataOutputView()
        read = written = 0
        with at_step(recoding.step):
            while not read or source.remaining():
                if read:
                    source.skip_bytes(1)
                read += 1
                element = converted(recoding, source)
                if element is EXPIRED:
                    continue
                if written:
                    target.write(SEPARATOR)
                written += 1
                write(recoding, element, target)
        left_out.elements += read - written
        return target.getvalue() if written else None

    def _nullable(self, value: bytes, _: _LeftOut) -> bytes | None:
        """Rewrite a null flag and the value; bytes after a true flag have no meaning and are dropped.

        A null has no timestamp and does not expire, but gets one if the new type stores a null with its timestamp.
        """
        recoding = self.plan.value
        if recoding is None:
            return value
        source, target = DataInputView(value), DataOutputView()
        with at_step(recoding.step):
            item = None
            if not source.read_boolean():
                item = converted(recoding, source)
                expect_end(source)
            elif recoding.null_stamp_ms is not None:
                item = TtlValue(recoding.null_stamp_ms, None)
            if item is EXPIRED:
                return None
            if recoding.is_check and not value[0]:
                return value
            if item is not None:
                target.write_byte(0)
                write(recoding, item, target)
            elif recoding.nullable:
                target.write_byte(1)
            else:
                raise ValueNotConvertible(
                    "a null is stored, but the map's values are not declared optional",
                    advice="declare the value type optional (T | None)",
                )
        return target.getvalue()


def name_rule(error: StateShiftError, plan: StatePlan) -> None:
    """Add the rule of the piece that failed to an error, and a default advice if it has none."""
    error.advice = error.advice or _WAY_OUT
    rule = plan.rule_at(str(error.where.setdefault("path", "$")))
    if rule is not None:
        error.where.setdefault("rule", rule)


def hex_shown(data: bytes) -> str:
    """Return bytes as text for a message: the first ones, in hexadecimal."""
    return shown(data[:_MAX_SHOWN_BYTES].hex())
