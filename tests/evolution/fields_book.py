"""The rules for records and rows, as a model; see `book`. It is imported for what it registers there."""

from __future__ import annotations

import attrs
from evolution.answers import (
    COPY,
    MIGRATE,
    REFUSE,
    Misdeclared,
    Unfit,
    compose,
    fresh,
    is_sealed,
    item_of,
    judges,
    refused,
)
from evolution.book import judge
from evolution.shapes import (
    NOTHING,
    ArrayOf,
    EitherOf,
    ListOf,
    MapOf,
    Maybe,
    RecordOf,
    RowOf,
    SetOf,
    Stamped,
    TupleOf,
    stripped,
)


def pair(stored, fields):
    """Pair new fields with stored ones, by name and then by alias: {stored name: new field}."""
    by_name = {field.name for field in stored}
    former = {field.name: set(field.aliases) - {field.name} for field in fields if field.name in by_name}
    for _ in former:
        former = {name: names.union(*(former.get(one, ()) for one in names)) for name, names in former.items()}
    if any(name in names for name, names in former.items()):
        raise Misdeclared("fields take each other's values")
    claims = {field.name: field for field in fields if field.name in by_name}
    for field in fields:
        alias = next((name for name in field.aliases if name in by_name), None)
        if field.name in by_name or alias is None:
            continue
        if alias in claims:
            raise Misdeclared(f"{alias} is claimed twice")
        claims[alias] = field
    return claims


def parted(record, field):
    """The type in a field's bytes and whether the field may be null: Flink wraps optional containers of POJOs again."""
    inner, optional = stripped(field.shape)
    wraps = field.wrapped or (record.java and optional and isinstance(inner, ListOf | SetOf | MapOf))
    return (field.shape if wraps else inner), optional


@attrs.frozen
class Taken:
    """What becomes of stored subclasses (REC-14).

    Attributes:
        takers: By the identity of a stored one that of which its values are from now on.
        answers: What is said of each, by the same.
        outer: What there is to say of them as such.
        extra: Subclasses that are not stored.
        loses: Whether several become one.
        is_writable: Whether all takers are decorated.
    """

    takers: dict
    answers: dict
    outer: dict
    extra: tuple
    loses: bool
    is_writable: bool


def _taken_subclasses(old, new):
    """A name goes before an alias; two that claim one stored subclass contradict each other, as fields do."""
    stored, known = {one.identity: one for one in old.subclasses}, new.by_tag
    takers = {one.identity: one for one in known if one.identity in stored}
    for one in known:
        for former in dict.fromkeys((*one.aliases, one.name)):
            taker = takers.get(former, one)
            own = taker.identity == former and one.identity in stored  # it has given the name to another one since
            if former not in stored or own:
                continue
            if taker is not one:
                raise Misdeclared(f"{former} is claimed twice")
            takers[former] = one
    undecorated = {one.name: new.inheriting(one) for one in new.subclasses if not one.is_registered}
    takers |= {name: undecorated[name] for name in stored if name not in takers and name in undecorated}
    answers = {name: _record(one, takers[name]) for name, one in stored.items() if name in takers}
    became = [takers[name].identity for name in stored if name in takers]
    extra = tuple(one for one in known if one.identity not in became)
    merged = len(set(became)) < len(became)
    kept_tags = [name for name in stored if name in takers] + [one.identity for one in extra]
    if len(takers) < len(stored):
        outer = {("$", "REC-14"): REFUSE}
    elif merged:
        outer = {("$", "REC-14"): MIGRATE}
    else:
        outer = {("$", "REC-14"): COPY} if kept_tags != [one.identity for one in known] else {}
    return Taken(takers, answers, outer, extra, merged, all(one.is_registered for one in takers.values()))


def _declaring_class(old, new, stored, field):
    """REC-11 of a field: Flink finds it by the class that declares it."""
    was, becomes = stored.owner or new.identity, field.owner or new.identity
    if not (old.java and new.java) or was == becomes:
        return {}
    return {(f"$.{field.name}", "REC-11"): COPY if was in field.former_owners else REFUSE}


