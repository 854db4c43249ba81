"""The Python source of an operator of PyFlink, whose types are found in the data.

In process mode a savepoint says no more than `byte[]`, so the first entries of each state are tried with each of
PyFlink's coders. What fits best is declared, with what else fits in a comment. In thread mode Flink has types, and
pickles where Java has none.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Any

import attrs

from ...compat.description import StateKind
from ...compat.pyflink_names import PREFIX
from ...serializers.containers.wrappers import without_ttl_awareness
from ...serializers.flink.namespaces import VoidNamespaceSerializerSnapshot
from ...serializers.pyflink.likely_types import MOST_COLUMNS, likely_types, pickled_names
from ...serializers.source import Expression, Group, NoSourceError, quoted
from ...serializers.wording import many
from ..runtime.pyflink_layout import ExecutionMode

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from ...serializers.pyflink.likely_types import LikelyType
    from ...serializers.source import Snapshot
    from .reader import SavepointOperator
    from .states import SavepointState

MOST_ENTRIES = 500
"""How many entries of each state are read to find its type."""
_MOST_BYTES = 1 << 23
_MOST_OTHERS = 4
_ANY_TEXT = "PRIMITIVE_ARRAY(BYTE)"
_WORDS = {
    "boolean": "BOOLEAN", "byte": "BYTE", "short": "SHORT", "int": "INT", "long": "LONG", "float": "FLOAT",
    "double": "DOUBLE", "string": "STRING", "decimal": "BIG_DEC", "instant": "INSTANT",
}  # fmt: skip
NOTES = f"""
Where PyFlink stored bytes, the types are what fits the first entries of a state ({MOST_ENTRIES} at
most). The comments say what else fits: set them right by the code of the job. Some
words of `Types` have the same bytes: LONG and BIG_INT; STRING and CHAR, which always fit
PRIMITIVE_ARRAY(BYTE), too; LIST, BASIC_ARRAY and OBJECT_ARRAY. `bytes` are pickles,
which stay as they are. One value for each key is declared as ValueStateDescriptor,
whether it was reduced, aggregated, or a list of one. Columns of rows have no names.
A scan of `stateshift check` reads every value by these types.
"""


def mode_of(operator: SavepointOperator) -> ExecutionMode | None:
    """Return the mode in which PyFlink wrote an operator; None: it is not one of PyFlink's.

    Its keys are rows of one column, the key, which those of other jobs hardly are.
    """
    states = [one for one in operator.states if one.kind is not StateKind.TIMERS]
    if any(_is_bytes(one) for one in states):
        return ExecutionMode.PROCESS
    key = operator.key
    is_keyed = key is not None and key.kind == "row" and len(key.children()) == 1
    return ExecutionMode.THREAD if is_keyed and any(one.kind.is_keyed for one in states) else None


def _is_bytes(state: SavepointState) -> bool:
    """Whether a state is one of process mode."""
    bare = without_ttl_awareness(state.description.value.snapshot)
    parts = bare.children() if state.kind in {StateKind.LIST, StateKind.MAP} else (bare,)
    held = parts[-1].children()[-1] if parts and parts[-1].kind == "ttl" else parts[-1] if parts else bare
    fits = state.kind in {StateKind.LIST, StateKind.MAP, StateKind.BROADCAST} and held.describe() == "bytes"
    return state.name.startswith(PREFIX) and fits


@attrs.define
class PyFlinkSource:
    """Writes the declarations of one operator.

    Attributes:
        operator: The operator.
        mode: The mode of its functions.
        hint: Returns the hint of another type than PyFlink's, such as a window.
        remarks: What is to be said of each state: how sure its type is.
    """

    operator: SavepointOperator
    mode: ExecutionMode
    hint: Callable[[Snapshot], str]
    remarks: list[str] = attrs.field(factory=list)

    def key(self, snapshot: Snapshot) -> str:
        """Return the type of the key.

        Raises:
            NoSourceError: It is none that can be declared.
        """
        (key,) = snapshot.children()
        if key.describe() == "bytes":
            keys = (entry.key[0] for state in self._keyed() for entry in _first(state.read_entries()))
            self.remarks.append(f"the key: {_told(_named(keys))}")
        return self._type(key)

    def _keyed(self) -> Iterator[SavepointState]:
        kinds = (one for one in self.operator.states if one.kind.is_keyed and one.kind is not StateKind.TIMERS)
        yield from (one for one in kinds if not one.unsupported)

    def descriptor(self, state: SavepointState) -> Expression:
        """Return the descriptor of a state as the function has it.

        Raises:
            NoSourceError: Its type cannot be seen, or is none of PyFlink's; the text is the reason.
        """
        if self.mode is ExecutionMode.THREAD:
            return self._of_java(state)
        if not _is_bytes(state):
            raise NoSourceError("in process mode, PyFlink keeps no such state")
        if state.kind is StateKind.LIST:
            return self._of_lists(state)
        keys, values, entries = self._maps(state)
        key = self._found(keys, many_each=False)
        value = self._found(values, many_each=False)
        self._say(state, entries, ("keys ", key, keys), ("values ", value, values))
        return self._described("MapStateDescriptor", state, key[0].source, value[0].source)

    def _of_lists(self, state: SavepointState) -> Expression:
        lists, entries = self._lists(state)
        contents = [one for values in lists for one in values]
        is_list = any(len(values) > 1 for values in lists)
        found = [] if is_list or not contents else likely_types(contents)
        is_list = is_list or not found or not found[0].looks_right
        if is_list:
            several = self._found(contents, many_each=True, or_else=found)
            is_list, found = several is not found, several
        self._say(state, entries, ("elements " if is_list else "", found, contents))
        word = "ListStateDescriptor" if is_list else "ValueStateDescriptor"
        return self._described(word, state, found[0].source)

    def _of_java(self, state: SavepointState) -> Expression:
        parts: tuple[Snapshot, ...] = (without_ttl_awareness(state.description.value.snapshot),)
        if state.kind is not StateKind.VALUE:
            parts = parts[0].children()
        if state.kind not in {StateKind.VALUE, StateKind.LIST, StateKind.MAP}:
            raise NoSourceError(f"in thread mode, PyFlink keeps no {state.kind} state")
        types = [self._type(one.children()[-1] if one.kind == "ttl" else one) for one in parts]
        if types[-1] == "bytes":
            held = (one for entry in _first(state.read_entries()) for one in _parts_of(entry.value))
            names = _named(held)
            values = "; rows and tuples are read as values where they are declared: Types.ROW([…]), Types.TUPLE([…])"
            is_plain = names is not None and _OF_ROWS.issuperset(names)
            self.remarks.append(f"{state.name}: {_told(names)}{values if is_plain else ''}")
        return self._described(state.kind.row.descriptor, state, *types)

    def _type(self, snapshot: Snapshot) -> str:
        word, parts = snapshot.describe(), snapshot.children()
        if word in _WORDS:
            return f"Types.{_WORDS[word]}()"
        if snapshot.kind == "map":
            return f"Types.MAP({', '.join(map(self._type, parts))})"
        if snapshot.kind == "array" and parts:
            return f"Types.OBJECT_ARRAY({self._type(parts[0])})"
        return self.hint(snapshot)

    def _described(self, word: str, state: SavepointState, *types: str) -> Expression:
        namespace = state.description.namespace
        options = []
        if namespace is not None and not isinstance(namespace.snapshot, VoidNamespaceSerializerSnapshot):
            options.append(f"namespace={self.hint(namespace.snapshot)}")
        bare = without_ttl_awareness(state.description.value.snapshot)
        has_ttl = any(one.kind == "ttl" for one in (bare, *bare.children()))
        options += ["time_to_live=True"] if has_ttl else []
        name = state.name.removeprefix(PREFIX) if self.mode is ExecutionMode.PROCESS else state.name
        return Group(f"{word}(", (quoted(name), *types, *options))

    def _found(self, samples: list[bytes], *, many_each: bool, or_else: list[LikelyType] | None = None) -> Any:
        if not samples:
            raise NoSourceError("it has no entries, so nothing shows its type: declare it as the job does")
        found = likely_types(samples, many=many_each)
        if not found or (or_else and not found[0].looks_right):
            found = or_else or found
        if not found:
            raise NoSourceError(
                f"no type of PyFlink was found that reads its first {many(len(samples), 'value')}; rows and tuples of"
                f" up to {MOST_COLUMNS} columns, and lists and maps of plain types, were tried"
            )
        return found

    def _lists(self, state: SavepointState) -> tuple[list[list[bytes]], int]:
        lists = [[one for one in _parts_of(entry.value) if one is not None] for entry in _first(state.read_entries())]
        return lists, len(lists)

    def _maps(self, state: SavepointState) -> tuple[list[bytes], list[bytes], int]:
        if state.kind is StateKind.BROADCAST:
            maps = [one for elements in state.read_elements() for one in elements]
        else:
            maps = [entry.value for entry in _first(state.read_entries())]
        values = [_bare(one) for each in maps for one in each.values() if one is not None]
        return [one for each in maps for one in each], values, len(maps)

    def _say(self, state: SavepointState, entries: int, *parts: tuple[str, list[LikelyType], list[bytes]]) -> None:
        words = [f"{part}{self._sure(found, samples)}" for part, found, samples in parts]
        which = f"all entries ({entries})" if entries < MOST_ENTRIES else f"the first {entries} entries"
        self.remarks.append(f"{state.name.removeprefix(PREFIX)}: {which} read as {', '.join(words)}")

    def _sure(self, found: list[LikelyType], samples: list[bytes]) -> str:
        first, *others = found
        if first.source == "bytes":
            return _told(_named(data[4:] for data in samples))
        fit = [one.words for one in others if one.words != _ANY_TEXT or first.words != "STRING"]
        more = ", …" if len(fit) > _MOST_OTHERS else ""
        said = [] if first.looks_right else ["its values look odd"]
        said += [f"column {number} is always null: of any type" for number in first.unseen]
        said += [f"{', '.join(fit[:_MOST_OTHERS])}{more} would fit, too"] if fit else []
        return first.words + (f" ({'; '.join(said)})" if said else "")


def _named(given: Iterable[bytes]) -> list[str] | None:
    """Return the classes that pickles name; None: they are not all pickles."""
    found = [pickled_names(one) for one in islice(given, MOST_ENTRIES)]
    if None in found or not found:
        return None
    return list(dict.fromkeys(name for one in found if one for name in one if name not in _MEANS))


def _told(names: list[str] | None) -> str:
    if names is None:
        return "bytes, which are not all pickles"
    shown = ", ".join(names[:3]) + (", …" if len(names) > 3 else "")
    return f"pickles that name {shown}; never opened" if names else "pickles of plain values; never opened"


_OF_ROWS = frozenset({"pyflink.common.types._create_row", "pyflink.common.types.RowKind"})
"""What pickles of PyFlink's rows name."""
_MEANS = frozenset({"copyreg._reconstructor", "builtins.object", "copy_reg._reconstructor"})
"""Names by which a pickle makes an object, whatever its class is."""


def _first(entries: Iterator[Any]) -> Iterator[Any]:
    """Yield the first entries, until there are enough, or enough bytes."""
    size = 0
    for entry in islice(entries, MOST_ENTRIES):
        yield entry
        size += sum(len(held) for held in _parts_of(entry.value) if isinstance(held, bytes))
        if size > _MOST_BYTES:
            return


def _parts_of(value: Any) -> Iterator[Any]:
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, list) else [value]
    return map(_bare, parts)


def _bare(value: Any) -> Any:
    """Return a value without the time of its last access."""
    return getattr(value, "value", value)
