"""The ordered map in which Flink's POJO and Kryo snapshots keep their configuration; parts of an entry may be absent.

    i64 0x000004F2C69A3D70, i32 n, then for each entry
    UTF name, bool, [i32 length and key bytes], bool, [i32 length and value bytes]; false leaves a part out

Source: format notes 6.1.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from ..errors import CorruptSavepoint

if TYPE_CHECKING:
    from ..views import DataInputView, DataOutputView

_MAGIC = 0x000004F2C69A3D70
_LEAST_ENTRY_BYTES = 4  # an empty name and two flags


@attrs.frozen
class OptionalEntry:
    """A name, and up to two parts; Flink leaves out parts that it could not read on an earlier restore.

    Attributes:
        name: The name of a field or class.
        key: The first part.
        value: The second part.
        value_at: The position of the second part in the input.
    """

    name: str
    key: bytes | None
    value: bytes | None
    value_at: int = attrs.field(default=0, eq=False, repr=False)


@attrs.frozen
class OptionalMap:
    """The entries in stored order, which has a meaning (tags of subclasses, pairing of fields)."""

    entries: tuple[OptionalEntry, ...] = ()

    @classmethod
    def read(cls, source: DataInputView) -> OptionalMap:
        """Read a map; raises `CorruptSavepoint` where the bytes are no map, or a name occurs twice."""
        start = source.position
        magic = source.read_long()
        if magic != _MAGIC:
            raise CorruptSavepoint(
                f"an optional map should begin with {_MAGIC:#x} but begins with {magic:#x}", offset=start
            )
        count = source.read_size("entries", least_bytes_each=_LEAST_ENTRY_BYTES)
        entries = tuple(_read_entry(source) for _ in range(count))
        if len({entry.name for entry in entries}) < count:
            raise CorruptSavepoint("an optional map contains an entry twice", offset=start)
        return cls(entries)

    def write(self, target: DataOutputView) -> None:
        """Write the map, with its entries in their order."""
        target.write_long(_MAGIC)
        target.write_int(len(self.entries))
        for entry in self.entries:
            target.write_utf(entry.name)
            for part in (entry.key, entry.value):
                target.write_boolean(part is not None)
                if part is not None:
                    target.write_int(len(part))
                    target.write(part)


def _read_entry(source: DataInputView) -> OptionalEntry:
    name, key, value = source.read_utf(), _read_part(source), _read_part(source)
    return OptionalEntry(name, key, value, source.position - len(value or b""))


def _read_part(source: DataInputView) -> bytes | None:
    return source.read_fully(source.read_size("bytes of an entry")) if source.read_boolean() else None
