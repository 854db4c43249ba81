"""What holds of every runner; the works count their attempts in files, since workers are other processes."""

from __future__ import annotations

import os
import signal
import threading
import time
from pathlib import Path

import attrs
import pytest

from stateshift import MigrationFailed, StorageFailed, ValueNotConvertible
from stateshift.state.runner import Independent, ShuffleBatch, Shuffled
from stateshift.state.storage.files import Folder


@attrs.frozen
class Task:
    """A number to double, and how often that fails before."""

    number: int
    failures: int = 0
    error: type[Exception] = StorageFailed
    size_bytes: int = 10


@attrs.frozen
class Doubling(Independent[Task, int]):
    """Doubles numbers."""

    attempts: Path

    def title(self, task):
        return f"task {task.number}"

    def entries(self, result):
        return 1

    def perform(self, task, conditions, take):
        attempt(self.attempts, task)
        take(task.size_bytes)
        return 2 * task.number

    def finished(self, indices):
        return {}


class Keeping(Doubling):
    """Doubles numbers; a failure is an answer."""

    keeps_failures = True


@attrs.frozen
class Sorting(Shuffled[Task, list[bytes]]):
    """Brings letters to the streams that their numbers name; each stream fails as its task says."""

    attempts: Path

    needs = "sorting"

    def title(self, task):
        return f"task {task.number}"

    def readings(self):
        return [(0, 0), (0, 1)]

    def read(self, at, number, conditions):
        for letter in (b"ca", b"db")[number]:
            yield ShuffleBatch(letter % len(self.tasks), letter, 0, bytes([letter]))

    def write(self, at, batches, conditions):
        attempt(self.attempts, self.tasks[at])
        return [batch.data for batch in batches]


def attempt(folder, task):
    """Fail, unless that was done often enough."""
    (folder / f"{task.number}-{time.monotonic_ns()}").touch()
    if attempts_at(folder, task.number) <= task.failures:
        raise task.error(f"attempt at {task.number}")


def attempts_at(folder, number):
    return len(list(folder.glob(f"{number}-*")))


class AnyRunner:
    """Tests of a runner, the fixture `runner` of a subclass."""

    who = "a worker"

    @pytest.fixture
    def work(self, tmp_path):
        def make(kind, *tasks):
            (tmp_path / "attempts").mkdir(exist_ok=True)
            return kind(tasks, Folder.at(tmp_path), "doubling", "a test", tmp_path / "attempts")

        return make

    def test_results_have_the_order_of_their_tasks(self, runner, work):
        tasks = [Task(number, size_bytes=number % 3) for number in range(10)]

        assert [2 * number for number in range(10)] == runner.run([work(Doubling, *tasks)], lambda _: None)

    def test_a_work_without_tasks_has_no_results(self, runner, work):
        assert [] == runner.run([work(Doubling)], lambda _: None)

    def test_entries_are_brought_to_their_streams_in_order(self, runner, work):
        sorted_ = runner.run([work(Sorting, Task(0), Task(1))], lambda _: None)

        assert [[b"b", b"d"], [b"a", b"c"]] == sorted_

    @pytest.mark.parametrize("kind", [Doubling, Sorting])
    def test_what_may_be_mended_is_tried_again(self, runner, work, tmp_path, kind):
        results = runner.run([work(kind, Task(0), Task(1, failures=2))], lambda _: None)

        assert 2 == len(results)
        assert attempts_at(tmp_path / "attempts", 1) == 3

    @pytest.mark.parametrize("kind", [Doubling, Sorting])
    def test_what_cannot_be_mended_fails_at_once_with_its_error(self, runner, work, tmp_path, kind):
        with pytest.raises(ValueNotConvertible, match="attempt at 1"):
            runner.run([work(kind, Task(0), Task(1, 9, ValueNotConvertible))], lambda _: None)

        assert attempts_at(tmp_path / "attempts", 1) == 1

    @pytest.mark.parametrize("kind", [Doubling, Sorting, Keeping])
    def test_an_error_of_users_code_is_reported_with_its_task(self, runner, work, kind):
        with pytest.raises(MigrationFailed, match=f"{self.who} failed with KeyError: ") as caught:
            runner.run([work(kind, Task(1, 9, KeyError))], lambda _: None)

        assert "task 1" == caught.value.where["operator"]
        assert "raise task.error" in caught.value.what
        assert "fix the serializer or converter that failed" in caught.value.advice

    def test_a_failure_may_be_the_answer_of_its_task(self, runner, work, tmp_path):
        answers = runner.run([work(Keeping, Task(0), Task(1, 9), Task(2))], lambda _: None)

        assert [0, StorageFailed, 4] == [type(one) if isinstance(one, Exception) else one for one in answers]
        assert attempts_at(tmp_path / "attempts", 1) == 4

    def test_progress_ends_where_all_is_done(self, runner, work):
        told = []

        runner.run([work(Doubling, *map(Task, range(6)))], told.append)

        told = [step for step in told if step.phase == "doubling"]
        assert (0, 0, 60) == (told[0].done, told[0].bytes_done, told[0].bytes_total)
        assert (told[-1].total, 60) == (told[-1].done, told[-1].bytes_done)
        assert sorted(step.done for step in told) == [step.done for step in told]

    def test_what_progress_raises_ends_the_run(self, runner, work):
        class Stopped(Exception):
            pass

        def stop(step):
            if step.phase == "doubling":
                raise Stopped

        with pytest.raises(Stopped):
            runner.run([work(Doubling, *map(Task, range(6)))], stop)

    def test_ctrl_c_ends_the_run_and_no_thread_is_left(self, runner, work):
        handler = signal.signal(signal.SIGINT, signal.default_int_handler)

        def interrupt(step):
            if step.phase == "doubling":
                os.kill(os.getpid(), signal.SIGINT)

        try:
            with pytest.raises(KeyboardInterrupt):
                runner.run([work(Doubling, *map(Task, range(6)))], interrupt)
        finally:
            signal.signal(signal.SIGINT, handler)
        assert not [thread for thread in threading.enumerate() if thread.name.startswith("ThreadPool")]
