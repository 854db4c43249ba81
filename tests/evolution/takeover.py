"""A new version of a job and a savepoint: what really happens is held against what the model says."""

from __future__ import annotations

import enum

import attrs
import pytest
from evolution import runs
from evolution.answers import COPY, OK, REFUSE, Answer, Misdeclared, Unfit, fresh, is_sealed, label_after
from evolution.declared import Declared
from evolution.steps import aware
from hypothesis import event, note

from stateshift.serializers.errors import DeclarationError, IncompatibleState, ValueNotConvertible
from stateshift.state.job import Job


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
    """

    state: runs.State
    new: object
    declared: Declared
    job: Job
    answer: Answer | None
    becomes: dict | None

    @classmethod
    def of(cls, state, code):
        """Ask the model about a version; columns of stored rows get the names that its program knows."""
        try:
            new = aware(state.shape, code)
            answer = runs.judge_state(state.kind, state.shape, new)
        except Misdeclared:
            new, answer = code, None
        declared = Declared.of(new)
        job = runs.job_of(state.kind, runs.hints_of(state.kind, declared), ttl=state.ttl)
        return cls(state, new, declared, job, answer, _converted(answer, state, as_read=True))

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
        note(f"{self.state.kind}{' with TTL' if self.state.ttl else ''}: {self.outcome.value}")
        note(f"  stored {self.state.shape}\n  new    {self.new}\n  holds  {self.state.contents}")
        event(self.outcome.value)
        if self.answer is None:
            with pytest.raises(DeclarationError):
                runs.checked(self.state, self.job)
            return None
        found = runs.checked(self.state, self.job)
        worse = frozenset((one.path, one.rule) for one in found.result.findings if one.verdict > OK)
        assert (self.answer.verdict, self.answer.findings) == (int(found.result.verdict), worse)
        return found

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
        contents = {**self.becomes, **more}
        parts = runs.parts_of(self.state.kind, key, value, ttl=self.state.ttl)
        written = runs.write(
            target, self.state.kind, self.declared, contents, parts, ttl=self.state.ttl, parallelism=runs.SUBTASKS
        )
        return attrs.evolve(written, shape=self.answer.label if self.answer.verdict == COPY else fresh(self.new))

    def _refused(self, target):
        errors = {Outcome.REFUSE: IncompatibleState, Outcome.MISDECLARED: DeclarationError}
        with pytest.raises(errors.get(self.outcome, ValueNotConvertible)) as caught:
            runs.run(self.state, self.job, target)
        assert not (target / "_metadata").exists()
        if self.outcome is Outcome.STOP:
            assert {"operator", "state", "path"} <= caught.value.where.keys()
        else:
            assert not target.exists()

    def _after(self, target):
        """What the model says of the savepoint after a migration."""
        contents = self.becomes if self.answer.migrates else _converted(self.answer, self.state, as_read=False)
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
        assert runs.plans_nothing(after, again.job)


def _converted(answer, state, *, as_read):
    """What the contents become; None where one of them cannot be converted."""
    if answer is None or answer.verdict == REFUSE:
        return None
    try:
        return {place: answer.convert(value, as_read) for place, value in state.contents.items()}
    except Unfit:
        return None