@judges("record")
def _record(old, new):
    claims = pair(old.fields, new.fields)
    pairs = [(stored, claims[stored.name]) for stored in old.fields if stored.name in claims]
    taken = {field.name for _, field in pairs}
    added = [field for field in new.fields if field.name not in taken]
    removed = [stored for stored in old.fields if stored.name not in claims]
    outer = {}
    if old.identity != new.identity:
        outer["$", "REC-11"] = COPY if old.identity in (*new.aliases, new.name) else REFUSE
    outer |= {(f"$.{stored.name}", "REC-4"): MIGRATE for stored in removed}
    come_back = {field.name for field in new.fields if field.name in new.retired}
    outer |= {(f"$.{name}", "REC-16"): REFUSE for name in come_back}
    for field in (field for field in added if field.name not in come_back):
        outer |= (
            {(f"$.{field.name}", "REC-3"): REFUSE}
            if field.default is NOTHING
            else {(f"$.{field.name}", "REC-2"): MIGRATE}
        )
    order, declared = [field.name for _, field in pairs], sorted(field.name for field in new.fields)
    in_order = bool(added or removed) or order == declared
    moved = COPY if not new.java or in_order else MIGRATE
    renamed = [field.name for stored, field in pairs if field.name != stored.name]
    outer |= {(f"$.{name}", "REC-6"): moved for name in renamed}
    if not in_order and not renamed:
        outer["$", "REC-5"] = moved
    for stored, field in pairs:
        outer |= _declaring_class(old, new, stored, field)
    answers = {stored.name: _field(old, new, stored, field) for stored, field in pairs}
    children = [(step_to(old, new, *pair), answers[pair[0].name], parted(new, pair[1])[0]) for pair in pairs]
    below = _taken_subclasses(old, new)
    outer |= below.outer
    children += [(f"|{name.rpartition('.')[2]}", one, below.takers[name]) for name, one in below.answers.items()]

    def convert(value, as_read):
        if value[0] == "subclass":
            _, found = below.answers[value[2]].convert(("record", value[1]), as_read)
            return ("subclass", found, below.takers[value[2]].identity)
        items = dict(value[1])
        found = {field.name: answers[stored.name].convert(items[stored.name], as_read) for stored, field in pairs}
        found |= {field.name: field.default for field in added}
        return ("record", frozenset(found.items()))

    def label(parts):
        kept = [
            attrs.evolve(
                field,
                shape=Maybe(part) if field.is_optional and not isinstance(part, Maybe) else part,
                wrapped=isinstance(part, Maybe),
            )
            for (_, field), part in zip(pairs, parts[: len(pairs)], strict=True)
        ]
        tagged = [attrs.evolve(one, is_registered=True) for one in (*parts[len(pairs) :], *map(fresh, below.extra))]
        return attrs.evolve(new, fields=tuple(kept), subclasses=tuple(tagged))

    filled = [field.on_none is not NOTHING and (old.java or stored.is_optional) for stored, field in pairs]
    lost = bool(removed) or any(filled) or below.loses
    answer = compose(new, outer, children, convert, label, old=old, loses=lost)
    blocked = any(is_sealed(stored.shape) for stored in removed)
    return attrs.evolve(
        answer,
        is_readable=answer.is_readable and not blocked,
        is_writable=answer.is_writable and below.is_writable,
    )


def keeps_null_flag(was, becomes, *, takes_null):
    """Whether what may be null anyway keeps a null flag of its own (OPT-3)."""
    return takes_null and isinstance(was, Maybe) and not isinstance(becomes, Maybe)


def step_to(old, new, stored, field):
    """The path step to a field; an optional type in its bytes adds the `?` itself."""
    (was, _), (becomes, takes_null) = parted(old, stored), parted(new, field)
    is_within = isinstance(becomes, Maybe) or keeps_null_flag(was, becomes, takes_null=takes_null)
    return f".{field.name}" + ("?" if takes_null and not is_within else "")


