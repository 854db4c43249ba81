"""Run a program of PyFlink in an execution mode, as it stands: `run_in_mode.py process|thread PROGRAM`."""

from __future__ import annotations

import runpy
import sys

from pyflink.common import Configuration
from pyflink.datastream import StreamExecutionEnvironment

MODE, PROGRAM = sys.argv[1:3]
get_execution_environment = StreamExecutionEnvironment.get_execution_environment


def in_mode(configuration=None):
    configuration = configuration or Configuration()
    configuration.set_string("python.execution-mode", MODE)
    return get_execution_environment(configuration)


StreamExecutionEnvironment.get_execution_environment = staticmethod(in_mode)
sys.argv = [PROGRAM]
runpy.run_path(PROGRAM, run_name="__main__")
