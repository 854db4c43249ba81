"""Types of columns in a compiled plan: texts such as `DECIMAL(10, 2) NOT NULL`, or objects where these say too little.

    {"type": "TIMESTAMP_WITHOUT_TIME_ZONE", "precision": 3, "kind": "ROWTIME"}
    {"type": "ROW", "fields": [{"name": "ts", "fieldType": …}, …]}

Types that hold objects of Java (RAW, structured, distinct, symbols) are not built from a plan.
Source: `LogicalTypeJsonSerializer` of Flink 2.3; `asSerializableString` of its types.
"""

from __future__ import annotations

import re
from typing import Any, NoReturn

import attrs

from ...serializers.errors import CorruptFile, UnsupportedFormat
from ...serializers.sql.logical_types import LogicalField, LogicalType
from ...serializers.ways_out import Option, Told, WayOut

_LARGEST = 2**31 - 1
_MOST_NESTED = 64
_TOKEN = re.compile(r"\s*(?:`(?P<quoted>(?:[^`]|``)*)`|'(?P<text>(?:[^']|'')*)'|(?P<word>\w+)|(?P<sign>[(),<>]))")
_ROOTS = {
    "INT": "INTEGER", "TIME": "TIME_WITHOUT_TIME_ZONE", "TIMESTAMP": "TIMESTAMP_WITHOUT_TIME_ZONE",
    "TIMESTAMP_LTZ": "TIMESTAMP_WITH_LOCAL_TIME_ZONE", "STRING": "VARCHAR", "BYTES": "VARBINARY",
}  # fmt: skip
_PARAMETERS = {
    "CHAR": ("length",), "VARCHAR": ("length",), "BINARY": ("length",), "VARBINARY": ("length",),
    "DECIMAL": ("precision", "scale"), "TIME_WITHOUT_TIME_ZONE": ("precision",),
    "TIMESTAMP_WITHOUT_TIME_ZONE": ("precision",), "TIMESTAMP_WITH_LOCAL_TIME_ZONE": ("precision",),
}  # fmt: skip
_DEFAULTS = {
    "CHAR": (1,), "VARCHAR": (1,), "BINARY": (1,), "VARBINARY": (1,), "DECIMAL": (10, 0),
    "TIME_WITHOUT_TIME_ZONE": (0,), "TIMESTAMP_WITHOUT_TIME_ZONE": (6,), "TIMESTAMP_WITH_LOCAL_TIME_ZONE": (6,),
}  # fmt: skip
_BARE = frozenset({"BOOLEAN", "TINYINT", "SMALLINT", "INTEGER", "BIGINT", "FLOAT", "DOUBLE", "DATE"})
_NESTED = {"ARRAY": ("elementType",), "MULTISET": ("elementType",), "MAP": ("keyType", "valueType")}
_TIME_ATTRIBUTES = ("TIMESTAMP_WITHOUT_TIME_ZONE", "TIMESTAMP_WITH_LOCAL_TIME_ZONE")
_OF_JAVA = frozenset({"RAW", "STRUCTURED", "STRUCTURED_TYPE", "DISTINCT_TYPE", "SYMBOL", "NULL", "UNRESOLVED"})
_INTERVALS = {"YEAR": "yearPrecision", "DAY": "dayPrecision", "SECOND": "fractionalPrecision"}
_MONTHS = ("YEAR", "MONTH")


def type_of(found: Any, place: str) -> LogicalType:
    """Return the type that a part of a plan is.

    Args:
        found: The text or object.
        place: The file, for messages.

    Raises:
        CorruptFile: It is no type.
        UnsupportedFormat: The type holds objects of Java.
    """
    try:
        return _type(found, 0)
    except (KeyError, TypeError, ValueError) as error:
        raise CorruptFile(
            f"{found!r} is no type of a column", file=place, advice="name a file that COMPILE PLAN has written"
        ) from error


def _type(found: Any, depth: int) -> LogicalType:
    if depth > _MOST_NESTED:
        raise ValueError("nested too deeply")
    if isinstance(found, str):
        return _Texts(found).whole()
    root, nullable = str(found["type"]), bool(found.get("nullable", True))
    if root == "ROW":
        fields = tuple(
            LogicalField(str(one["name"]), _type(one["fieldType"], depth + 1), one.get("description"))
            for one in found["fields"]
        )
        return LogicalType(root, nullable, fields=fields)
    if root in _NESTED:
        parts = (LogicalField(name, _type(found[name], depth + 1)) for name in _NESTED[root])
        return LogicalType(root, nullable, fields=tuple(parts))
    if root not in _PARAMETERS and root not in _BARE:
        raise _not_built(root)
    return _made(root, tuple(int(found[name]) for name in _PARAMETERS.get(root, ())), nullable, found.get("kind", ""))