def _field(old, new, stored, field):
    """REC-8, REC-10 and REC-17."""
    (was, _), (becomes, takes_null) = parted(old, stored), parted(new, field)
    outer = {}
    if keeps_null_flag(was, becomes, takes_null=takes_null):
        becomes, outer = Maybe(becomes), {("$", "OPT-3"): COPY}  # its own null flag is kept
    inner = judge(was, becomes)
    if not takes_null and field.on_none is not NOTHING and (old.java or stored.is_optional):
        outer |= {("$", "REC-10"): MIGRATE}  # Flink does not say of a POJO's field that no null is stored
    elif not takes_null and not old.java and stored.is_optional:
        outer |= {("$", "OPT-2"): REFUSE}

    def convert(value, as_read):
        if value is None and as_read and not takes_null:
            if field.on_none is NOTHING:
                raise Unfit("a null where none is declared", "may_fail_per_value")
            return field.on_none
        return None if value is None else inner.convert(value, as_read)

    verdict = max([inner.verdict, *outer.values()])
    label = inner.label if inner.verdict == COPY else fresh(becomes)
    return attrs.evolve(
        inner, verdict=verdict, findings=inner.findings | frozenset(outer), convert=convert, label=label
    )


@judges("record to row")
def _record_to_row(old, new):
    """FAM-4: a row whose columns have names is a record whose class plays no part."""
    answer = _record(old, RecordOf(old.identity, new.columns))

    def convert(value, as_read):
        items = dict(answer.convert(value, as_read)[1])
        return ("row", "INSERT", tuple(items[name] for name in new.names))

    findings = answer.findings | {("$", "FAM-4")}
    return attrs.evolve(answer, verdict=max(answer.verdict, MIGRATE), findings=findings, convert=convert, label=new)


def arranged(declared, label, value):
    """Give a value of a declared type as its copy has written it: the columns of rows in the order of the bytes."""
    if value is None:
        return None
    match declared, label:
        case Maybe(one), Maybe(other):
            return arranged(one, other, value)
        case Stamped(one), Stamped(other):
            return (*value[:2], arranged(one, other, value[2]))
        case (ListOf(one), ListOf(other)) | (ArrayOf(one), ArrayOf(other)):
            return ("list", tuple(arranged(one, other, item) for item in value[1]))
        case MapOf(_, one), MapOf(_, other):
            return ("map", frozenset((key, arranged(one, other, item)) for key, item in value[1]))
        case TupleOf(ones), TupleOf(others):
            return ("tuple", tuple(arranged(*three) for three in zip(ones, others, value[1], strict=True)))
        case EitherOf(left, right), EitherOf(other_left, other_right):
            sides = (left, other_left) if value[0] == "left" else (right, other_right)
            return (value[0], arranged(*sides, value[1]))
        case RecordOf(), RecordOf():
            ones, others = (record.subclass_of(value) or record for record in (declared, label))
            shapes = {field.name: field.shape for field in ones.fields}
            items = dict(value[1])
            found = ((f.name, arranged(shapes[f.name], f.shape, items[f.name])) for f in others.fields)
            return (value[0], frozenset(found), *value[2:])
        case RowOf(columns=ones), RowOf(columns=others):
            names = [column.name for column in ones]
            at = [names.index(column.name) if column.name else place for place, column in enumerate(others)]
            items = (arranged(ones[was].shape, c.shape, value[2][was]) for was, c in zip(at, others, strict=True))
            return (*value[:2], tuple(items))
    return value


def _step_to_column(place, column):
    return f".{column.name}" + ("?" if column.is_optional else "") if column.name else f"({place})"


