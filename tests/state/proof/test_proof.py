"""What a proof says of what Flink wrote: here a Flink that is made up, and writes what a test wants."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import attrs
import pytest

from stateshift import (
    Job,
    MapStateDescriptor,
    Operator,
    Savepoint,
    SavepointWriter,
    TimerServiceDescriptor,
    ValueStateDescriptor,
)
from stateshift.compat.description import operator_id_of_uid
from stateshift.state.formats.flink.metadata import METADATA, read_metadata, write_metadata
from stateshift.state.proof.installation import Answer, FlinkInstallation, FlinkNotFound
from stateshift.state.proof.proof import prove
from stateshift.state.savepoint.verify import Outcome

UID = "counts"
NUMBERS, WORDS, TIMERS = "number", "words", "_timer_state/event_timers"


def job(number=int):
    states = [ValueStateDescriptor("number", number), MapStateDescriptor("words", str, int)]
    return Job([Operator(UID, key=str, states=states, timers=[TimerServiceDescriptor("timers")])])


def written(folder, *, number=int, keys=10, wrong="", timers=10):
    with SavepointWriter(folder, job(number)) as writer:
        for key in (f"key {index}" for index in range(keys)):
            writer.put(UID, NUMBERS, key, number(-1 if key == wrong else len(key)))
            writer.put(UID, WORDS, key, {"a": 1, "b": 2})
        for index in range(timers):
            writer.register_event_time_timer(UID, 1000 + index, f"key {index}")
    return Savepoint.open(folder)


@attrs.frozen
class MadeUpFlink:
    """What a Flink does that writes the savepoint which `write` makes in a folder."""

    write: object
    lost: Counter = attrs.field(factory=Counter)
    not_told: tuple = ()
    left_out: dict = attrs.field(factory=dict)
    refused: tuple = ()
    release: str = "2.3.0"
    given: list = attrs.field(factory=list)

    def restore(self, savepoint, scratch, backend, tell):
        tell("restores")
        self.given.append(read_metadata((Path(savepoint) / METADATA).read_bytes()))
        taken = self.write(scratch / "taken")
        file = Path(taken.place) / METADATA
        metadata = read_metadata(file.read_bytes())
        operators = tuple(
            attrs.evolve(one, operator_id=operator_id_of_uid(one.operator_id.hex()), uid=one.operator_id.hex())
            for one in metadata.operators
        )
        file.write_bytes(write_metadata(attrs.evolve(metadata, operators=operators)))
        (scratch / "flink.log").write_text("what Flink says\n", encoding="utf-8")
        place = taken.operators[0].operator_id
        found = Counter()
        for state in taken.operators[0].states:
            if state.name not in self.not_told:
                found[place, state.name] = state.measure().entries
        examples = dict.fromkeys(self.lost, "key 3")
        log = scratch / "flink.log"
        return Answer("17.0.15", Path(taken.place), self.refused, self.left_out, {}, found, self.lost, examples, log)


def failed(proof):
    return [check.detail for check in proof.checks if check.status is Outcome.FAILED]


def test_what_flink_wrote_again_is_equal(tmp_path):
    savepoint = written(tmp_path / "savepoint")

    proof = prove(savepoint, MadeUpFlink(written))

    assert [] == failed(proof)
    assert proof.ok
    facts = proof.certificate
    assert ("2.3.0", "17.0.15", "hashmap") == (facts["flink"], facts["java"], facts["backend"])
    assert (40, 4) == (facts["entries"], facts["states"])
    assert savepoint.metadata_sha256 == facts["metadata_sha256"]
    assert {} == facts["sample"]
    assert [] == facts["not_proven"]


@pytest.mark.parametrize(
    ("fault", "told"),
    [
        ({"wrong": "key 3"}, "1 changed, 0 added, 0 removed"),
        ({"keys": 9}, "0 changed, 0 added, 1 removed"),
        ({"timers": 9}, "0 changed, 0 added, 1 removed"),
        ({"number": float}, "with another type"),
    ],
)
def test_what_flink_restored_differently_is_found(tmp_path, fault, told):
    proof = prove(written(tmp_path / "savepoint"), MadeUpFlink(lambda folder: written(folder, **fault)))

    assert not proof.ok
    assert told in failed(proof)[0]


def test_entries_that_nobody_sees_were_counted_by_the_migration(tmp_path):
    """Our reader finds as few as Flink does."""
    savepoint = written(tmp_path / "savepoint", keys=9)
    more = written(tmp_path / "more", keys=10)

    proof = prove(attrs.evolve(savepoint, lineage=more.lineage), MadeUpFlink(lambda folder: written(folder, keys=9)))

    assert "9 entries, but _stateshift.json has 10, in what Flink wrote" in failed(proof)


def test_a_key_in_a_wrong_group_is_not_found_by_flink(tmp_path):
    savepoint = written(tmp_path / "savepoint")
    lost = Counter({(savepoint.operators[0].operator_id, NUMBERS): 1})

    proof = prove(savepoint, MadeUpFlink(written, lost=lost))

    assert ["Flink 2.3.0 does not find 1 of 10, such as 'key 3'"] == failed(proof)


@pytest.mark.parametrize(("state", "told"), [(NUMBERS, 10), (WORDS, 20)])
def test_a_state_of_which_flink_tells_no_key_is_not_proven(tmp_path, state, told):
    proof = prove(written(tmp_path / "savepoint"), MadeUpFlink(written, not_told=(state,)))

    assert [f"Flink 2.3.0 finds 0 keys, of {told}"] == failed(proof)


def test_a_refusal_is_told_in_flinks_own_words(tmp_path):
    refused = ("java.lang.Exception: job failed", "java.io.IOException: not a header")

    proof = prove(written(tmp_path / "savepoint"), MadeUpFlink(written, refused=refused))

    (detail,) = failed(proof)
    assert detail.startswith("Flink 2.3.0 restored it, and failed to look its keys up: java.lang.Exception: job failed")
    assert "java.io.IOException: not a header; its log is " in detail
    log = Path(detail.rpartition(" ")[2])
    assert "what Flink says\n" == log.read_text(encoding="utf-8")
    log.unlink()


def test_an_operator_whose_classes_are_missing_is_named_and_not_proven(tmp_path):
    savepoint = written(tmp_path / "savepoint")
    left_out = {savepoint.operators[0].operator_id: "java.lang.ClassNotFoundException: com.acme.Order"}

    proof = prove(savepoint, MadeUpFlink(written, left_out=left_out))

    assert not proof.ok
    assert ["com.acme.Order" in told for told in proof.certificate["not_proven"]] == [True]
    assert not proof.write(savepoint)


def test_of_a_sample_flink_gets_no_other_key_group(tmp_path):
    savepoint = written(tmp_path / "savepoint", keys=300, timers=300)
    flink = MadeUpFlink(lambda folder: written(folder, keys=300, timers=300))

    proof = prove(savepoint, flink, sample=0.1)

    (given,) = flink.given
    (handle,) = (one.managed_keyed for operator in given.operators for one in operator.subtasks)
    assert 13 == sum(offset > 0 for offset in handle.offsets)
    (sampled,) = proof.certificate["sample"].values()
    assert {"key_groups": 13, "of": 128} == sampled
    assert 0 < proof.certificate["entries"] < 1200


def test_the_certificate_stands_in_the_lineage(tmp_path):
    savepoint = written(tmp_path / "savepoint")
    proof = prove(savepoint, MadeUpFlink(written))

    assert proof.write(savepoint)
    again = Savepoint.open(savepoint.place)
    assert proof.certificate == again.lineage.proof
    assert proof.certificate == again.own_facts()["proof"]


def test_without_a_lineage_nothing_is_written(savepoint_of):
    savepoint = Savepoint.open(savepoint_of("rocksdb-account-v1"))

    assert not prove(savepoint, MadeUpFlink(written)).write(savepoint)


def test_what_is_missing_is_told_with_where_it_was_looked_for(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    (tmp_path / "flink-dist-2.3.0.jar").touch()

    with pytest.raises(FlinkNotFound, match="a JDK of Java 11 or later") as caught:
        FlinkInstallation.find(str(tmp_path))

    assert ("JAVA_HOME: none", "java on the path: none") == caught.value.tried


def test_a_folder_without_flink_is_refused(tmp_path, monkeypatch):
    monkeypatch.setenv("FLINK_HOME", str(tmp_path))

    with pytest.raises(FlinkNotFound, match="no Flink was found") as caught:
        FlinkInstallation.find()

    assert f"FLINK_HOME: no flink-dist-*.jar in {tmp_path}" == caught.value.tried[0]
