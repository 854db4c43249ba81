"""What a savepoint names outside its own folder is read only where the caller allows it."""

from __future__ import annotations

import pickle
import shutil
import socket
import threading
from pathlib import Path
from urllib.parse import quote

import pytest
from redirecting import add_raw, lead, redirect_to

from stateshift import CorruptSavepoint, Savepoint, StorageFailed, UntrustedPlace, migrate
from stateshift.serializers.errors import error_text
from stateshift.serializers.ways_out import on_command_line
from stateshift.serializers.wording import masked
from stateshift.state.formats.flink.handles import AbsoluteFileHandle, RelativeFileHandle
from stateshift.state.publication.lineage import Lineage
from stateshift.state.savepoint.verify import verify
from stateshift.state.storage.files import Folder

FILES = "rocksdb-long-p2-m200-files"
VERBS = (
    ["inspect", "SP"],
    ["export", "SP"],
    ["verify", "SP"],
    ["init", "SP", "-o", "-"],
    ["snapshot", "SP"],
    ["diff", "SP", "SP"],
    ["quarantine", "SP"],
    ["check", "SP", "--like", "SP"],
    ["plan", "SP", "--parallelism", "3"],
    ["migrate", "SP", "TARGET", "--parallelism", "3"],
    ["migrate", "SP", "TARGET", "--drop", "nothing"],
)


@pytest.fixture
def savepoint(savepoint_copy):
    return savepoint_copy(FILES)


@pytest.fixture
def listening():
    """A port of this machine, and the clients that connected to it so far."""
    server, visitors = socket.create_server(("127.0.0.1", 0)), []

    def serve():
        while True:
            try:
                connection, peer = server.accept()
            except OSError:
                return
            visitors.append(peer)
            connection.close()

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    yield server.getsockname()[1], visitors
    server.shutdown(socket.SHUT_RDWR)
    server.close()
    thread.join(10)


def typed(verb, savepoint, target, *more):
    return [{"SP": savepoint, "TARGET": target}.get(word, word) for word in verb] + list(more)


@pytest.mark.parametrize("verb", VERBS, ids=lambda verb: " ".join(verb[:1] + verb[2:]))
def test_no_request_is_sent_to_a_host_that_a_savepoint_names(run, savepoint, tmp_path, listening, monkeypatch, verb):
    port, visitors = listening
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "tests-access")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "tests-hidden-secret")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    uri = f"s3://b/x?endpoint_override=127.0.0.1:{port}&scheme=http&region=here"
    add_raw(savepoint, AbsoluteFileHandle(uri, 10))

    ran = run(*typed(verb, savepoint, tmp_path / "target"))

    assert (2, "", []) == (ran.status, ran.stdout, visitors)
    assert "UntrustedPlace: the savepoint names the file s3://b/x?… with options of its own" in ran.stderr
    assert not (tmp_path / "target").exists()


@pytest.mark.parametrize("verb", VERBS, ids=lambda verb: " ".join(verb[:1] + verb[2:]))
def test_no_file_outside_is_opened_for_raw_state(run, savepoint, tmp_path, verb):
    secret = tmp_path / "else where" / "secret"
    secret.parent.mkdir()
    secret.write_bytes(b"hidden")
    add_raw(savepoint, AbsoluteFileHandle(f"file://{quote(str(secret))}", 6))

    ran = run(*typed(verb, savepoint, tmp_path / "target"))

    assert (2, "") == (ran.status, ran.stdout)
    assert f"\n  --allow-root '{secret.parent}'\n" in ran.stderr
    assert not (tmp_path / "target").exists()


@pytest.mark.parametrize("verb", VERBS[:-1], ids=lambda verb: " ".join(verb[:1] + verb[2:]))
def test_what_is_allowed_is_read(run, savepoint, tmp_path, verb):
    shutil.move(savepoint, tmp_path / "before")
    savepoint.mkdir()
    shutil.move(tmp_path / "before" / "_metadata", savepoint)
    redirect_to(savepoint, f"file:{tmp_path}/before")

    ran = run(*typed(verb, savepoint, tmp_path / "target", "--allow-root", tmp_path / "before"))

    assert 0 == ran.status, ran.stderr


def test_a_password_file_is_not_copied(run, savepoint, tmp_path):
    add_raw(savepoint, AbsoluteFileHandle("file:///etc/passwd", Path("/etc/passwd").stat().st_size))

    ran = run("migrate", savepoint, tmp_path / "target", "--parallelism", "3")

    assert 2 == ran.status
    assert "--allow-root /etc\n" in ran.stderr


