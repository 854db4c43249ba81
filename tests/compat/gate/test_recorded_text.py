"""The text of a recorded file: each type written once, an edit noticed without parsing, and read as far as needed."""

from __future__ import annotations

import base64
import bz2
import datetime as dt
import json
from collections import Counter, UserDict

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stateshift import CorruptFile, Int32, Job, ListStateDescriptor, Operator, ValueStateDescriptor
from stateshift.compat import check
from stateshift.compat.gate.history import History, RecordedRevision, judged
from stateshift.compat.gate.levels import Level, Levels, judge
from stateshift.compat.gate.losses import Guard
from stateshift.compat.gate.recorded_text import _seal, print_recorded
from stateshift.compat.gate.recording import FORMAT, digest, from_json, to_json
from stateshift.compat.json_files import SEAL, seal_of

DAY = dt.date(2026, 3, 1)


@attrs.frozen
class Order:
    id: int
    note: str = "Zähler"


@attrs.frozen
class Narrow:
    id: Int32
    note: str = ""


VALUES = [int, Int32, str, Order, Narrow]


def job(*values, name="s"):
    states = [ValueStateDescriptor(f"{name}{number}", value) for number, value in enumerate(values)]
    return Job([Operator("shop", key=str, states=states)]).describe("job orders:job")


class Files(UserDict):
    """Files that count how often each was read."""

    def __init__(self, files):
        super().__init__(files)
        self.read = Counter()

    def __getitem__(self, name):
        self.read[name] += 1
        return super().__getitem__(name)


def files_of(*jobs):
    files, history = Files({}), History()
    for number, one in enumerate(jobs):
        revision = history.next(one, f"r{number}", DAY)
        files.data[f"{revision.name}.json"] = revision.to_json()
        history = History((*history.revisions, revision))
    return files


def resealed(text):
    """A text as left by someone who edits files and knows how they are sealed."""
    body = text[: text.rindex(f',\n  "{SEAL}"')]
    return f'{body},\n  "{SEAL}": "{_seal(body)}"\n}}\n'


def earlier(text, version):
    """A file as earlier releases wrote it: each type wherever it is used."""
    document = json.loads(text)
    types = document.pop("types")
    for one in types.values():
        one["base64"] = base64.b64encode(bz2.decompress(base64.b64decode(one.pop("bzip2")))).decode()
    for operator in document["operators"]:
        operator["key"] = types[operator["key"]]
        for state in operator["states"]:
            state.update({part: types.get(state[part]) for part in ("namespace", "key", "value")})
    del document[SEAL]
    document["version"] = version
    return json.dumps(document | ({SEAL: seal_of(document)} if version > 1 else {}), indent=2)


class TestTypes:
    def test_one_that_many_states_have_is_reported_once(self):
        once, often = to_json(job(Order)), to_json(job(*[Order] * 500))

        assert len(json.loads(once)["types"]) == len(json.loads(often)["types"])
        assert len(often) - len(once) < 500 * 200

    def test_each_state_has_a_line_that_names_its_type(self):
        (line,) = [line for line in to_json(job(list[Order])).split("\n") if '"s0"' in line]

        assert "test_recorded_text.Order> " in line
        assert line.startswith('        {"name": "s0", ')

    def test_one_class_of_two_defaults_is_two_types(self):
        other = attrs.make_class("Order", {"id": attrs.field(type=int), "note": attrs.field(type=str, default="x")})
        other.__module__, other.__qualname__ = Order.__module__, Order.__qualname__
        states = from_json(to_json(job(Order, other))).operators[0].states

        assert states[0].value.snapshot == states[1].value.snapshot
        assert states[0].value.declared != states[1].value.declared

    def test_bytes_that_grow_without_bound_when_they_are_opened_are_refused(self):
        document = json.loads(to_json(job(int)))
        (title,) = {operator["states"][0]["value"] for operator in document["operators"]}
        document["types"][title]["bzip2"] = base64.b64encode(bz2.compress(bytes((64 << 20) + 1))).decode()

        with pytest.raises(CorruptFile, match="or are too long"):
            from_json(
                print_recorded(FORMAT, {k: v for k, v in document.items() if k not in {"format", "version", SEAL}})
            )


class TestEarlierFiles:
    @pytest.mark.parametrize("version", [1, 2])
    def test_they_are_read_as_they_were(self, version):
        described = job(Order, list[Order], int)

        assert digest(described) == digest(from_json(earlier(to_json(described), version)))

    def test_a_history_may_hold_both(self):
        files = files_of(job(Narrow), job(Order))
        (first, text), _ = files.data.items()
        files.data[first] = earlier(text, 2)

        assert ["s0", "s0"] == [one.description.operators[0].states[0].name for one in History.of(files).revisions]

    def test_their_edits_are_noticed(self):
        (text,) = files_of(job(Order)).data.values()
        edited = earlier(text, 2).replace('"parallelism": null', '"parallelism": 7')

        with pytest.raises(CorruptFile, match="does not match its seal"):
            History.of({"0001_r0.json": edited})


