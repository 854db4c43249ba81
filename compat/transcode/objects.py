"""The executor that makes an object of every value: old reader, conversion, new writer.

It takes every pair of serializers, and is the reference for faster executors.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs

from ...serializers.errors import (
    CorruptSavepoint,
    StateShiftError,
    ValueNotConvertible,
    ValuesCollide,
    add_step,
    cause_text,
    located,
    shown,
)
from ...serializers.limits import require_room
from ...serializers.views import DataInputView, DataOutputView
from .framing import ValueFraming
from .transcoder import Transcoded

if TYPE_CHECKING:
    from collections.abc import Callable

    from ...serializers.snapshot import TypeSerializerConfigSnapshot
    from ..plan import Recoding, StatePlan
    from .framing import EntryFraming

SEPARATOR = b"\x2c"
_MAX_SHOWN_BYTES = 40
_WAY_OUT = "let a converter say what becomes of such a value, or correct the one that failed"


def converted(recoding: Recoding, source: DataInputView) -> Any:
    """Read one old value and convert it; user code that fails is named in a `ValueNotConvertible`."""
    try:
        old = recoding.reader.deserialize(source)
    except StateShiftError:
        raise
    except Exception as error:
        raise _unfit(f"the reader ({recoding.source}) failed", error) from error
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
    """Write one new value; what its serializer cannot take is a `ValueNotConvertible`."""
    try:
        recoding.writer.serialize(value, target)
    except StateShiftError:
        raise
    except Exception as error:
        raise _unfit(f"{shown(value)} cannot be written as {recoding.writer.describe()}", error) from error


def recode(recoding: Recoding, source: DataInputView, target: DataOutputView) -> None:
    """Read one old value, convert it, and write the new one."""
    write(recoding, converted(recoding, source), target)


def _unfit(what: str, error: Exception) -> ValueNotConvertible:
    return ValueNotConvertible(
        f"{what}: {cause_text(error)}",
        advice=_WAY_OUT,
    )


def recode_all(recoding: Recoding, data: bytes) -> bytes:
    """Rewrite a value that fills `data` exactly."""
    source, target = DataInputView(data), DataOutputView()
    recode(recoding, source, target)
    _expect_end(source)
    return target.getvalue()


def _expect_end(source: DataInputView) -> None:
    if source.remaining():
        raise CorruptSavepoint(f"{source.remaining()} bytes follow the value", offset=source.position)


@attrs.frozen
class ObjectTranscoder:
    """Rewrites the entries of a keyed state, object by object."""

    plan: StatePlan
    framing: EntryFraming

    @property
    def needs_whole_run(self) -> bool:
        return self.plan.user_key is not None

    def transcode(self, block: bytes) -> Transcoded:
        source, target = DataInputView(block), DataOutputView()
        rewrite = {
            ValueFraming.WHOLE: self._whole,
            ValueFraming.SEPARATED: self._separated,
            ValueFraming.NULLABLE: self._nullable,
        }[self.framing.value]
        entries, seen = 0, set[bytes]()
        with located(state=self.plan.name):
            while source.remaining():
                start = source.position
                key = source.read_fully(source.read_size("bytes of a key"))
                value = source.read_fully(source.read_size("bytes of a value"))
                try:
                    new_key = self._key(key, seen)
                    new_value = rewrite(value)
                    require_room(len(new_value))
                except StateShiftError as error:
                    self._place(error, key, start)
                    raise
                target.write_int(len(new_key))
                target.write(new_key)
                target.write_int(len(new_value))
                target.write(new_value)
                entries += 1
        return Transcoded(target.getvalue(), entries)

    def _place(self, error: StateShiftError, key: bytes, start: int) -> None:
        """Tell a failure where it happened: key, path, rule, and where in the block the entry starts."""
        error.where.setdefault("key", self.framing.show_key(key))
        error.where["offset"] = start
        _name_rule(error, self.plan)

    def _key(self, key: bytes, seen: set[bytes]) -> bytes:
        recoding = self.plan.user_key
        if recoding is None:
            return key
        start = self.framing.user_key_start(key)
        try:
            new_key = key[:start] + recode_all(recoding, key[start:])
        except StateShiftError as error:
            add_step(error, recoding.step)
            raise
        if new_key in seen:
            raise ValuesCollide(
                f"two user keys of one key become the same {recoding.writer.describe()}: {_hex(new_key[start:])}",
                advice="let a converter keep them apart, or keep the type of the user key",
                path="$" + recoding.step,
                rule="MAP-3",
            )
        seen.add(new_key)
        return new_key

    def _whole(self, value: bytes) -> bytes:
        recoding = self.plan.value
        return value if recoding is None else recode_all(recoding, value)

    def _separated(self, value: bytes) -> bytes:
        """Elements with one byte between them, whose value carries no meaning."""
        recoding = self.plan.value
        if recoding is None:
            return value
        source, target = DataInputView(value), DataOutputView()
        try:
            recode(recoding, source, target)
            while source.remaining():
                source.skip_bytes(1)
                target.write(SEPARATOR)
                recode(recoding, source, target)
        except StateShiftError as error:
            add_step(error, recoding.step)
            raise
        return target.getvalue()

    def _nullable(self, value: bytes) -> bytes:
        """A null flag and the value; what follows a true flag carries no meaning and is not written."""
        recoding = self.plan.value
        if recoding is None:
            return value
        source, target = DataInputView(value), DataOutputView()
        try:
            item = None
            if not source.read_boolean():
                item = converted(recoding, source)
                _expect_end(source)
            if item is not None:
                target.write_byte(0)
                write(recoding, item, target)
            elif recoding.nullable:
                target.write_byte(1)
            else:
                raise ValueNotConvertible(
                    "a null is stored where the map's values are not declared optional",
                    advice="declare the value type optional (T | None)",
                )
        except StateShiftError as error:
            add_step(error, recoding.step)
            raise
        return target.getvalue()


@attrs.frozen
class ListElements:
    """Rewrites elements of an operator's list state."""

    plan: StatePlan

    def transcode_element(self, element: bytes) -> bytes:
        recoding = self.plan.value
        if recoding is None:
            return element
        with located(state=self.plan.name):
            try:
                return recode_all(recoding, element)
            except StateShiftError as error:
                add_step(error, recoding.step)
                _name_rule(error, self.plan)
                raise