class TestOwnRoots:
    """Where files may lie without a word."""

    @pytest.mark.parametrize(
        "spelled",
        [
            "file:{}",
            "file://{}",
            "file:///{}",
            "FILE:{}",
            "file://localhost{}",
            "file:{}/../{name}",
            "file:{}//.",
            "link",
        ],
    )
    def test_a_savepoint_names_its_own_files_however_it_spells_them(self, savepoint, spelled):
        if spelled == "link":
            link = savepoint.parent / "linked"
            link.symlink_to(savepoint)
            redirect_to(savepoint, f"file:{link}")
        else:
            redirect_to(savepoint, spelled.format(savepoint, name=savepoint.name))

        assert verify(Savepoint.open(savepoint)).ok

    def test_percent_signs_are_read_as_java_writes_them(self, savepoint, tmp_path):
        odd = tmp_path / "ä b%41#?"
        shutil.move(savepoint, odd)
        redirect_to(odd, f"file:{quote(str(odd))}")

        assert verify(Savepoint.open(odd)).ok

    def test_a_checkpoint_shares_files_with_others_of_its_job(self, savepoint, tmp_path):
        job = tmp_path / "0123456789abcdef0123456789abcdef"
        checkpoint = job / "chk-7"
        checkpoint.mkdir(parents=True)
        (job / "shared").mkdir()
        (job / "taskowned").mkdir()
        shutil.move(savepoint / "_metadata", checkpoint)
        places = {}
        for number, file in enumerate(sorted(savepoint.iterdir())):
            folder = (checkpoint, job / "shared", job / "taskowned")[number % 3]
            places[file.name] = shutil.move(file, folder)
        lead(checkpoint, lambda stream: AbsoluteFileHandle(f"file:{places[stream.path]}", stream.size))

        assert verify(Savepoint.open(checkpoint)).ok
        assert verify(Savepoint.open(f"file:{checkpoint}/_metadata")).ok

    def test_what_lies_next_to_a_checkpoint_otherwise_does_not_belong_to_it(self, savepoint, tmp_path):
        for name in ("home/chk-7", "home/sp-1"):
            folder = tmp_path / name
            folder.parent.mkdir(exist_ok=True)
            shutil.copytree(savepoint, folder)
            for other in ("home/key", "home/chk-8/state", "home/shared-too/state"):
                lead(folder, lambda stream, uri=f"file:{tmp_path}/{other}": AbsoluteFileHandle(uri, stream.size))
                with pytest.raises(UntrustedPlace):
                    Savepoint.open(folder)
                shutil.copy(savepoint / "_metadata", folder)


class TestElsewhere:
    """All ways out are seen, and closed before anything is opened."""

    @pytest.mark.parametrize(
        "uri",
        [
            "file:{sp}/../secret",
            "file:{sp}/%2e%2e/secret",
            "file:{sp}/..%2Fsecret",
            "file:{sp}/x/../../secret",
            "FILE:///{parent}/secret",
            "file:{sp}-2/secret",
            "file:{sp}/out/secret",
            "file:{sp}/out/../secret",
            "file:{sp}/secret-link",
            "s3://bucket{sp}/x",
            "s3a://bucket{sp}/x",
            "hdfs://host{sp}/x",
            "http://host{sp}/x",
        ],
    )
    def test_a_uri_that_leads_out_is_refused(self, savepoint, uri, tmp_path):
        secret = savepoint.parent / "secret"
        secret.write_bytes(b"hidden")
        (savepoint / "out").symlink_to(tmp_path)
        (savepoint / "secret-link").symlink_to(secret)
        add_raw(savepoint, AbsoluteFileHandle(uri.format(sp=savepoint, parent=savepoint.parent), 6))

        with pytest.raises(UntrustedPlace) as refused:
            Savepoint.open(savepoint)

        assert refused.value.roots

    @pytest.mark.parametrize("name", ["link", "out/secret"])
    def test_a_link_next_to_metadata_must_not_lead_out(self, savepoint, tmp_path, name):
        secret = tmp_path / "elsewhere" / "secret"
        secret.parent.mkdir()
        secret.write_bytes(b"hidden")
        (savepoint / "link").symlink_to(secret)
        (savepoint / "out").symlink_to(secret.parent)
        add_raw(savepoint, RelativeFileHandle(name, 6))

        with pytest.raises(UntrustedPlace) as refused:
            migrate(savepoint, tmp_path / "target")

        assert (str(secret.parent),) == refused.value.roots
        assert migrate(savepoint, tmp_path / "target", allow_roots=[secret.parent]).copies

    @pytest.mark.parametrize(
        ("uri", "error"),
        [
            ("s3://access:hidden@b/x", "credentials"),
            ("s3://hidden@b/x", "credentials"),
            ("file://hidden@host/x", "credentials"),
            ("file:{sp}/x?secret_key=hidden", "options"),
            ("s3://b/x?access_key=a&secret_key=hidden", "options"),
            ("s3://b/x#hidden", "options"),
            ("file://host{sp}/x", "a host"),
        ],
    )
    def test_a_uri_brings_no_options_and_shows_no_secrets(self, savepoint, uri, error):
        handle = AbsoluteFileHandle(uri.format(sp=savepoint), 1)
        add_raw(savepoint, handle)

        with pytest.raises(UntrustedPlace, match=f"with {error} of its own") as refused:
            Savepoint.open(savepoint, allow_roots=["/", "s3://b"])

        assert "hidden" not in str(refused.value) + repr(handle) + repr(refused.value.where)

    @pytest.mark.parametrize("uri", ["/etc/passwd", "", "file:", "file:/a/..", "s3://[::1/x", "file:/a%00b", "s3://b/"])
    def test_what_is_no_file_is_corrupt(self, savepoint, uri):
        add_raw(savepoint, AbsoluteFileHandle(uri, 1))

        with pytest.raises(CorruptSavepoint, match="not the URI of a file"):
            Savepoint.open(savepoint)


