"""Ctrl-C while Spark is called waits until it does no harm; a second one does not."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading

import pytest

from stateshift.spark.interrupts import interrupts_kept

ON_A_CALL = """
import os, signal
from py4j.clientserver import ClientServerConnection
from pyspark.sql import SparkSession

send, is_armed = ClientServerConnection.send_command, []

def send_interrupted(self, command):
    if is_armed:
        is_armed.clear()
        os.kill(os.getpid(), signal.SIGINT)
    return send(self, command)

ClientServerConnection.send_command = send_interrupted
"""
WHILE_STARTING = """
from stateshift.spark.sessions import own_session

made = SparkSession.__init__
def make(self, *arguments, **options):
    is_armed.append(True)
    made(self, *arguments, **options)
SparkSession.__init__ = make

try:
    with own_session("local[1]"):
        print("never here")
except KeyboardInterrupt:
    print("interrupted", SparkSession.getActiveSession())
assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
"""
WHILE_STOPPING = """
from stateshift.spark.sessions import own_session

try:
    with own_session("local[1]") as spark:
        is_armed.append(True)
except KeyboardInterrupt:
    print("interrupted", SparkSession.getActiveSession())
"""


@pytest.fixture
def default_handler():
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield signal.default_int_handler
    signal.signal(signal.SIGINT, before)


def interrupt():
    os.kill(os.getpid(), signal.SIGINT)


def test_an_interrupt_waits_until_it_is_asked_for(default_handler):
    done = []

    def run():
        with interrupts_kept() as interrupts:
            interrupts.check()
            interrupt()
            done.append("went on")
            interrupts.check()
            done.append("never here")

    with pytest.raises(KeyboardInterrupt):
        run()

    assert done == ["went on"]
    assert signal.getsignal(signal.SIGINT) is default_handler


@pytest.mark.usefixtures("default_handler")
def test_an_interrupt_that_is_not_polled_is_raised_at_the_end():
    done = []

    def run():
        with interrupts_kept():
            with interrupts_kept():
                interrupt()
            done.append("the inner block is none of its own")

    with pytest.raises(KeyboardInterrupt):
        run()

    assert done == ["the inner block is none of its own"]


@pytest.mark.usefixtures("default_handler")
def test_a_second_interrupt_does_not_wait():
    done = []

    def run():
        with interrupts_kept():
            interrupt()
            done.append("went on")
            interrupt()
            done.append("never here")

    with pytest.raises(KeyboardInterrupt):
        run()

    assert done == ["went on"]


def test_a_librarys_own_handler_is_set_aside(default_handler):
    came = []

    def run():
        with interrupts_kept() as interrupts:
            signal.signal(signal.SIGINT, lambda *_: came.append("to the library"))
            interrupts.keep_again()
            interrupt()

    with pytest.raises(KeyboardInterrupt):
        run()

    assert came == []
    assert signal.getsignal(signal.SIGINT) is default_handler


def test_a_process_that_ignores_interrupts_still_does(default_handler):
    signal.signal(signal.SIGINT, signal.SIG_IGN)

    with interrupts_kept() as interrupts:
        signal.signal(signal.SIGINT, default_handler)  # as a library does it
        interrupts.keep_again()
        interrupt()
        interrupt()
        interrupts.check()

    assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN


def test_another_thread_has_no_interrupts(default_handler):
    seen = []

    def run():
        with interrupts_kept() as interrupts:
            interrupts.keep_again()
            interrupts.check()
            seen.append(signal.getsignal(signal.SIGINT))

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()

    assert seen == [default_handler]


@pytest.mark.slow
@pytest.mark.parametrize("program", [WHILE_STARTING, WHILE_STOPPING], ids=["starting", "stopping"])
def test_an_interrupt_in_a_call_to_the_jvm_prints_nothing_and_leaves_no_session(tmp_path, program):
    command = [sys.executable, "-c", ON_A_CALL + program]

    ran = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)

    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "interrupted None\n", "")