@attrs.frozen
class BroadcastMaps:
    """Rewrites the map of a broadcast state: i32 n, n x (key, value), without null flags (format notes 8)."""

    plan: StatePlan

    def transcode_element(self, element: bytes) -> bytes:
        source, target = DataInputView(element), DataOutputView()
        copy_key, copy_value = (
            self._copier(self.plan.user_key, self.plan.old.key),
            self._copier(self.plan.value, self.plan.old.value),
        )
        with located(state=self.plan.name):
            count, seen = source.read_size("entries of a broadcast map"), set[bytes]()
            target.write_int(count)
            for _ in range(count):
                key = self._piece(self.plan.user_key, copy_key, source)
                if key in seen:
                    raise ValuesCollide(
                        f"two keys of the broadcast map become the same: {_hex(key)}",
                        advice="let a converter keep them apart, or keep the type of the key",
                        path="$<key>",
                        rule="MAP-3",
                    )
                seen.add(key)
                target.write(key)
                target.write(self._piece(self.plan.value, copy_value, source))
            _expect_end(source)
        return target.getvalue()

    @staticmethod
    def _copier(
        recoding: Recoding | None, old: TypeSerializerConfigSnapshot[Any] | None
    ) -> Callable[[DataInputView, DataOutputView], None] | None:
        """Who passes over a piece whose bytes stay."""
        return None if recoding is not None or old is None else old.restore_serializer().copy_bytes

    def _piece(
        self,
        recoding: Recoding | None,
        copy: Callable[[DataInputView, DataOutputView], None] | None,
        source: DataInputView,
    ) -> bytes:
        target = DataOutputView()
        if copy is not None:
            copy(source, target)
        if recoding is not None:
            try:
                recode(recoding, source, target)
            except StateShiftError as error:
                add_step(error, recoding.step)
                _name_rule(error, self.plan)
                raise
        return target.getvalue()


def _name_rule(error: StateShiftError, plan: StatePlan) -> None:
    """Tell by which rule the piece that failed was to be converted, and what can be done where nobody has said it."""
    error.advice = error.advice or _WAY_OUT
    rule = plan.rule_at(str(error.where.setdefault("path", "$")))
    if rule is not None:
        error.where.setdefault("rule", rule)


def _hex(data: bytes) -> str:
    return shown(data[:_MAX_SHOWN_BYTES].hex())
