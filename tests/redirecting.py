"""Savepoints whose handles point to other files: rewritten from those of Flink."""

from __future__ import annotations

from pathlib import Path

import attrs

from stateshift.state.formats.flink.handles import AbsoluteFileHandle, OperatorStateHandle, RelativeFileHandle
from stateshift.state.formats.flink.metadata import read_metadata, write_metadata

PARTS = ("managed_keyed", "raw_keyed", "managed_operator", "raw_operator")


def lead(folder, stream_of, *, place=None):
    """Give each file handle another stream: `stream_of(handle)`. Reads `_metadata` of a folder, and writes it there.

    With `place` the rewritten content is only given.
    """
    file = Path(folder) / "_metadata"
    metadata = read_metadata(file.read_bytes())

    def led(handle):
        is_file = handle is not None and isinstance(handle.stream, RelativeFileHandle)
        return attrs.evolve(handle, stream=stream_of(handle.stream)) if is_file else handle

    operators = tuple(
        attrs.evolve(
            operator,
            subtasks=tuple(
                attrs.evolve(subtask, **{part: led(getattr(subtask, part)) for part in PARTS})
                for subtask in operator.subtasks
            ),
        )
        for operator in metadata.operators
    )
    data = write_metadata(attrs.evolve(metadata, operators=operators))
    if place is None:
        file.write_bytes(data)
    return data


def redirect_to(folder, base):
    """Let all files be named by URIs below another one: `file:/old/savepoint`."""
    return lead(folder, lambda stream: AbsoluteFileHandle(f"{base}/{stream.path}", stream.size))


def add_raw(folder, stream):
    """Give the first subtask raw operator state, which only its operator can read."""
    file = Path(folder) / "_metadata"
    metadata = read_metadata(file.read_bytes())
    first, *operators = metadata.operators
    one, *others = first.subtasks
    raw = attrs.evolve(one, raw_operator=OperatorStateHandle((), stream))
    changed = attrs.evolve(first, subtasks=(raw, *others))
    file.write_bytes(write_metadata(attrs.evolve(metadata, operators=(changed, *operators))))
