"""Revisions in files: a graph of what the code declared, that two branches may extend and one merges."""

from __future__ import annotations

import datetime as dt
import json

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stateshift import CorruptFile, DeclarationError, Int32, Job, Operator, ValueStateDescriptor
from stateshift.compat.gate.history import History, RecordedRevision, judged
from stateshift.compat.gate.recording import digest

DAY = dt.date(2026, 3, 1)


def job(value):
    return Job([Operator("shop", key=str, states=[ValueStateDescriptor("order", value)])]).describe()


def files_of(*revisions):
    return {f"{revision.name}.json": revision.to_json() for revision in revisions}


def followed(history, value, message, **more):
    """A history with one revision more, read back from its files."""
    return History.of(files_of(*history.revisions, history.next(job(value), message, DAY, **more)))


@pytest.fixture
def first():
    return followed(History(), Int32, "Orders")


@pytest.fixture
def branched(first):
    """Two branches that have each added a revision."""
    one, other = followed(first, int, "Wider"), followed(first, str, "As text")
    return History.of(files_of(*one.revisions, *other.revisions))


def names(history):
    return [revision.name for revision in history.revisions]


def test_a_revision_is_named_by_its_number_and_message(first):
    assert ["0001_orders"] == names(first)
    assert ["0001_orders", "0002_wider_now"] == names(followed(first, int, "Wider, now!"))
    assert ["0001_orders", "0002"] == names(followed(first, int, "…"))


def test_a_revision_comes_back_from_its_file(first):
    (revision,) = first.revisions

    assert "Orders" == revision.message
    assert DAY == revision.created
    assert () == revision.parents
    assert digest(job(Int32)) == digest(revision.description)
    assert revision.to_json() == RecordedRevision.from_json(revision.name, revision.to_json()).to_json()


def test_two_heads_detected(branched):
    """K18."""
    assert {"0002_wider", "0002_as_text"} == {head.name for head in branched.heads}
    with pytest.raises(DeclarationError, match="0002_as_text and 0002_wider are both heads"):
        branched.require_one_head()
    with pytest.raises(DeclarationError, match="--merge"):
        branched.next(job(int), "More", DAY)


def test_a_merge_follows_all_heads(branched):
    merged = followed(branched, int, "Merged", merges=True)

    assert ["0003_merged"] == [head.name for head in merged.heads]
    assert names(merged) == [one.name for one in merged.up_to(merged.heads[0])]
    with pytest.raises(DeclarationError, match="nothing to merge"):
        merged.next(job(int), "Again", DAY, merges=True)


def test_a_merge_follows_three_heads_as_it_follows_two(first, branched):
    third = first.next(job(bytes), "As bytes", DAY)
    merged = History((*branched.revisions, third)).next(job(int), "Merged", DAY, merges=True)

    assert {head.id for head in branched.heads} | {third.id} == set(merged.parents)


def test_what_a_revision_follows_is_reported_the_oldest_first(branched):
    wider = branched.find("0002_wider")

    assert ["0001_orders", "0002_wider"] == [one.name for one in branched.up_to(wider)]
    assert ["0001_orders", "0002_wider"] == [one.name for one in judged(branched.up_to(wider))]


def test_a_revision_is_found_by_name_number_id_and_head(first, branched):
    (revision,) = first.revisions

    for name in ("0001_orders", "1", "0001", revision.id, revision.id[:5], "head"):
        assert revision == first.find(name)
    with pytest.raises(DeclarationError, match="'2' is one of several revisions: 0002_as_text, 0002_wider"):
        branched.find("2")
    with pytest.raises(DeclarationError, match="no revision '7'; there are: 0001_orders"):
        first.find("7")
    with pytest.raises(DeclarationError, match="there are: none"):
        History().find("head")


@pytest.mark.parametrize("field", ["message", "created", "parents", "id"])
def test_an_edited_file_is_noticed(first, field):
    ((name, text),) = files_of(*first.revisions).items()
    other = {"message": "x", "created": "2026-03-02", "parents": ["0" * 12], "id": "0" * 12}[field]
    edited = json.dumps(json.loads(text) | {field: other})

    with pytest.raises(CorruptFile, match="it was edited"):
        History.of({name: edited})


def test_a_missing_parent_and_a_copy_are_noticed(branched):
    files = files_of(*branched.revisions)
    with pytest.raises(CorruptFile, match="which is missing"):
        History.of({name: text for name, text in files.items() if not name.startswith("0001")})
    with pytest.raises(CorruptFile, match="are the same revision"):
        History.of(files | {"0009_copy.json": files["0001_orders.json"]})


def test_autogenerate_suggests_aliases():
    """K17: a field that went and one of its type that came are proposed as a rename, which nothing applies."""
    before, after = (
        attrs.make_class("Order", {name: attrs.field(type=str, default="")}) for name in ("note", "remark")
    )
    history = followed(followed(History(), before, "Orders"), after, "Renamed")

    (note,) = history.heads[0].notes
    assert note.startswith("shop/order $.note: ")
    assert "Field(aliases=['note'])" in note
    assert () == history.revisions[0].notes


def test_other_files_are_passed_over(first):
    assert first == History.of(files_of(*first.revisions) | {"README.md": "what is here"})


@given(st.lists(st.tuples(st.sampled_from([int, str, bytes]), st.booleans()), max_size=6))
def test_whatever_is_added_comes_back_in_order(steps):
    """Each revision stands after its parents; a step that forks adds two, and the next one merges them."""
    history = History()
    for number, (value, forks) in enumerate(steps):
        merges = len(history.heads) > 1
        one = history.next(job(value), f"step {number}", DAY, merges=merges)
        added = [one]
        if forks and not merges:
            added.append(history.next(job(value), f"fork {number}", DAY))
        history = History.of(files_of(*history.revisions, *added))

    seen = set()
    for revision in history.revisions:
        assert set(revision.parents) <= seen
        seen.add(revision.id)
