"""Serializers stored beside a savepoint, for types that no snapshot can describe (rule READ-2).

`_serializers.json` maps `<operator id>/<scope>/<state>`, where the scope is keyed, operator or broadcast, to a
cloudpickle in base64. It is opt-in on writing, and nothing in it is unpickled unless the caller trusts it, because
unpickling runs any code in the file.
"""

from __future__ import annotations

import base64
import json
import re
from typing import TYPE_CHECKING, Any

import attrs

from ...compat.json_files import parse_json
from ...serializers.errors import CorruptSavepoint, UntrustedCode, cause_text
from ...serializers.serializer import TypeSerializer
from ...serializers.ways_out import Option, Told, WayOut
from ..formats.flink.sources import require_digest
from .lineage import FileDigest

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ..storage.files import Folder
    from .lineage import Lineage

SERIALIZERS = "_serializers.json"
_NAME = re.compile(r"_serializers(-[0-9a-f]{12})?\.json")
FORMAT = 1


def place_of(operator_id: str, scope: str, state: str) -> str:
    """Return the key of a state within the file."""
    return f"{operator_id}/{scope}/{state}"


def write_stored_serializers(folder: Folder, serializers: Mapping[str, TypeSerializer[Any]]) -> bytes:
    """Write the file; return its content."""
    import cloudpickle

    return write_pickles(folder, {place: cloudpickle.dumps(serializer) for place, serializer in serializers.items()})


def write_pickles(folder: Folder, pickles: Mapping[str, bytes], name: str = SERIALIZERS) -> bytes:
    """Write the file with pickles that are copied unopened; return its content.

    Args:
        folder: The savepoint.
        pickles: The pickles, by `place_of`.
        name: The name of the file, which the lineage of the savepoint contains.
    """
    texts = {place: base64.b64encode(data).decode("ascii") for place, data in pickles.items()}
    data = json.dumps({"format": FORMAT, "serializers": texts}, indent=2, sort_keys=True).encode() + b"\n"
    folder.write(name, data)
    return data


def read_stored_serializers(folder: Folder, lineage: Lineage | None = None) -> dict[str, bytes]:
    """Read the pickles by `place_of`, unopened; return an empty dict if there is no such file.

    Args:
        folder: The savepoint.
        lineage: The savepoint's lineage, which has the name and the digest of the file.

    Raises:
        CorruptSavepoint: The file is damaged, or its digest differs.
    """
    named = filter(_NAME.fullmatch, lineage.files) if lineage is not None else iter(())
    file = next(named, SERIALIZERS)
    if not folder.exists(file):
        return {}
    data = folder.read(file)
    digest = lineage.digest_of(file) if lineage is not None else None
    if digest is not None:
        require_digest(file, FileDigest.of(data).xxh128, digest.xxh128)
    try:
        facts = parse_json(data)
        if facts["format"] != FORMAT:
            raise ValueError(f"format {facts['format']} is not known")
        return {place: base64.b64decode(text, validate=True) for place, text in facts["serializers"].items()}
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise CorruptSavepoint(f"the stored serializers cannot be read: {error}", file=file) from error


@attrs.frozen
class StoredSerializer:
    """The loader of one stored serializer; it works only if the caller trusts it."""

    place: str
    data: bytes = attrs.field(repr=False)
    trusted: bool

    def __call__(self) -> TypeSerializer[Any]:
        """Unpickle the serializer.

        Raises:
            UntrustedCode: The caller does not trust it.
            CorruptSavepoint: It cannot be unpickled here, or the object is not a serializer.
        """
        if not self.trusted:
            raise UntrustedCode(
                f"the one stored for {self.place} is not trusted, and unpickling it would run its code",
                advice=WayOut("only if you trust its origin:", (Told(Option.TRUST_STORED_SERIALIZERS),)),
            )
        import pickle

        try:
            serializer = pickle.loads(self.data)  # noqa: S301 - the caller trusts it
        except Exception as error:
            raise CorruptSavepoint(
                f"the stored serializer of {self.place} does not unpickle: {cause_text(error)}",
                file=SERIALIZERS,
                advice="make the modules that it needs importable",
            ) from error
        if not isinstance(serializer, TypeSerializer):
            raise CorruptSavepoint(f"{self.place} holds a {type(serializer).__name__}", file=SERIALIZERS)
        return serializer
