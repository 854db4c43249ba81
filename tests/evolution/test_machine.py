"""A job that lives long: its types change again and again, and one savepoint is carried along.

Each version is asked about, migrates, starts without a migration and writes on, or is refused and taken back; every
savepoint that was left behind stays as it was.
"""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

import pytest
from evolution import profiles, runs
from evolution.beginnings import beginnings, changes, contents_of, lives
from evolution.declared import Declared
from evolution.takeover import Outcome, Takeover
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule


class LongLivedJob(RuleBasedStateMachine):
    """What the machine knows: what is stored, and the type that the program has at the moment."""

    def __init__(self):
        super().__init__()
        self.place = Path(tempfile.mkdtemp())
        self.left_behind = {}
        self.runs = 0
        self.state = self.code = self.takeover = None

    def teardown(self):
        shutil.rmtree(self.place)

    def target(self):
        self.left_behind[self.state.folder] = runs.digest(self.state.folder)
        self.runs += 1
        return self.place / f"savepoint-{self.runs}"

    def has(self, code, lived=None):
        self.code, self.takeover = code, Takeover.of(self.state, code, lived)

    @initialize(beginning=beginnings())
    def first_savepoint(self, beginning):
        kind, shape, contents = beginning
        self.state = runs.write(self.place / "savepoint-0", kind, Declared.of(shape), contents)
        self.has(shape)

    def evolve(self, data):
        _, code = data.draw(changes(self.state.kind, self.code))
        self.has(code, data.draw(lives))

    @rule(data=st.data())
    def change_the_code(self, data):
        self.evolve(data)

    @rule(data=st.data())
    def release(self, data):
        self.evolve(data)
        self.deploy()

    @rule(data=st.data())
    def release_after_more_changes(self, data):
        for _ in range(data.draw(st.integers(2, 3))):
            self.evolve(data)
        self.deploy()

    @rule()
    def deploy(self):
        """Do what the verdict says; where it refuses, or a value cannot be converted, the change is taken back."""
        goes_on = self.takeover.outcome in {Outcome.START, Outcome.MIGRATE}
        after = self.takeover.run(self.target())
        if goes_on:
            self.state = after
        self.has(self.code if goes_on else self.state.shape)

    @precondition(lambda machine: machine.takeover is not None and machine.takeover.outcome is Outcome.START)
    @rule(data=st.data())
    def start_without_migration(self, data):
        more = data.draw(contents_of(self.state.kind, self.takeover.new))
        self.state = self.takeover.start(self.target(), more)
        self.has(self.code)

    @invariant()
    def savepoints_left_behind_stay_as_they_were(self):
        for folder, was in self.left_behind.items():
            assert was == runs.digest(folder)


LongLivedJob.TestCase.settings = settings(profiles.shorter, stateful_step_count=8)
test_a_job_lives_on_whatever_its_types_become = pytest.mark.slow(LongLivedJob.TestCase)
