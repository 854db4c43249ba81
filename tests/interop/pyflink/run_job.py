"""A job of real PyFlink that keeps state of every kind, or restores it: run by the Python of an apache-flink.

    PYTHON run_job.py PROGRAM FOLDER [--restore SAVEPOINT] [--savepoint FOLDER] [--parallelism N] [--max-parallelism N]
                      [--mode process|thread] [--backend hashmap|rocksdb] [--results N]

PROGRAM is a Python file with `make(keyed)`, a function that gets the keyed stream of the lines of all files in
FOLDER/lines, each of a key and a text, and returns a stream of texts. Each text is written to FOLDER/results/N. When
there are as many as lines, or N, the job is stopped with a canonical savepoint, whose place is printed last.
"""

import argparse
import os
import runpy
import sys
import time
from pathlib import Path

from pyflink.common import Configuration, Duration, Types, WatermarkStrategy
from pyflink.datastream import StreamExecutionEnvironment
from pyflink.datastream.connectors.file_system import FileSource, StreamFormat
from pyflink.java_gateway import get_gateway

PATIENCE_S = 240


class WritesResults:
    """Appends each result to a file of its own process."""

    def __init__(self, folder):
        self.folder = folder

    def __call__(self, text):
        with (Path(self.folder) / str(os.getpid())).open("a", encoding="utf-8") as file:
            file.write(text + "\n")
        return text


def key_of(line):
    return int(line.split(" ")[0])


def results_in(folder):
    return [line for one in folder.iterdir() for line in one.read_text("utf-8").splitlines()]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("program")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--restore", default="")
    parser.add_argument("--savepoint", default="")
    parser.add_argument("--parallelism", type=int, default=1)
    parser.add_argument("--max-parallelism", type=int, default=128)
    parser.add_argument("--mode", default="process")
    parser.add_argument("--backend", default="hashmap")
    parser.add_argument("--results", type=int)
    given = parser.parse_args()
    os.environ["PYTHONPATH"] = os.pathsep.join([str(Path(given.program).parent), *filter(os.path.isdir, sys.path[1:])])
    sys.path.insert(0, str(Path(given.program).parent))
    results = given.folder / "results"
    results.mkdir(exist_ok=True)
    said = {
        "python.executable": sys.executable,
        "python.client.executable": sys.executable,
        "python.execution-mode": given.mode,
        "python.fn-execution.bundle.time": "100",
        "state.backend.type": given.backend,
        "rest.port": "0",
    }
    if given.restore:
        said["execution.state-recovery.path"] = Path(given.restore).resolve().as_uri()
    configuration = Configuration()
    for name, value in said.items():
        configuration.set_string(name, value)
    environment = StreamExecutionEnvironment.get_execution_environment(configuration)
    environment.set_parallelism(given.parallelism)
    environment.set_max_parallelism(given.max_parallelism)
    lines = given.folder / "lines"
    source = (
        FileSource.for_record_stream_format(StreamFormat.text_line_format(), lines.as_uri())
        .monitor_continuously(Duration.of_millis(200))
        .build()
    )
    read = environment.from_source(source, WatermarkStrategy.no_watermarks(), "lines").uid("lines")
    keyed = read.key_by(key_of, Types.LONG())
    made = runpy.run_path(given.program)["make"](keyed)
    made.map(WritesResults(str(results)), Types.STRING()).uid("results").print().uid("printed")
    client = environment.execute_async()
    wanted = given.results or sum(len(file.read_text("utf-8").splitlines()) for file in lines.iterdir())
    begin = time.monotonic()
    while len(results_in(results)) < wanted:
        status = client.get_job_status().result()
        if time.monotonic() - begin > PATIENCE_S or str(status) not in {
            "JobStatus.RUNNING",
            "JobStatus.CREATED",
            "JobStatus.INITIALIZING",
        }:
            client._j_job_client.cancel()
            raise SystemExit(f"the job is {status} with {len(results_in(results))} of {wanted} results")
        time.sleep(0.1)
    format_type = get_gateway().jvm.org.apache.flink.core.execution.SavepointFormatType.CANONICAL
    target = given.savepoint or str(given.folder / "savepoint")
    place = client._j_job_client.stopWithSavepoint(False, Path(target).resolve().as_uri(), format_type).get()
    print("savepoint", place)


if __name__ == "__main__":
    main()
