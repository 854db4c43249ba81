"""A cluster of real Flink, and the command `flink` for it, as a user has them: for pages whose jobs really run."""

from __future__ import annotations

import os
import socket
import subprocess
import time
import urllib.error
import urllib.request
from contextlib import contextmanager, suppress

_OPENED = ("lang", "util", "time", "math", "lang.invoke", "util.concurrent", "text", "net", "io", "nio")
_CONFIGURATION = """\
jobmanager.rpc.address: localhost
jobmanager.rpc.port: {rpc}
rest.address: localhost
rest.port: {rest}
taskmanager.bind-host: localhost
taskmanager.host: localhost
taskmanager.numberOfTaskSlots: 4
taskmanager.cpu.cores: 1.0
taskmanager.memory.task.heap.size: 256m
taskmanager.memory.task.off-heap.size: 0m
taskmanager.memory.framework.heap.size: 128m
taskmanager.memory.framework.off-heap.size: 64m
taskmanager.memory.jvm-metaspace.size: 256m
taskmanager.memory.jvm-overhead.min: 128m
taskmanager.memory.jvm-overhead.max: 128m
taskmanager.memory.network.min: 64m
taskmanager.memory.network.max: 64m
taskmanager.memory.managed.size: 256m
io.tmp.dirs: {folder}/tmp
state.backend.type: rocksdb
execution.checkpointing.interval: 500ms
execution.checkpointing.incremental: true
execution.checkpointing.dir: file://{folder}/checkpoints
"""
_SCRIPT = """\
#!/bin/sh
export FLINK_CONF_DIR='{folder}/conf'
exec {java} -Xmx256m -XX:TieredStopAtLevel=1 org.apache.flink.client.cli.CliFrontend "$@"
"""


@contextmanager
def flink_session(folder, jars, jdk, log4j):
    """Yield the folder of the command `flink`, while a cluster runs whose files are below `folder`.

    Args:
        folder: A folder to make.
        jars: The folder of Flink's jars.
        jdk: The folder of `java`.
        log4j: The configuration of its log.
    """
    commands, settings = folder / "bin", folder / "conf"
    for place in (commands, settings, folder / "tmp"):
        place.mkdir(parents=True)
    rest = _free_port()
    (settings / "config.yaml").write_text(_CONFIGURATION.format(folder=folder, rpc=_free_port(), rest=rest))
    path = ":".join(map(str, sorted(jars.glob("*.jar"))))
    opened = [f"--add-opens=java.base/java.{name}=ALL-UNNAMED" for name in _OPENED]
    java = [str(jdk / "java"), *opened, f"-Dlog4j.configurationFile={log4j}", "-XX:+UseSerialGC", "-cp", path]
    (commands / "flink").write_text(_SCRIPT.format(folder=folder, java=" ".join(map(repr, java))))
    (commands / "flink").chmod(0o755)
    programs = (
        "runtime.entrypoint.StandaloneSessionClusterEntrypoint",
        "runtime.taskexecutor.TaskManagerRunner",
    )
    with (folder / "log").open("w") as log:
        processes = [
            subprocess.Popen(
                [*java, "-Xmx400m", f"org.apache.flink.{program}", "--configDir", settings],
                stdout=log, stderr=log, env=os.environ | {"FLINK_CONF_DIR": str(settings)},
            )
            for program in programs
        ]  # fmt: skip
        try:
            _wait_for_slots(f"http://localhost:{rest}/overview", processes, folder / "log")
            yield commands
        finally:
            for process in processes:
                process.kill()
                process.wait()


def _free_port():
    with socket.socket() as one:
        one.bind(("localhost", 0))
        return one.getsockname()[1]


def _wait_for_slots(address, processes, log, patience_s=120):
    end = time.monotonic() + patience_s
    while time.monotonic() < end and all(process.poll() is None for process in processes):
        with suppress(OSError, urllib.error.URLError), urllib.request.urlopen(address) as answer:  # noqa: S310 - ours
            if b'"slots-total":4' in answer.read():
                return
        time.sleep(0.2)
    raise AssertionError(f"Flink does not start: {log.read_text(errors='replace')[-3000:]}")