class TestMessages:
    """They help a user who has moved a savepoint, and knows it."""

    def test_each_root_has_a_line_and_all_are_reported_at_once(self, savepoint):
        uris = iter(
            f"s3://bucket/flink/{place}"
            for place in ("j1/shared/a/1", "j1/shared/b/2", "j1/chk-3/3", "with space/4", "j2/taskowned/5", "6")
        )
        lead(savepoint, lambda stream: AbsoluteFileHandle(next(uris), stream.size))

        with pytest.raises(UntrustedPlace) as refused:
            Savepoint.open(savepoint)

        lines = [line for line in error_text(refused.value, on_command_line).splitlines() if "--allow-root" in line]
        base = "s3://bucket/flink"
        roots = [base, *(f"{base}/{place}" for place in ("j1/chk-3", "j1/shared", "j2/taskowned", "with%20space"))]
        assert [f"  --allow-root {root}" for root in roots] == lines
        assert all(f'  allow_roots=["{root}"]' in str(refused.value) for root in roots)
        again = pickle.loads(pickle.dumps(refused.value))
        assert refused.value.roots == again.roots

    def test_of_paths_with_random_letters_what_they_share_is_reported(self, savepoint):
        from stateshift.state.formats.flink.roots import _roots_of

        roots = _roots_of([f"s3://bucket/{number:04x}/flink" for number in range(100)] + ["hdfs://nn:8020/flink"])

        assert ("hdfs://nn:8020/flink", "s3://bucket") == roots

    def test_for_a_moved_savepoint_the_message_has_its_original_place(self, savepoint, tmp_path):
        redirect_to(savepoint, f"file:{tmp_path}/before")

        with pytest.raises(UntrustedPlace) as refused:
            Savepoint.open(savepoint)

        assert "was moved or copied here" in str(refused.value)
        assert f"move the savepoint back to {tmp_path}/before" in refused.value.advice

    def test_the_reported_root_lets_it_be_read(self, savepoint, tmp_path):
        shutil.copytree(savepoint, tmp_path / "before")
        redirect_to(savepoint, f"file:{tmp_path}/before")
        with pytest.raises(UntrustedPlace) as refused:
            Savepoint.open(savepoint)

        opened = Savepoint.open(savepoint, allow_roots=refused.value.roots)

        assert verify(opened).ok
        assert pickle.loads(pickle.dumps(opened.folder)).roots == opened.folder.roots


class TestSecrets:
    """Credentials are shown nowhere."""

    @pytest.mark.parametrize(
        "place",
        [
            "s3://user:hidden@b/x",
            "s3://hidden@b/x",
            "hdfs://user:hidden@host/x",
            "s3://b/x?secret_key=hidden",
            "s3://b/x?endpoint_override=http://u:hidden@host",
            "s3://b/x?endpoint_override=http%3A%2F%2Fu%3Ahidden%40host",
            "abfs://c@account/x?sas_token=hidden",
        ],
    )
    def test_a_place_with_credentials_is_refused(self, savepoint, place):
        for attempt in (
            lambda: Folder.at(place),
            lambda: Savepoint.open(savepoint, allow_roots=[place]),
        ):
            with pytest.raises(StorageFailed, match="contains credentials") as refused:
                attempt()
            assert "hidden" not in str(refused.value)

        assert "hidden" not in masked(f"Cannot open '{place}': no such file")

    def test_what_has_no_credentials_is_shown_whole(self):
        text = "s3://b/x?endpoint_override=127.0.0.1:9000&scheme=http and hdfs://nn:8020/a@b and mail a@b"

        assert text == masked(text)

    def test_a_foreign_lineage_allows_no_root(self):
        facts = {"place": "s3://u:hidden@b/x", "metadata_sha256": "0"}
        plan = {"source": "savepoint s3://u:hidden@b/x", "job": "job j:j"}
        lineage = Lineage(stateshift="1", created="now", job="savepoint s3://u:hidden@b/x", source=facts, plan=plan)
        after = Lineage.from_json(
            Lineage(stateshift="1", created="now", job="j", history=lineage.as_history(), source=facts).to_json()
        )

        assert b"hidden" not in Lineage.from_json(lineage.to_json()).to_json()
        assert b"hidden" not in after.to_json()
