"""Commands of stateshift as a shell starts them, in a quarter of the time: forked from a process that has imported it.

A folder for the PATH has a `stateshift` that gives its arguments, folder, environment and streams to that process, and
ends with the status of the command.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import json
import os
import pkgutil
import shutil
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

_COMMAND = """#!{python} -IS
import json, os, socket, sys
with socket.socket(socket.AF_UNIX) as server:
    server.connect({address!r})
    asked = json.dumps([sys.argv[1:], os.getcwd(), dict(os.environ)]).encode()
    socket.send_fds(server, [len(asked).to_bytes(4, "big")], [0, 1, 2])
    server.sendall(asked)
    status = server.recv(4)
os._exit(int.from_bytes(status, "big") if status else 255)
"""
_LATE = ("hypothesis", "numba", "numpy", "pyarrow", "pyspark")
"""What a command imports when it needs it, and what is done depends on whether it is there; and pyarrow, which takes up
numpy when it is imported."""


@contextlib.contextmanager
def warm_commands():
    """Yield the folder for the PATH; its command works until the `with` block ends."""
    folder = Path(tempfile.mkdtemp(prefix="warm-"))  # the path of a socket must be short
    address = str(folder / "asked")
    command = folder / "stateshift"
    command.write_text(_COMMAND.format(python=sys.executable, address=address), encoding="utf-8")
    command.chmod(0o755)
    server = subprocess.Popen([sys.executable, __file__, address], stdout=subprocess.PIPE, start_new_session=True)
    try:
        assert b"ready\n" == server.stdout.readline()
        yield folder
    finally:
        server.kill()
        server.communicate()
        shutil.rmtree(folder)


def _import_all():
    """Import the package but for modules that import `_LATE`."""
    sys.modules |= dict.fromkeys(_LATE)
    for room in ("cli", "serializers", "compat", "state"):
        package = importlib.import_module(f"stateshift.{room}")
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            with contextlib.suppress(ImportError):
                importlib.import_module(module.name)
    for name in _LATE:
        del sys.modules[name]
    gc.freeze()  # else the first collection of each process would copy all pages


def _serve(address):
    """Fork a process for each connection, which forks one for the command; returns in that, with its arguments."""
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(address)
        listening.listen(64)
        print("ready", flush=True)
        while True:
            asking, _ = listening.accept()
            if os.fork() == 0:
                break
            asking.close()
            with contextlib.suppress(ChildProcessError):
                while os.waitpid(-1, os.WNOHANG)[0]:
                    pass
    size, streams, _, _ = socket.recv_fds(asking, 4, 3)
    asked = b""
    while len(asked) < int.from_bytes(size, "big"):
        asked += asking.recv(1 << 20)
    command = os.fork()
    if command:
        _, ended = os.waitpid(command, 0)
        status = os.waitstatus_to_exitcode(ended)
        with contextlib.suppress(OSError):  # whoever asked has ended
            asking.sendall((status if status >= 0 else 128 - status).to_bytes(4, "big"))
        os._exit(0)
    asking.close()
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    sys.stdin, sys.stdout = open(0, closefd=False), open(1, "w", closefd=False)  # noqa: SIM115 - until it ends
    sys.stderr = open(2, "w", buffering=1, errors="backslashreplace", closefd=False)  # noqa: SIM115
    arguments, folder, environment = json.loads(asked)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    return arguments


if __name__ == "__main__":
    _import_all()
    sys.argv[1:] = _serve(sys.argv[1])
    sys.argv[0] = str(Path(sys.executable).with_name("stateshift"))
    sys.path[0] = str(Path(sys.executable).parent)
    tempfile.tempdir = None  # TMPDIR may be another
    from stateshift.cli import main

    sys.exit(main())
