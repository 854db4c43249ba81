"""All executors give what objects give, of sound and of damaged blocks, and of whole tasks: bytes, counts, errors."""

from __future__ import annotations

import tempfile
from collections import Counter
from pathlib import Path

import attrs
import pytest
from by_executor import by_each_executor
from evolution import profiles, runs
from evolution.beginnings import beginnings, evolutions
from evolution.declared import Declared
from evolution.runs import KEYED, NAME
from evolution.takeover import Outcome, Takeover
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from plain_executor import plainly

from stateshift import BadValues, Compression, MigrationOptions, StateShiftError
from stateshift.compat.plan import StateAction
from stateshift.state.formats.flink import keyed_stream
from stateshift.state.formats.flink.blocks import join_pieces
from stateshift.state.formats.flink.keyed_readers import open_keyed
from stateshift.state.formats.flink.sources import InlineBytes
from stateshift.state.migration.block_rewriter import BlockRewriter
from stateshift.state.migration.preparation import prepare
from stateshift.state.savepoint.states import keyed_handles
from stateshift.state.transcode.block_transcoder import BlockTranscoder
from stateshift.state.transcode.executor_choice import ExecutorName

pytest.importorskip("numba")


def outcome(transcoder, block):
    """What a transcoder makes of a block, or how it fails."""
    try:
        return transcoder.transcode(block)
    except StateShiftError as error:
        return type(error), str(error), error.where


def rewriters(state, job):
    """The rewriter of the state in each stored stream, with its blocks."""
    at = runs.datetime.fromtimestamp(runs.REFERENCE / 1000, runs.UTC)
    options = MigrationOptions(reference_time=at, edits=runs.UNCONVERTED)
    ready = prepare(state.savepoint, job, options)
    plan = ready.plan.operators[0].state(NAME, keyed=True)
    assume(plan.action is StateAction.CONVERT)
    found = state.stored()
    for handle in keyed_handles(found._stored):
        with open_keyed(handle, found._folder, found._stored.max_parallelism) as reader:
            index, info = next((i, one) for i, one in enumerate(reader.header.states) if one.name == NAME)
            groups = found._stored.max_parallelism
            rewriter = BlockRewriter.of(info, plan, reader.header.key_snapshot, groups, ExecutorName.NUMBA)
            yield rewriter, [bytes(block.data) for block in join_pieces(reader.blocks(state_ids=[index]))]


def in_a_piece(block):
    """A block as it is read: among other bytes, which mean nothing to it."""
    return memoryview(bytearray(b"\x9a" * 40 + block + b"\xa9" * 5_000))[40 : 40 + len(block)]


@st.composite
def damaged(draw, block):
    """A block with a byte changed, with bytes cut out, or cut off."""
    at = draw(st.integers(0, len(block) - 1))
    way = draw(st.sampled_from(["change", "cut out", "cut off", "leave"]))
    if way == "change":
        return block[:at] + bytes([draw(st.integers(0, 255))]) + block[at + 1 :]
    return {"cut out": block[:at] + block[at + 1 :], "cut off": block[:at], "leave": block}[way]


@pytest.mark.slow
def test_all_executors_agree_with_objects_on_intact_and_damaged_blocks():
    ways = Counter()

    @profiles.shorter
    @given(beginnings().filter(lambda drawn: drawn[0] in KEYED), st.data())
    def holds(beginning, data):
        kind, shape, contents = beginning
        _, new = data.draw(evolutions(kind, shape, 2))
        with tempfile.TemporaryDirectory() as place:
            state = runs.write(Path(place) / "v1", kind, Declared.of(shape), contents)
            takeover = Takeover.of(state, new)
            assume(takeover.outcome is Outcome.MIGRATE)
            for rewriter, blocks in rewriters(state, takeover.job):
                rewrite = rewriter.transcoder
                ways[type(rewrite).__name__] += 1
                if not isinstance(rewrite, BlockTranscoder):
                    continue
                both = [rewrite.objects, attrs.evolve(rewrite.objects, quarantines=True)]
                for block in [*blocks, b"".join(blocks)]:
                    for given_block in [block, *(data.draw(damaged(block)) for _ in range(8) if block)]:
                        for objects in both:
                            expected = outcome(objects, given_block)
                            by_block = BlockTranscoder(objects, rewrite.program)
                            assert expected == outcome(by_block, in_a_piece(given_block))
                            assert expected == outcome(plainly(by_block), in_a_piece(given_block))

    holds()

    assert ways["BlockTranscoder"] > ways["ObjectTranscoder"] // 2


@settings(profiles.shorter, max_examples=profiles.shorter.max_examples // 2)
@given(
    beginnings().filter(lambda drawn: drawn[0] in KEYED),
    st.data(),
    st.sampled_from([16, 100, keyed_stream.RUN_BYTES]),
    st.sampled_from([1, keyed_stream.RUN_BYTES]),
    st.sampled_from(Compression),
    st.sampled_from(BadValues),
)
def test_whole_tasks_come_to_the_same_streams_counts_and_errors(
    beginning, data, run_bytes, piece_bytes, compression, bad_values
):  # fmt: skip
    """With another state that is copied; key groups are read in pieces, many smaller than an entry, or one by one."""
    kind, shape, contents = beginning
    _, new = data.draw(evolutions(kind, shape, 2))
    at = runs.datetime.fromtimestamp(runs.REFERENCE / 1000, runs.UTC)
    options = MigrationOptions(
        reference_time=at, compression=compression, bad_values=bad_values, edits=runs.UNCONVERTED
    )
    with tempfile.TemporaryDirectory() as place, pytest.MonkeyPatch.context() as patch:
        state = runs.write(Path(place) / "v1", kind, Declared.of(shape), contents)
        takeover = Takeover.of(state, new)
        assume(takeover.outcome in {Outcome.MIGRATE, Outcome.STOP})
        patch.setattr(keyed_stream, "RUN_BYTES", run_bytes)
        patch.setattr(InlineBytes, "piece_bytes", piece_bytes)

        first, *others = by_each_executor(prepare(state.savepoint, takeover.job, options)).values()

        assert [first] * len(others) == others
