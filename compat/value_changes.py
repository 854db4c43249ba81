"""What is done at each path of a value, found by comparing it before and after, with what a check found of its type.

Both values are JSON (`serializers.json_forms`). A value that differs was converted. Of fields of records that only one
side has, the findings of the check say which were renamed; nothing is guessed from equal values.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import attrs

from ..serializers.compatibility import Path
from ..serializers.plain_forms import plain
from .entry_samples import Did, EntryChange
from .type_difference import Kind, compare_types

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from ..serializers.compatibility import Finding
    from ..serializers.snapshot import TypeSerializerConfigSnapshot

_RENAMED = frozenset({"REC-6", "SPK-2"})
"""The rules whose findings have the stored name of a field, or its path, as the old side."""
_RECORDS = ("$pojo", "$row", "$sqlrow")


def _bare(path: str) -> str:
    """Return a path without the marks of what may be null: values do not show them."""
    return path.replace("?", "")


@attrs.frozen
class ValueRules:
    """What is known of a conversion beside the values. Created with `of`.

    Attributes:
        renames: The stored names of renamed fields, by their new paths.
        retyped: The paths at which one type becomes another.
        rules: The rules of findings, by path.
        converter: The name of the converter that makes the value; "": there is none.
        converted: The names of the functions that make fields, by path.
    """

    renames: Mapping[str, str] = attrs.field(factory=dict)
    retyped: frozenset[str] = frozenset()
    rules: Mapping[str, str] = attrs.field(factory=dict)
    converter: str = ""
    converted: Mapping[str, str] = attrs.field(factory=dict)

    @classmethod
    def of(
        cls,
        findings: Iterable[Finding],
        old: TypeSerializerConfigSnapshot[Any] | None,
        new: TypeSerializerConfigSnapshot[Any] | None,
        converter: str = "",
        *,
        below: str = "",
    ) -> ValueRules:
        """Return what findings and types say of a conversion.

        Args:
            findings: The findings about the state.
            old: The stored type; None: it is not known.
            new: The new type; None: it is not known.
            converter: The name of the converter that makes the value, or "".
            below: The path of a value of these types; "": it is the whole of the state, as findings have it.
        """
        found = list(findings)
        changes = compare_types(old, new, below or "$") if old is not None and new is not None else ()
        return cls(
            {_bare(one.path): Path(one.old).last for one in found if one.rule in _RENAMED and one.old != one.new},
            frozenset(_bare(one.path) for one in changes if one.kind is Kind.TYPE),
            {_bare(one.path): one.rule for one in sorted(found, key=lambda one: one.verdict)},
            converter,
        )


def value_changes(old: Any, new: Any, rules: ValueRules, root: str = "$") -> tuple[EntryChange, ...]:
    """Return what is done at each path of a value, in the order of the new value, then what is left out.

    Args:
        old: The old value as JSON.
        new: The new value as JSON.
        rules: What is known of the conversion.
        root: The path of the value.
    """
    found = _Found(rules)
    found.compare(old, new, root, root)
    return tuple(found.told.values())


@attrs.define
class _Found:
    rules: ValueRules
    told: dict[tuple[str, Did], EntryChange] = attrs.field(factory=dict)

    def compare(self, old: Any, new: Any, path: str, was: str) -> None:
        ours, theirs = _fields(old), _fields(new)
        if ours is not None and theirs is not None and not _is_moved(old, new):
            self._records(ours, theirs, path, was)
            return
        pairs, others = _pairs(old), _pairs(new)
        if pairs is not None and others is not None:
            self._maps(pairs, others, path, was)
            return
        items, new_items = _items(old), _items(new)
        if items is not None and new_items is not None and len(items) == len(new_items):
            is_tuple = isinstance(old, dict) and isinstance(new, dict)
            for at, (one, other) in enumerate(zip(items, new_items, strict=True)):
                step = f"({at})" if is_tuple else "[]"
                self.compare(one, other, path + step, was + step)
            return
        if _text(old) != _text(new):
            filled = old is None and not self.rules.converter
            self._tell(Did.DEFAULTED if filled else Did.CONVERTED, path, was, old, new)
        elif old is not None and path in self.rules.retyped:
            self._tell(Did.WIDENED, path, was, old, new)

    def _records(self, ours: dict[str, Any], theirs: dict[str, Any], path: str, was: str) -> None:
        taken = set[str]()
        for step, value in theirs.items():
            at = path + step
            source = f".{self.rules.renames[at]}" if at in self.rules.renames else step
            if source not in ours:
                source = step
            if source not in ours:
                self._tell(Did.CONVERTED if self.rules.converter else Did.DEFAULTED, at, "", None, value)
                continue
            taken.add(source)
            if source != step:
                self._tell(Did.RENAMED, at, was + source, ours[source], value)
            self.compare(ours[source], value, at, was + source)
        for step, value in ours.items():
            if step not in taken:
                self._tell(Did.DROPPED, was + step, "", value, None)

    def _maps(self, ours: list[Any], theirs: list[Any], path: str, was: str) -> None:
        left = {_text(key): (key, value) for key, value in ours}
        others = []
        for key, value in theirs:
            found = left.pop(_text(key), None)
            if found is None:
                others.append((key, value))
            else:
                self.compare(found[0], key, path + "<key>", was + "<key>")
                self.compare(found[1], value, path + "{}", was + "{}")
        for (old, _), (new, _) in zip(left.values(), others, strict=False):  # which became which is not known
            self._tell(Did.CONVERTED, path + "<key>", was + "<key>", old, new)
        for key, _ in [*left.values()][len(others) :]:
            self._tell(Did.DROPPED, was + "<key>", "", key, None)
        for key, _ in others[len(left) :]:
            self._tell(Did.CONVERTED, path + "<key>", "", None, key)

    def _tell(self, did: Did, path: str, was: str, old: Any, new: Any) -> None:
        before = self.told.get((path, did))
        if before is not None:
            self.told[path, did] = attrs.evolve(before, count=before.count + 1)
            return
        self.told[path, did] = EntryChange(
            path=path,
            did=did,
            old=old,
            new=new,
            old_path=was if was != path else "",
            by=self.rules.converted.get(path, self.rules.converter) if did is Did.CONVERTED else "",
            rule=self.rules.rules.get(path, ""),
        )


def _fields(form: Any) -> dict[str, Any] | None:
    """Return the fields of a record by the steps that lead to them; None: it is none."""
    if not isinstance(form, dict):
        return None
    found: Any = next((form[tag]["fields"] for tag in _RECORDS if tag in form), None)
    if found is None and "$pickle" in form:
        return _fields(form["$pickle"].get("value"))
    if found is None and "$avro" in form:
        return _fields(form["$avro"])
    if found is None and not any(name.startswith("$") for name in form):
        found = form
    if isinstance(found, list):
        return {f"({at})": one for at, one in enumerate(found)}
    return None if found is None else {f".{name}": one for name, one in found.items()}


def _is_moved(old: Any, new: Any) -> bool:
    """Whether columns of Flink SQL, of which only the places are known, may have other places."""
    columns = [one["$sqlrow"]["fields"] for one in (old, new) if isinstance(one, dict) and "$sqlrow" in one]
    return len(columns) == 2 and any(isinstance(one, list) for one in columns) and len(columns[0]) != len(columns[1])


def _pairs(form: Any) -> list[Any] | None:
    """Return the entries of a map; None: it is none."""
    return form["$map"] if isinstance(form, dict) and "$map" in form else None


def _items(form: Any) -> list[Any] | None:
    """Return the elements of a list or a tuple; None: it is none."""
    return form if isinstance(form, list) else form["$tuple"] if isinstance(form, dict) and "$tuple" in form else None


def _text(form: Any) -> str:
    return json.dumps(plain(form), sort_keys=True)
