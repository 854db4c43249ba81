"""OPTIONS files of RocksDB: what reading needs of them, and a new file with only that.

An OPTIONS file has no checksum, and up to 70 KB of settings: paths of the machine that wrote it, numbers of threads,
sizes of buffers. Of these only the column families, their comparator, their merge operator and their number of levels
determine what is read. They are required to be what Flink sets, and everything else is left out of the file by which
a database is opened.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import attrs

from ...serializers.errors import CorruptSavepoint, UnsupportedFormat, shown

if TYPE_CHECKING:
    from collections.abc import Iterator

DEFAULT_FAMILY = "default"
_SECTION = re.compile(r'\[(?P<kind>[\w/]+)(?: "(?P<name>.*)")?\]')
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)
_SPECIAL = re.compile(r"([\\#:\n\r])")
_NAMED = {"n": "\n", "r": "\r"}
_FAMILY, _VERSION = "CFOptions", "Version"
_COMPARATOR = "leveldb.BytewiseComparator"
_NO_OPERATOR = "nullptr"
_APPENDS = {"StringAppendTESTOperator", "StringAppendOperator", "stringappendtest", "stringappend"}
_DELIMITER = ","
_LEVELS = range(1, 65)


@attrs.frozen
class Family:
    """A column family.

    Attributes:
        name: The name: of a state, or `default`.
        appends: The merge operator by which elements are appended to list state; "": there is none.
        levels: The number of levels.
        delimiter: What the merge operator puts between two elements: a comma in Flink; Spark may have "".
    """

    name: str
    appends: str = ""
    levels: int = 7
    delimiter: str = ","


@attrs.frozen
class StoredOptions:
    """What reading needs of an OPTIONS file.

    Attributes:
        version: The release of RocksDB that wrote the file, such as `8.10.0`.
        families: The column families, `default` included.
    """

    version: str
    families: tuple[Family, ...]


def read_options(data: bytes, name: str) -> StoredOptions:
    """Read an OPTIONS file.

    Args:
        data: The content of the file.
        name: The name of the file in messages.

    Raises:
        CorruptSavepoint: The file is damaged.
        UnsupportedFormat: A column family has another comparator or merge operator than Flink sets.
    """
    version, families = "", []
    try:
        for kind, section, facts in _sections(data.decode("utf-8")):
            if kind == _VERSION:
                version = facts.get("rocksdb_version", "")
            elif kind == _FAMILY:
                families.append(_family(section, facts, version))
    except (UnicodeDecodeError, KeyError, ValueError) as error:
        raise CorruptSavepoint("the file is not a list of options of RocksDB", file=name) from error
    if not version or not families or len({family.name for family in families}) < len(families):
        raise CorruptSavepoint("the file does not list the column families of a database", file=name)
    return StoredOptions(version, tuple(families))


def print_options(options: StoredOptions) -> str:
    """Return the text of an OPTIONS file by which a database is opened for reading, every check of files included."""
    lines = ["[Version]", f"rocksdb_version={options.version}", "options_file_version=1.1", "[DBOptions]"]
    lines += ["paranoid_checks=true", "verify_sst_unique_id_in_manifest=true", "max_open_files=512"]
    lines += ["skip_checking_sst_file_sizes_on_db_open=false", "max_file_opening_threads=1"]
    for family in options.families:
        name = _SPECIAL.sub(lambda found: "\\" + {"\n": "n", "\r": "r"}.get(found[0], found[0]), family.name)
        operator = f"{{id={family.appends};delimiter={family.delimiter};}}" if family.appends else _NO_OPERATOR
        lines += [f'[{_FAMILY} "{name}"]', f"comparator={_COMPARATOR}", f"num_levels={family.levels}"]
        lines += [f"merge_operator={operator}", f'[TableOptions/BlockBasedTable "{name}"]']
    return "\n".join([*lines, ""])


def _sections(text: str) -> Iterator[tuple[str, str, dict[str, str]]]:
    """Yield the kind, the name and the options of each section."""
    kind, name, facts = "", "", dict[str, str]()
    for line in (line.strip() for line in text.splitlines()):
        found = _SECTION.fullmatch(line)
        if found is not None:
            yield kind, name, facts
            kind, facts = found["kind"], {}
            name = _ESCAPED.sub(lambda one: _NAMED.get(one[1], one[1]), found["name"] or "")
        elif line and not line.startswith("#"):
            option, _, value = line.partition("=")
            facts[option] = value
    yield kind, name, facts


def _family(name: str, facts: dict[str, str], version: str) -> Family:
    comparator, operator, levels = facts["comparator"], facts["merge_operator"], int(facts["num_levels"])
    if comparator != _COMPARATOR:
        raise _other(name, "comparator", comparator)
    if levels not in _LEVELS:
        raise ValueError(levels)
    if operator == _NO_OPERATOR:
        return Family(name, levels=levels)
    if operator in _APPENDS:  # RocksDB 6 leaves the delimiter out, later ones an empty one
        return Family(name, operator, levels, _DELIMITER if version.startswith("6.") else "")
    parts = dict(part.partition("=")[::2] for part in operator.strip("{}").split(";") if part)
    if parts.keys() != {"id", "delimiter"} or parts["id"] not in _APPENDS or parts["delimiter"] != _DELIMITER:
        raise _other(name, "merge operator", operator)
    return Family(name, parts["id"], levels)


def _other(family: str, what: str, found: str) -> UnsupportedFormat:
    return UnsupportedFormat(
        f"the column family {family!r} has the {what} {shown(found)}, which Flink does not set",
        advice="use another copy of the snapshot: this file has no checksum, so it may be damaged",
    )