class TestWhatIsRead:
    def test_a_list_asks_each_file_once(self):
        files = files_of(job(Narrow), job(Order), job(Order, int))
        History.of(files)

        assert {1} == set(files.read.values())

    def test_the_last_revision_is_all_that_backward_needs(self):
        files = files_of(job(Narrow), job(Order), job(Order, int))
        history = History.of(files)
        files.read.clear()
        judge(judged(history.revisions), job(Order), Levels(Level.BACKWARD), today=DAY, guard=Guard())

        assert ["0003_r2.json"] == list(files.read)

    def test_a_file_that_is_exchanged_meanwhile_is_noticed(self):
        files = files_of(job(Order))
        (revision,) = History.of(files).revisions
        files.data.update(files_of(job(int)).data)

        with pytest.raises(CorruptFile, match="it was replaced while it was being read"):
            _ = revision.description

    def test_an_edit_of_what_is_not_needed_is_noticed_all_the_same(self):
        files = files_of(job(Order), job(Order, int))
        for old, new in (
            ('"parallelism": null', '"parallelism": 7'),
            ('"value"', '"list"'),
            ('"bzip2": "Q', '"bzip2": "R'),
        ):
            text = files.data["0001_r0.json"]
            assert old in text

            with pytest.raises(CorruptFile):
                History.of({**files.data, "0001_r0.json": text.replace(old, new, 1)})


class TestTexts:
    @pytest.mark.parametrize("name", ["Zähler 計", "half \ud800 a pair", "\N{PILE OF POO}", "line\nbreak", "del\x7f"])
    def test_the_seal_fits_whatever_letters_there_are_and_however_they_are_laid_out(self, name):
        text = to_json(job(Order, name=name))

        for again in (text, text.replace("\n", "\r\n"), json.dumps(json.loads(text), sort_keys=True)):
            assert f"{name}0" == from_json(again.encode()).operators[0].states[0].name

    @pytest.mark.parametrize(
        ("old", "new"),
        [
            ('  "origin"', '  "origin": "another",\n  "origin"'),
            ('  "origin"', '  "types": {},\n  "origin"'),
            ('\n  "operators": [', '\n  "operators": [\n  ],\n  "types": {\n  },\n  "operators": ['),
            ('\n  "types": {\n', '\n  "types": {\n    "x": {},\n'),
            ('\n  "types": {\n', '\n  "types": {\n    7: {},\n'),
            ('\n  "types": {\n', '\n  "types": {\n    "x" {},\n'),
        ],
        ids=range(6),
    )
    def test_duplicate_or_hidden_content_is_refused_even_with_a_new_seal(self, old, new):
        (text,) = files_of(job(Order)).data.values()
        assert text.count(old) == 1

        with pytest.raises(CorruptFile):
            RecordedRevision.from_json("0001_r0", resealed(text.replace(old, new)))

    def test_a_type_is_not_written_twice(self):
        (text,) = files_of(job(Order)).data.values()
        line = next(line for line in text.split("\n") if line.startswith('    "string '))

        with pytest.raises(CorruptFile, match="is given twice"):
            RecordedRevision.from_json("0001_r0", resealed(text.replace(line, f"{line.rstrip(',')},\n{line}")))


class TestJudgedOnce:
    @given(st.lists(st.lists(st.sampled_from(VALUES), max_size=3), min_size=1, max_size=5))
    def test_what_is_known_of_one_revision_changes_no_answer_about_another(self, revisions):
        candidate = job(Order, int)
        history = judged(History.of(files_of(*(job(*values) for values in revisions))).revisions)
        full, whole = Levels(Level.FULL), Levels(Level.FULL_TRANSITIVE)
        report = judge(history, candidate, whole, today=DAY)

        singly = [judge([one], candidate, full, today=DAY) for one in reversed(history)]
        for state in report.states:
            apart = [failure for one in singly for found in one.states for failure in found.failures
                     if found.name == state.name]  # fmt: skip
            assert [*state.failures] == apart

    def test_a_state_that_is_the_same_in_many_revisions_is_judged_once_in_each_direction(self, monkeypatch):
        asked, real = [], check.judge
        history = History.of(files_of(*[job(Order, *[int] * number) for number in range(1, 6)]))
        monkeypatch.setattr(check, "judge", lambda old, new: asked.append(new.name) or real(old, new))
        judge(judged(history.revisions), job(Order, int), Levels(Level.FULL_TRANSITIVE), today=DAY)

        assert {"s0": 2, "s1": 2} == Counter(asked)

    def test_states_of_one_type_are_written_once(self, monkeypatch):
        asked, real = [], check.judge
        history = History.of(files_of(job(*[Narrow] * 9)))
        monkeypatch.setattr(check, "judge", lambda old, new: asked.append(new.name) or real(old, new))
        report = judge(judged(history.revisions), job(*[Order] * 9), Levels(Level.FULL), today=DAY)

        assert ["s0", "s0"] == asked
        assert {f"shop/s{number}" for number in range(9)} == {one.name for one in report.states if not one.passes}

    def test_states_of_an_operator_that_gives_lists_are_found_again_too(self):
        lists = [ListStateDescriptor("pending", Order)]
        description = Job([Operator("shop", key=str, list_states=lists)]).describe()
        one, other = (one.description for one in History.of(files_of(description, description)).revisions)

        assert one.operators[0].states[0] is other.operators[0].states[0]
