"""Values as people read and write them: JSON forms without the tags that say a type.

Bytes are `"0x00ff"`, decimals their digits, times ISO 8601. `plain` is JSON: a written key is compared with it.
`value_text` is for reading alone: it has the classes of records, too, and maps as `{key: value}`. A form whose content
is not that of its tag stays as it is.
"""

from __future__ import annotations

import datetime as dt
import re
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from .errors import ValueNotConvertible
from .temporal.serializers import TIMES
from .temporal.values import Instant
from .wording import json_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

_FRACTION = re.compile(r"\.(\d{1,9})(?!\d)")
_INSERTED = {"INSERT", "+I"}
"""The kind of rows in state."""


def plain(form: Any) -> Any:
    """Return the JSON of a value without the tags that its type says anyway."""
    match form:
        case {"$pojo": {"fields": inner}} | {"$row": {"fields": inner}} | {"$sqlrow": {"fields": inner}}:
            return plain(inner)
        case {"$tuple": inner} | {"$enum": inner}:
            return plain(inner)
        case {"$bigint": digits}:
            return int(digits)
        case dict():
            text = _scalar(form)
            return {name: plain(item) for name, item in form.items()} if text is None else text
        case list():
            return [plain(item) for item in form]
        case float() if form.is_integer() and form:  # -0.0 is another key than 0
            return int(form)
        case _:
            return form


def value_text(form: Any) -> str:
    """Return the text of the JSON form of a value; text in it is as in JSON, without what is not printable."""
    match form:
        case {"$pojo": {"class": str(name), "fields": inner}} | {"$object": {"class": str(name), "attributes": inner}}:
            return _word(re.split("[.$]", name)[-1]) + value_text(inner)
        case {"$row": {"kind": str(kind), "fields": inner}} | {"$sqlrow": {"kind": str(kind), "fields": inner}}:
            return ("" if kind in _INSERTED else f"{_word(kind)} ") + value_text(inner)
        case {"$map": list(pairs)} if all(isinstance(pair, list) and len(pair) == 2 for pair in pairs):
            return _listed("{}", (f"{value_text(key)}: {value_text(item)}" for key, item in pairs))
        case {"$tuple": inner} | {"$set": inner} | {"$avro": inner} | {"$pickle": {"value": inner}}:
            return value_text(inner)
        case {"$left": inner}:
            return f"left {value_text(inner)}"
        case {"$right": inner}:
            return f"right {value_text(inner)}"
        case {"$window": [start, end]}:
            return f"{value_text({'$date': start})} to {value_text({'$date': end})}"
        case {"$enum": str(word)} | {"$opaque": str(word)} | {"$bigint": str(word)} | {"$double": str(word)}:
            return _word(word)
        case dict():
            text = _scalar(form)
            fields = (f"{json_text(name)}: {value_text(item)}" for name, item in form.items())
            return _listed("{}", fields) if text is None else text
        case list():
            return _listed("[]", map(value_text, form))
        case _:
            return json_text(form)


def moment_of(text: str) -> tuple[int, int]:
    """Return the seconds since 1970, and the nanoseconds, of a time in ISO 8601; one without a zone is in UTC.

    Raises:
        ValueError: It is no such time.
    """
    found = _FRACTION.search(text)
    time = dt.datetime.fromisoformat(_FRACTION.sub("", text))
    seconds = int(time.replace(tzinfo=time.tzinfo or dt.UTC).timestamp())
    return seconds, int(f"{found[1]:0<9}") if found else 0


def bytes_of(text: str) -> bytes:
    """Return bytes that are written as `0x00ff`; raises `ValueError` for anything else."""
    if not text.startswith("0x"):
        raise ValueError(f"{text!r} does not begin with 0x")
    return bytes.fromhex(text[2:])


def exact_decimal(unscaled: int | str, scale: int) -> Decimal:
    """Return a decimal of its digits and its scale, however many digits there are."""
    return Decimal(f"{int(unscaled)}E{-scale}")


def _scalar(form: dict[str, Any]) -> str | None:
    """Return the text of a form whose tag says that it is one value; None: it is another one."""
    tag = next(iter(form)) if len(form) == 1 else ""
    make = _SCALARS.get(tag)
    if make is None:
        return None
    try:
        return str(make(*form[tag]) if isinstance(form[tag], list) else make(form[tag]))
    except (TypeError, ValueError, ArithmeticError, ValueNotConvertible):
        return None


def _timestamp(millis: int, nanos: int) -> str:
    return str(Instant(millis // 1000, millis % 1000 * 1_000_000 + nanos)).removesuffix("Z")


_SCALARS: dict[str, Callable[..., object]] = {
    **{f"${time.row.flink.lower()}": time.row.value_class for time in TIMES},
    "$timestamp": _timestamp,
    "$decimal": exact_decimal,
    "$bigdec": exact_decimal,
    "$bytes": lambda digits: "0x" + bytes.fromhex(digits).hex(),
}
"""What has the text of values of one part, by the tag."""


def _listed(brackets: str, texts: Iterable[str]) -> str:
    return brackets[0] + ", ".join(texts) + brackets[1]


def _word(text: str) -> str:
    return json_text(text)[1:-1]
