"""The frames of a MANIFEST, a log in blocks of 32 KiB, held against their checksums.

    u32 little-endian masked CRC-32C of type and content, u16 little-endian size, u8 type, content
    types 5 to 8: u32 log number before the content; the last bytes of a block that fit no header are 0

RocksDB takes a broken frame at the end for one that a crash cut off, and opens the database without it. In a snapshot
every frame is whole, so a broken one is damage.
"""

from __future__ import annotations

import struct

from ...serializers.errors import CorruptSavepoint

_BLOCK_BYTES = 1 << 15
_HEADER = struct.Struct("<IHB")
_TYPES, _RECYCLABLE = range(1, 9), range(5, 9)
_LOG_NUMBER_BYTES = 4
_MASK_DELTA = 0xA282EAD8
_CRC_BYTES, _SIZE_BYTES = 4, 2


def require_whole_manifest(data: bytes, name: str) -> None:
    """Refuse a MANIFEST with a frame that is cut off or does not match its checksum.

    Args:
        data: The content of the file.
        name: The name of the file in messages.

    Raises:
        CorruptSavepoint: A frame is damaged.
    """
    import google_crc32c

    at = 0
    while at < len(data):
        left = _BLOCK_BYTES - at % _BLOCK_BYTES
        if left < _HEADER.size:
            if any(data[at : at + left]):
                raise CorruptSavepoint("the bytes between two blocks are damaged", file=name, offset=at)
            at += left
            continue
        if at + _HEADER.size > len(data):
            raise CorruptSavepoint("a frame is cut off", file=name, offset=at)
        masked, size, kind = _HEADER.unpack_from(data, at)
        extra = _LOG_NUMBER_BYTES if kind in _RECYCLABLE else 0
        end = at + _HEADER.size + extra + size
        if kind not in _TYPES or end > len(data) or end - at > left:
            raise CorruptSavepoint("a frame is cut off or damaged", file=name, offset=at)
        if google_crc32c.value(data[at + _CRC_BYTES + _SIZE_BYTES : end]) != _unmasked(masked):
            raise CorruptSavepoint("a frame does not match its checksum", file=name, offset=at)
        at = end


def _unmasked(masked: int) -> int:
    turned = (masked - _MASK_DELTA) & 0xFFFFFFFF
    return (turned >> 17 | turned << 15) & 0xFFFFFFFF