def _made(root: str, numbers: tuple[int, ...], nullable: bool, kind: str = "") -> LogicalType:  # noqa: FBT001
    given = (*numbers, *_DEFAULTS.get(root, ())[len(numbers) :])
    parameters: tuple[tuple[str, int | str], ...] = tuple(zip(_PARAMETERS.get(root, ()), given, strict=True))
    if root in _TIME_ATTRIBUTES:
        parameters = (*parameters, ("kind", kind or "REGULAR"))
    return LogicalType(root, nullable, parameters)


def _not_built(root: str) -> UnsupportedFormat:
    if root not in _OF_JAVA:
        raise ValueError(root)
    return UnsupportedFormat(
        f"the type {root} of a column holds objects of Java, which a plan does not show",
        advice=WayOut("take the types from a savepoint that the new query wrote:", (Told(Option.LIKE),)),
    )


@attrs.define
class _Texts:
    """Reads a type as SQL spells it, piece by piece."""

    text: str
    at: int = 0
    depth: int = 0

    def _next(self) -> re.Match[str] | None:
        return _TOKEN.match(self.text, self.at)

    def _word(self, *wanted: str) -> str:
        """Return the next piece if it is one of these words or signs, or any word; else ""."""
        found = self._next()
        piece = "" if found is None else found["word"] or found["sign"] or ""
        if found is None or (wanted and piece not in wanted) or not piece:
            return ""
        self.at = found.end()
        return piece

    def _wrong(self) -> NoReturn:
        raise ValueError(self.text)

    def _expect(self, *wanted: str) -> str:
        return self._word(*wanted) or self._wrong()

    def whole(self) -> LogicalType:
        found = self.type()
        return found if not self.text[self.at :].strip() else self._wrong()

    def type(self) -> LogicalType:
        self.depth += 1
        if self.depth > _MOST_NESTED:
            self._wrong()
        of = self._bare_type()
        self.depth -= 1
        if self._word("NOT"):
            self._expect("NULL")
            of = attrs.evolve(of, is_nullable=False)
        return of

    def _bare_type(self) -> LogicalType:
        name = self._expect()
        root = _ROOTS.get(name, name)
        if root == "INTERVAL":
            return self._interval()
        if root == "ROW":
            return LogicalType(root, fields=self._fields())
        if root in _NESTED:
            self._expect("<")
            fields = []
            for part in _NESTED[root]:
                fields.append(LogicalField(part, self.type()))
                self._expect("," if part != _NESTED[root][-1] else ">")
            return LogicalType(root, fields=tuple(fields))
        if root not in _PARAMETERS and root not in _BARE:
            raise _not_built(root)
        numbers = self._numbers()
        if name in {"STRING", "BYTES"}:
            numbers = (_LARGEST,)
        if name == "TIMESTAMP" and self._word("WITH"):
            self._expect("LOCAL")
            self._expect("TIME")
            self._expect("ZONE")
            root = "TIMESTAMP_WITH_LOCAL_TIME_ZONE"
        return _made(root, numbers, nullable=True)

    def _numbers(self) -> tuple[int, ...]:
        numbers: list[int] = []
        if self._word("("):
            while True:
                numbers.append(int(self._expect()))
                if self._expect(",", ")") == ")":
                    break
        return tuple(numbers)

    def _fields(self) -> tuple[LogicalField, ...]:
        fields: list[LogicalField] = []
        self._expect("<")
        while not self._word(">"):
            if fields:
                self._expect(",")
            found = self._next()
            if found is None or (found["quoted"] is None and not found["word"]):
                self._wrong()
            self.at = found.end()
            name = found["word"] or found["quoted"].replace("``", "`")
            of, said = self.type(), self._next()
            description = None
            if said is not None and said["text"] is not None:
                self.at, description = said.end(), said["text"].replace("''", "'")
            fields.append(LogicalField(name, of, description))
        return tuple(fields)

    def _interval(self) -> LogicalType:
        units, numbers = [], dict[str, int]()
        while True:
            unit = self._expect()
            units.append(unit)
            given = self._numbers()
            if given and unit in _INTERVALS:
                numbers[_INTERVALS[unit]] = given[-1]
            if not self._word("TO"):
                break
        resolution = "_TO_".join(units)
        if units[0] in _MONTHS:
            parameters = (("yearPrecision", numbers.get("yearPrecision", 2)), ("resolution", resolution))
            return LogicalType("INTERVAL_YEAR_MONTH", parameters=parameters)
        return LogicalType(
            "INTERVAL_DAY_TIME",
            parameters=(
                ("dayPrecision", numbers.get("dayPrecision", 2)),
                ("fractionalPrecision", numbers.get("fractionalPrecision", 6)),
                ("resolution", resolution),
            ),
        )
