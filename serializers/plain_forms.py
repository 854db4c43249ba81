"""Values as people read and write them: JSON forms without the tags that say a type.

Bytes are `"0x00ff"`, decimals their digits, times ISO 8601. `plain` is JSON: a written key is compared with it.
`value_text` is for reading alone: it has the classes of records, too, and maps as `{key: value}`. A form whose content
is not that of its tag stays as it is.
"""

from __future__ import annotations

import datetime as dt
import re
from decimal import Decimal
from functools import partial
from typing import TYPE_CHECKING, Any

from .errors import ValueNotConvertible
from .temporal.serializers import TIMES
from .temporal.values import Instant
from .wording import json_text

if TYPE_CHECKING:
    from collections.abc import Callable

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


def value_text(form: Any, most: int | None = None) -> str:
    """Return the text of the JSON form of a value; text in it is as in JSON, without what is not printable.

    Args:
        form: The JSON form.
        most: How many characters of a text, and how many elements of a list or a map, are shown; None: all.
    """
    text = partial(value_text, most=most)
    match form:
        case {"$pojo": {"class": str(name), "fields": inner}} | {"$object": {"class": str(name), "attributes": inner}}:
            return _word(re.split("[.$]", name)[-1]) + text(inner)
        case {"$row": {"kind": str(kind), "fields": inner}} | {"$sqlrow": {"kind": str(kind), "fields": inner}}:
            return ("" if kind in _INSERTED else f"{_word(kind)} ") + text(inner)
        case {"$map": list(pairs)} if all(isinstance(pair, list) and len(pair) == 2 for pair in pairs):
            return "{" + _listed(pairs, lambda pair: f"{text(pair[0])}: {text(pair[1])}", most) + "}"
        case {"$tuple": inner} | {"$set": inner} | {"$avro": inner} | {"$pickle": {"value": inner}}:
            return text(inner)
        case {"$left": inner} | {"$right": inner}:
            return f"{next(iter(form))[1:]} {text(inner)}"
        case {"$window": [start, end]}:
            return f"{text({'$date': start})} to {text({'$date': end})}"
        case {"$enum": str(word)} | {"$opaque": str(word)} | {"$bigint": str(word)} | {"$double": str(word)}:
            return _cut(_word(word), most)
        case dict():
            if (scalar := _scalar(form)) is not None:
                return _cut(scalar, most)
            return "{" + _listed([*form.items()], lambda field: f"{json_text(field[0])}: {text(field[1])}") + "}"
        case list():
            return "[" + _listed(form, text, most) + "]"
        case str() if most is not None and len(form) > most:
            return f'{json_text(form[:most])[:-1]}…" ({len(form):,} characters)'
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


def _listed(items: list[Any], text: Callable[[Any], str], most: int | None = None) -> str:
    shown = [text(item) for item in items[:most]]
    return ", ".join([*shown, f"… {len(items) - len(shown):,} more"] if len(shown) < len(items) else shown)


def _cut(text: str, most: int | None) -> str:
    return text if most is None or len(text) <= most else f"{text[:most]}… ({len(text):,} characters)"


def _word(text: str) -> str:
    return json_text(text)[1:-1]
