"""Two spellings of one place have one identity."""

from pathlib import Path

import pytest

from stateshift.state.storage.identity import Identity


@pytest.fixture
def real(tmp_path):
    folder = tmp_path / "real" / "src"
    folder.mkdir(parents=True)
    (tmp_path / "link").symlink_to(tmp_path / "real")
    return folder


@pytest.mark.parametrize(
    "spelling",
    [
        "{base}/link/src",
        "{base}/real/./src/",
        "{base}//real/../link/src",
        "/proc/self/root{base}/real/src",
        "file:{base}/link/src",
        "file://{base}/link/s%72c",
        "FILE://localhost{base}/real/src/",
    ],
)
def test_spellings_of_a_local_folder_are_one_place(tmp_path, real, spelling):
    if spelling.startswith("/proc") and not Path("/proc/self/root").exists():
        pytest.skip("there is no /proc")
    place, source = Identity.of(spelling.format(base=tmp_path)), Identity.of(real)
    assert place.is_same(source)
    assert source.is_same(place)
    assert not place.is_inside(source)
    inner = Identity.of(f"{spelling.format(base=tmp_path)}/new/inner")
    assert inner.is_inside(source)
    assert not inner.is_same(source)
    assert not source.is_inside(inner)


def test_a_relative_path_is_what_the_working_directory_makes_of_it(tmp_path, real, monkeypatch):
    monkeypatch.chdir(tmp_path / "link")
    assert Identity.of("src").is_same(Identity.of(real))
    assert Identity.of("../real/src/x").is_inside(Identity.of(real))


def test_folders_that_are_not_there_are_distinguished_by_name(tmp_path, real):
    assert Identity.of(tmp_path / "link/new").is_same(Identity.of(tmp_path / "real/new"))
    assert not Identity.of(tmp_path / "real/new").is_same(Identity.of(tmp_path / "real/other"))
    assert not Identity.of(tmp_path / "real/srcs").is_inside(Identity.of(real))
    assert Identity.of(real).is_inside(Identity.of(tmp_path / "real"))
    assert Identity.of(tmp_path / "real/new/x").is_inside(Identity.of(tmp_path / "link/new"))


@pytest.mark.parametrize(
    "spelling", ["s3a://b/a/src", "s3n://b/a/src/", "S3://b/a/s%72c", "s3://B/a//src", "s3://b/a/x/../src"]
)
def test_spellings_of_a_key_are_one_place(spelling):
    place, source = Identity.of(spelling), Identity.of("s3://b/a/src")
    assert place.is_same(source)
    assert Identity.of(f"{spelling}/inner").is_inside(source)


@pytest.mark.parametrize("other", ["s3://b/a/srcs", "s3://c/a/src", "gs://b/a/src", "s3://b/a"])
def test_other_keys_buckets_and_stores_are_other_places(other):
    assert not Identity.of(other).is_same(Identity.of("s3://b/a/src"))
    assert not Identity.of(other).is_inside(Identity.of("s3://b/a/src"))


def test_an_endpoint_is_part_of_an_s3_place_wherever_it_is_reported(monkeypatch):
    for name in ("AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3"):
        monkeypatch.delenv(name, raising=False)
    told = Identity.of("s3://b/a?endpoint_override=Host:9000&scheme=http")
    assert not told.is_same(Identity.of("s3://b/a"))
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://host:9000/")
    assert told.is_same(Identity.of("s3://b/a"))
    assert Identity.of("s3://b/a?endpoint_override=http://h:80").is_same(Identity.of("s3://b/a?endpoint_override=h"))
