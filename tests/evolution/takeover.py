"""A new version of a job and a savepoint: what really happens is held against what the model says."""

from __future__ import annotations

import enum

import attrs
import pytest
from evolution import runs
from evolution.answers import COPY, OK, REFUSE, Answer, Misdeclared, Unfit, fresh, is_sealed, label_after
from evolution.book import has_null_form
from evolution.declared import Declared
from evolution.fields_book import arranged, aware
from evolution.shapes import has_ttl, stripped
from hypothesis import event, note

from stateshift import BadValues, DeclarationError, Flag, IncompatibleState, Job, ValueNotConvertible, ValuesCollide


class Outcome(enum.Enum):
    """What a takeover comes to."""

    START = "start"
    UNREADABLE = "start, and a value that cannot be read as declared"
    MIGRATE = "migrate"
    STOP = "stopped at a value"
    REFUSE = "refused"
    MISDECLARED = "misdeclared"


@attrs.frozen
class Takeover:
    """A new version takes over what is stored. Made with `of`.

    Attributes:
        state: What is stored.
        new: The type of the new version.
        declared: The same as its program has it.
        job: The new version.
        answer: What the model says; None where the declaration contradicts itself.
        becomes: What the contents become, as the new program reads them; None where one cannot be converted.
        why: Why not.
        lived: For how long values lived, where the state had TTL and has none from now on.
    """

    state: runs.State
    new: object
    declared: Declared
    job: Job
    answer: Answer | None
    becomes: dict | None
    why: Unfit | None
    lived: object = None

    @classmethod
    def of(cls, state, code, lived=None):
        """Ask the model about a version; columns of stored rows get the names that its program knows."""
        new = aware(state.shape, code)
        try:
            answer = runs.judge_state(state.kind, state.shape, new)
        except Misdeclared:
            answer = None
        declared = Declared.of(new)
        lived = None if has_ttl(state.kind, new) or state.kind not in runs.KEYED else lived
        job = runs.program(state.kind, declared, lived)
        becomes = why = None
        try:
            becomes = _converted(answer, runs.unexpired(state, new, lived), as_read=True)
        except Unfit as error:
            why = error
        return cls(state, new, declared, job, answer, becomes, why, lived)

    @property
    def outcome(self):
        if self.answer is None:
            return Outcome.MISDECLARED
        if self.answer.verdict == REFUSE:
            return Outcome.REFUSE
        if self.answer.migrates:
            return Outcome.STOP if self.becomes is None else Outcome.MIGRATE
        return Outcome.UNREADABLE if self.becomes is None else Outcome.START

    def ask(self):
        """Ask for the verdict, and hold it and its findings against the model's; give the report on the state."""
        note(f"{self.state.kind}: {self.outcome.value}; values lived {self.lived}")
        note(f"  stored {self.state.shape}\n  new    {self.new}\n  holds  {self.state.contents}")
        event(self.outcome.value)
        if self.answer is None:
            with pytest.raises(DeclarationError):
                runs.checked(self.state, self.job)
            return None
        found = runs.checked(self.state, self.job)
        worse = frozenset((one.path, one.rule) for one in found.result.findings if one.verdict > OK)
        is_avro = any(rule.startswith("AV-") for _, rule in worse)
        worse = frozenset((path, rule) for path, rule in worse if not rule.startswith("AV-"))
        assert (self.answer.verdict, self.answer.findings) == (int(found.result.verdict), worse)
        if self.answer.verdict != REFUSE and not is_avro:
            flags = {flag.partition(":")[0] for _, flag in found.result.flags}
            assert self._loses() == bool(flags & {Flag.LOSSY, Flag.DROPS}), found.result.flags
            assert self.why is None or not self.why.flag or self.why.flag in flags
        return found

    def _loses(self):
        """Whether a flag says that data is lost; in map state Flink lists no null without a stamp (STATE-4)."""
        gets_stamps = any(rule == "STATE-4" for _, rule in self.answer.findings)
        if self.answer.loses or not gets_stamps or self.state.kind != "map":
            return self.answer.loses
        value, is_optional = stripped(self.new.value)
        return is_optional and not has_null_form(value.inner)

    def run(self, target, *, parallelism=None):
        """Do what the verdict says, up to a migration; give what is stored afterwards."""
        before = runs.digest(self.state.folder)
        found = self.ask()
        try:
            if self.outcome in {Outcome.REFUSE, Outcome.MISDECLARED, Outcome.STOP}:
                self._refused(target)
                return self.state
            if not self.answer.migrates:
                self._reads(self.state, found)
            runs.run(self.state, self.job, target, parallelism=parallelism)
        finally:
            assert before == runs.digest(self.state.folder)
        after = self._after(target)
        self._is_settled(after)
        return after

    def start(self, target, more):
        """Take over without a migration: read everything, and write it with what is new by the serializers in use."""
        key, value = runs.readers_of(self.ask(), self.job, self.state.kind)
        contents = {place: value for place, value in {**self.becomes, **more}.items() if value is not None}
        written = runs.write(
            target, self.state.kind, self.declared, contents, runs.parts_of(self.state.kind, key, value)
        )
        label = self.answer.label if self.answer.verdict == COPY else fresh(self.new)
        stored = {place: arranged(self.new, label, value) for place, value in contents.items()}
        after = attrs.evolve(written, shape=label, contents=stored)
        if not is_sealed(label):
            assert after.contents == runs.read_by_label(after)
        return after

    def _refused(self, target):
        errors = {Outcome.REFUSE: IncompatibleState, Outcome.MISDECLARED: DeclarationError}
        with pytest.raises(errors.get(self.outcome, ValueNotConvertible)) as caught:
            runs.run(self.state, self.job, target)
        assert not (target / "_metadata").exists()
        if self.outcome is Outcome.STOP:
            assert {"operator", "state", "path"} <= caught.value.where.keys()
            self._goes_on_with_quarantine(target.with_name(f"{target.name}-aside"))
        else:
            assert not target.exists()

    def _goes_on_with_quarantine(self, target):
        """Put aside what does not fit (RUN-4): the rest is what the model says, and all is accounted for."""
        contents, aside = {}, 0
        try:
            for place, value in runs.unexpired(self.state, self.new, self.lived).items():
                parts, left = self._fitting(value)
                aside += left
                is_left = parts or self.state.kind == "broadcast"  # whose map is there, if empty
                contents |= {place: runs.joined(self.state.kind, parts)} if is_left else {}
        except Unfit:
            with pytest.raises(ValuesCollide):
                runs.run(self.state, self.job, target, bad_values=BadValues.QUARANTINE)
            return
        runs.run(self.state, self.job, target, bad_values=BadValues.QUARANTINE)
        after = attrs.evolve(self.state, shape=fresh(self.new), contents=contents, folder=target)
        if not is_sealed(after.shape):
            assert contents == runs.read_by_label(after)
        copies = runs.SUBTASKS if self.state.kind == "broadcast" else 1  # every subtask has the whole map
        assert aside * copies == len(list(after.savepoint.quarantine()))

    def _fitting(self, value):
        """The pieces that fit, converted, and how many do not; two that became one stop the run all the same."""
        parts, left = [], 0
        if self.state.kind == "map":  # its values come before its keys: they may have expired
            values = runs.judge_state("map", self.state.shape, attrs.evolve(self.new, key=self.state.shape.key))
            for piece in runs.pieces("map", value):
                _converted_unless_it_collides(values, piece)
        for piece in runs.pieces(self.state.kind, value):
            found = _converted_unless_it_collides(self.answer, piece)
            parts += [] if found is None else [found]
            left += found is None
        return parts, left

    def _after(self, target):
        """What the model says of the savepoint after a migration."""
        contents = self.becomes
        if not self.answer.migrates:
            kept = self.state.contents
            contents = kept if self.answer.verdict == OK else _converted(self.answer, kept, as_read=False)
        shape = label_after(self.state.shape, self.new, self.answer)
        return attrs.evolve(self.state, shape=shape, contents=contents, folder=target)

    def _reads(self, state, found):
        """The new version reads what the model says, or stops where it says so."""
        readers = runs.readers_of(found, self.job, state.kind)
        if self.becomes is None:
            with pytest.raises(ValueNotConvertible):
                runs.read_by(state, *readers)
        else:
            assert self.becomes == runs.read_by(state, *readers)

    def _is_settled(self, after):
        """After a migration both sides read it, the other state is as it was, and nothing is left to do."""
        assert ["as it was"] == [entry.value for entry in after.stored(runs.BESIDE).read_entries()]
        if not is_sealed(after.shape):
            assert after.contents == runs.read_by_label(after)
        again = Takeover.of(after, self.new)
        found = again.ask()
        assert again.becomes == self.becomes
        again._reads(after, found)
        # Flink does not say of a POJO's field that no null is stored, so that on_none asks each time (REC-10).
        assert {rule for _, rule in again.answer.findings} <= {"REC-10"} or not again.answer.migrates
        assert runs.plans_nothing(after, again.job) is not again.answer.migrates


def _converted_unless_it_collides(answer, piece):
    """What a piece becomes; None where it does not fit, unless because two things became one, which stops a run."""
    try:
        return answer.convert(piece, True)
    except Unfit as error:
        if error.flag == "collision_check":
            raise
        return None


def _converted(answer, contents, *, as_read):
    """What the contents become; None where they become nothing."""
    if answer is None or answer.verdict == REFUSE:
        return None
    return {place: answer.convert(value, as_read) for place, value in contents.items()}