@judges("row")
def _row(old, new):
    if new.stored and len(new.stored) != len(old.columns):
        return refused(old, new, "ROW-7")
    if not new.stored and len(new.columns) != len(old.columns):
        return refused(old, new, "ROW-7" if new.names else "ROW-5")
    outer, places = {}, range(len(old.columns))
    if new.stored:
        claims = pair(old.columns, new.columns)
        taken = {field.name for field in claims.values()}
        at = {column.name: place for place, column in enumerate(new.columns)}
        pairs = [(place, at[claims[c.name].name]) for place, c in enumerate(old.columns) if c.name in claims]
        removed = [column for column in old.columns if column.name not in claims]
        added = [column for column in new.columns if column.name not in taken]
        outer |= {(f"$.{column.name}", "ROW-4"): MIGRATE for column in removed}
        for column in added:
            outer |= {(f"$.{column.name}", "ROW-3"): REFUSE if column.default is NOTHING else MIGRATE}
        if not added and not removed and [place for _, place in pairs] != list(places):
            outer["$", "ROW-2"] = MIGRATE
        by_position = zip(old.columns, new.columns, strict=False)
        fits = len(old.columns) == len(new.columns) and not any(
            judge(stripped(was.shape)[0], stripped(becomes.shape)[0]).verdict >= MIGRATE for was, becomes in by_position
        )
        if MIGRATE in outer.values() and fits:
            outer["$", "ROW-8"] = MIGRATE
    else:
        pairs, removed = [(place, place) for place in places], []
    answers = {
        becomes: judge(stripped(old.columns[was].shape)[0], stripped(new.columns[becomes].shape)[0])
        for was, becomes in pairs
    }
    each = {place: item_of(one, takes_null=new.columns[place].is_optional) for place, one in answers.items()}
    children = [
        (_step_to_column(place, new.columns[place]), answers[place], stripped(new.columns[place].shape)[0])
        for _, place in pairs
    ]
    taken_from = {becomes: was for was, becomes in pairs}

    def convert(value, as_read):
        tag, kind, items = value
        if not as_read:
            return (tag, kind, tuple(each[becomes](items[was], False) for was, becomes in pairs))
        found = [
            each[place](items[taken_from[place]], True) if place in taken_from else column.default
            for place, column in enumerate(new.columns)
        ]
        return (tag, kind, tuple(found))

    def label(parts):
        columns = [new.columns[place] for _, place in pairs]
        kept = [attrs.evolve(c, shape=Maybe(p) if c.is_optional else p) for c, p in zip(columns, parts, strict=True)]
        return attrs.evolve(new, columns=tuple(kept), stored=())

    return compose(new, outer, children, convert, label, old=old, loses=bool(removed))


def aware(old, new):
    """Say in a new type how the columns of stored rows are called, wherever a row takes over from a row with names."""
    if isinstance(new, Stamped | Maybe):
        return type(new)(aware(old.inner if isinstance(old, type(new)) else old, new.inner))
    if isinstance(old, Stamped | Maybe):
        return aware(old.inner, new)
    match (old, new):
        case (ListOf(was) | ArrayOf(was), ListOf(becomes) | ArrayOf(becomes)):
            return type(new)(aware(was, becomes))
        case (MapOf(key, was), MapOf(new_key, becomes)):
            return MapOf(aware(key, new_key), aware(was, becomes))
        case (EitherOf(left, right), EitherOf(new_left, new_right)):
            return EitherOf(aware(left, new_left), aware(right, new_right))
        case (TupleOf(items), TupleOf(new_items)) if len(items) == len(new_items):
            return TupleOf(tuple(aware(*both) for both in zip(items, new_items, strict=True)))
        case (RecordOf(fields=stored), RecordOf(fields=fields)):
            return attrs.evolve(new, fields=_aware_fields(stored, fields))
        case (RecordOf(fields=stored), RowOf(columns=columns)) if new.names:
            return attrs.evolve(new, columns=_aware_fields(stored, columns))
        case (RowOf(columns=stored), RowOf(columns=columns)):
            if not new.names or not old.names:
                paired = zip(stored, columns, strict=False)
                rest = columns[len(stored) :]
                inside = tuple(attrs.evolve(c, shape=aware(was.shape, c.shape)) for was, c in paired)
                return RowOf((*inside, *rest))
            return RowOf(_aware_fields(stored, columns), () if new.names == old.names else old.names)
    return new


def _aware_fields(stored, fields):
    try:
        taken = {field.name: name for name, field in pair(stored, fields).items()}
    except Misdeclared:
        return fields
    was = {field.name: field.shape for field in stored}
    return tuple(
        attrs.evolve(field, shape=aware(was[taken[field.name]], field.shape)) if field.name in taken else field
        for field in fields
    )
