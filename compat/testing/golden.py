"""Golden files: bytes written by a release, kept beside the tests and read for ever.

    golden/<release>/<case>.json
    {"format": "stateshift golden", "version": 1, "type": words, "snapshot": base64, "value": base64}

Files of the current release may be rewritten; those of older releases never are. Source: harness cases, A02 and A10.
"""

from __future__ import annotations

import base64
import binascii
from typing import TYPE_CHECKING, Any

import attrs

from ...serializers.errors import CorruptFile, located
from ...serializers.snapshot import snapshot_from_bytes, snapshot_to_bytes
from ...serializers.views import DataOutputView
from ..json_files import parse_document, print_document
from ..type_difference import type_text

if TYPE_CHECKING:
    from pathlib import Path

    from ...serializers.serializer import TypeSerializer
    from ...serializers.snapshot import TypeSerializerConfigSnapshot
    from ..structuring import Fields

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
        target = DataOutputView()
        serializer.serialize(value, target)
        return cls(snapshot_to_bytes(serializer.snapshot_configuration()), target.getvalue())

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
        text = print_document(FORMAT, VERSION, self._to_data())
        if file.is_file() and Golden.read(file) == self:
            return False
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
        return True

    def _to_data(self) -> dict[str, str]:
        return {
            "type": type_text(self.restored_snapshot()),
            "snapshot": base64.b64encode(self.snapshot).decode("ascii"),
            "value": base64.b64encode(self.value).decode("ascii"),
        }

    def restored_snapshot(self) -> TypeSerializerConfigSnapshot[Any]:
        """Return the snapshot, read by the current code."""
        return snapshot_from_bytes(self.snapshot)


def _bytes(facts: Fields, name: str) -> bytes:
    try:
        return base64.b64decode(facts.text(name), validate=True)
    except (binascii.Error, ValueError) as error:
        raise CorruptFile(f"{name!r} is not base64: {error}") from error
