"""OPTIONS files of RocksDB: what reading needs of them, and a new file with only that.

An OPTIONS file has no checksum, and up to 70 KB of settings: paths of the machine that wrote it, numbers of threads,
sizes of buffers. Of these only the column families, their comparator, their merge operator and their number of levels
determine what is read. They are required to be what Flink sets, and everything else is left out of the file by which
a database is opened. A few more say how files with entries are written, and are taken over by a database that is
written in place of the stored one.
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
_FAMILY, _VERSION, _TABLES = "CFOptions", "Version", "TableOptions/BlockBasedTable"
_COMPARATOR = "leveldb.BytewiseComparator"
_NO_OPERATOR = "nullptr"
_APPENDS = {"StringAppendTESTOperator", "StringAppendOperator", "stringappendtest", "stringappend"}
_DELIMITER = ","
_LEVELS = range(1, 65)
_BLOCK_BYTES, _RESTARTS = range(1, (1 << 32) + 1), range(1, 1 << 31)
_OLD = "6."
TABLE_FORMAT = 5
"""The format of files with entries that are written: that of RocksDB 6.6 on, which Flink has had since 1.17."""


_NO_BOTTOM = "kDisableCompressionOption"
_FIFO = "kCompactionStyleFIFO"


@attrs.frozen
class TableSettings:
    """How files with entries are written.

    Attributes:
        compression: How RocksDB calls the compression of the last level.
        block_bytes: The size of a block.
        restart_interval: After how many entries of a block a key is written as a whole.
        is_fifo: Whether files are only ever deleted, the oldest first, so that none may be on another level than 0.
    """

    compression: str = "kSnappyCompression"
    block_bytes: int = 4096
    restart_interval: int = 16
    is_fifo: bool = False


@attrs.frozen
class Family:
    """A column family.

    Attributes:
        name: The name: of a state, or `default`.
        appends: The merge operator by which elements are appended to list state; "": there is none.
        levels: The number of levels.
        delimiter: What the merge operator puts between two elements: a comma in Flink; Spark may have "".
        tables: How its files are written; by default as Flink does.
    """

    name: str
    appends: str = ""
    levels: int = 7
    delimiter: str = ","
    tables: TableSettings = TableSettings()


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
    version, families = "", list[Family]()
    try:
        for kind, section, facts in _sections(data.decode("utf-8")):
            if kind == _VERSION:
                version = facts.get("rocksdb_version", "")
            elif kind == _FAMILY:
                families.append(_family(section, facts, version))
            elif kind == _TABLES and families and families[-1].name == section:
                families[-1] = attrs.evolve(families[-1], tables=_blocks(families[-1].tables, facts))
    except (UnicodeDecodeError, KeyError, ValueError) as error:
        raise CorruptSavepoint("the file is not a list of options of RocksDB", file=name) from error
    if not version or not families or len({family.name for family in families}) < len(families):
        raise CorruptSavepoint("the file does not list the column families of a database", file=name)
    return StoredOptions(version, tuple(families))


def print_options(options: StoredOptions) -> str:
    """Return the text of an OPTIONS file by which a database is opened for reading, every check of files included."""
    lines = [*_head(options), "paranoid_checks=true", "verify_sst_unique_id_in_manifest=true", "max_open_files=512"]
    lines += ["skip_checking_sst_file_sizes_on_db_open=false", "max_file_opening_threads=1"]
    for family in options.families:
        operator = f"{{id={family.appends};delimiter={family.delimiter};}}" if family.appends else _NO_OPERATOR
        lines += [*_family_lines(family, operator), _section(_TABLES, family.name)]
    return "\n".join([*lines, ""])


def print_stored_options(options: StoredOptions) -> str:
    """Return the text of the OPTIONS file of a new database, as the RocksDB that `options` names writes it."""
    lines = _head(options)
    for family in options.families:
        operator = f"{{id={family.appends};delimiter={family.delimiter};}}"
        if not family.appends:
            operator = _NO_OPERATOR
        elif options.version.startswith(_OLD):
            operator = family.appends
        tables = family.tables
        lines += [*_family_lines(family, operator), f"compression={tables.compression}"]
        lines += [_section(_TABLES, family.name), f"block_size={tables.block_bytes}"]
        lines += [f"block_restart_interval={tables.restart_interval}", f"format_version={TABLE_FORMAT}"]
        lines += ["checksum=kCRC32c"]
    return "\n".join([*lines, ""])


def _head(options: StoredOptions) -> list[str]:
    return ["[Version]", f"rocksdb_version={options.version}", "options_file_version=1.1", "[DBOptions]"]


def _family_lines(family: Family, operator: str) -> list[str]:
    lines = [_section(_FAMILY, family.name), f"comparator={_COMPARATOR}", f"num_levels={family.levels}"]
    return [*lines, f"merge_operator={operator}"]


def _section(kind: str, name: str) -> str:
    escaped = _SPECIAL.sub(lambda found: "\\" + {"\n": "n", "\r": "r"}.get(found[0], found[0]), name)
    return f'[{kind} "{escaped}"]'


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
    tables = TableSettings(_compression(facts), is_fifo=facts.get("compaction_style") == _FIFO)
    if operator == _NO_OPERATOR:
        return Family(name, levels=levels, tables=tables)
    if operator in _APPENDS:  # RocksDB 6 leaves the delimiter out, later ones an empty one
        return Family(name, operator, levels, _DELIMITER if version.startswith(_OLD) else "", tables)
    parts = dict(part.partition("=")[::2] for part in operator.strip("{}").split(";") if part)
    if parts.keys() != {"id", "delimiter"} or parts["id"] not in _APPENDS or parts["delimiter"] != _DELIMITER:
        raise _other(name, "merge operator", operator)
    return Family(name, parts["id"], levels, tables=tables)


def _compression(facts: dict[str, str]) -> str:
    """Return the compression of the last level."""
    bottom = facts.get("bottommost_compression", _NO_BOTTOM)
    if bottom != _NO_BOTTOM:
        return bottom
    *_, last = facts.get("compression_per_level", "").strip("{}").split(":")
    return last or facts.get("compression", TableSettings().compression)


def _blocks(tables: TableSettings, facts: dict[str, str]) -> TableSettings:
    block_bytes = int(facts.get("block_size", tables.block_bytes))
    restart_interval = int(facts.get("block_restart_interval", tables.restart_interval))
    if block_bytes not in _BLOCK_BYTES or restart_interval not in _RESTARTS:
        raise ValueError(block_bytes, restart_interval)
    return attrs.evolve(tables, block_bytes=block_bytes, restart_interval=restart_interval)


def _other(family: str, what: str, found: str) -> UnsupportedFormat:
    return UnsupportedFormat(
        f"the column family {family!r} has the {what} {shown(found)}, which Flink does not set",
        advice="use another copy of the snapshot: this file has no checksum, so it may be damaged",
    )
