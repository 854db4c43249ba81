"""PyFlink's own examples, and programs of ours: run here with other imports, and by real PyFlink, with equal results.

STATESHIFT_PYFLINK has PyFlink and its examples; the Python of its environment runs them.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from stateshift.spark.java import java_home

MODES = ("process", "thread")
IN_MODE = Path(__file__).parent / "run_in_mode.py"
OWN = sorted((Path(__file__).parent / "programs").glob("*.py"))
EXAMPLES = [
    "word_count", "basic_operations", "state_access", "event_time_timer", "process_json_data",
    "windowing/session_with_dynamic_gap_window", "windowing/session_with_gap_window", "windowing/sliding_time_window",
    "windowing/tumbling_count_window", "windowing/tumbling_time_window",
]  # fmt: skip
NUMBER = re.compile(r"\d+\.\d+")
SAID = re.compile(
    r"Executing|Use --|Printing|PYFLINK_CYTHON|No module named|Using Any|Job has been submitted|\s*$|\d+> $"
)


def printed(command, folder, **settings):
    """Run a program, and return the elements that it prints, without the number of the subtask."""
    path = f"{Path(command[0]).parent}{os.pathsep}{os.environ['PATH']}"  # its workers call `python`
    done = subprocess.run(
        command, cwd=folder, env=os.environ | {"PATH": path} | settings, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    lines = [re.sub(r"^\d+> ", "", line) for line in done.stdout.splitlines() if not SAID.match(line)]
    return sorted(NUMBER.sub(lambda found: f"{float(found[0]):.3f}", line) for line in lines)  # floats of 32 bits


def here(text):
    return re.sub(r"^(from|import) pyflink", r"\1 stateshift.pyflink", text, flags=re.MULTILINE)


def compare(pyflink_python, original, folder):
    program = folder / original.name
    program.write_text(here(original.read_text(encoding="utf-8")), encoding="utf-8")
    ours = printed([sys.executable, program], folder)

    assert ours
    for mode in MODES:
        # The interpreter within Java knows no environment, and takes the newest Java there is.
        settings = {"PYTHONPATH": os.environ["STATESHIFT_PYFLINK"], "JAVA_HOME": str(java_home())}
        assert (mode, printed([pyflink_python, IN_MODE, mode, original], folder, **settings)) == (mode, ours)


@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_of_pyflink(pyflink_python, name, tmp_path):
    packages = Path(os.environ["STATESHIFT_PYFLINK"])
    compare(pyflink_python, packages / "pyflink" / "examples" / "datastream" / f"{name}.py", tmp_path)


def without_table(text):
    """The example whose source is a table of random numbers without an end, with a collection in its place."""
    begin, end = text.index("    t_env = "), text.index("    def id_to_word")
    source = 'ds = env.from_collection([Row(n % 18) for n in range(40)], Types.ROW_NAMED(["word_id"], [Types.INT()]))'
    text = f"{text[:begin]}    {source}\n\n{text[end:]}"
    return re.sub(r"^from pyflink\.table .*", "from pyflink.common import Row", text, flags=re.MULTILINE)


def test_the_example_whose_source_is_a_table(pyflink_python, tmp_path):
    examples = Path(os.environ["STATESHIFT_PYFLINK"]) / "pyflink" / "examples" / "datastream"
    original = tmp_path / "original" / "streaming_word_count.py"
    original.parent.mkdir()
    original.write_text(without_table((examples / original.name).read_text(encoding="utf-8")), encoding="utf-8")
    compare(pyflink_python, original, tmp_path)


@pytest.mark.parametrize("program", OWN, ids=[program.stem for program in OWN])
def test_a_program_of_ours(pyflink_python, program, tmp_path):
    compare(pyflink_python, program, tmp_path)
