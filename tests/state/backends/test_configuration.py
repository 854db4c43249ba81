"""Flink's keys: where they are read, what becomes of them, and what reaches RocksDB."""

import os
import warnings

import pytest

from stateshift import (
    Configuration,
    DeclarationError,
    EmbeddedRocksDBStateBackend,
    HashMapStateBackend,
    MapFunction,
    ValueStateDescriptor,
    configured_backend,
    configured_checkpoints,
    serializer_for,
)
from stateshift.state.backends.configuration import options, read_flink_file
from stateshift.state.backends.rocksdb.options import DatabaseOptions
from stateshift.state.testing import ProcessHarness

ROCKSDB = "state.backend.rocksdb."


class Doubles(MapFunction):
    def map(self, value):
        return 2 * value


class SmallLevels:
    """A factory as a user writes it."""

    def __init__(self):
        self.seen = None

    def create_db_options(self, current_options):
        current_options.set_max_open_files(77)
        return current_options

    def create_column_options(self, current_options):
        current_options.set_max_bytes_for_level_base(self.seen)
        return current_options

    def configure(self, configuration):
        self.seen = configuration[f"{ROCKSDB}compaction.level.max-size-level-base"] + 1
        return self


def of(call=None, **places):
    return Configuration.of(call, **{"environment": {}, **places})


def opened(configuration, **options):
    """Return what the OPTIONS file of a new database says."""
    backend = EmbeddedRocksDBStateBackend(serializer_for(int), 4, range(4), configuration=configuration, **options)
    backend.get_or_create_keyed_state(ValueStateDescriptor("v", int))
    try:
        newest = max(backend.folder.glob("OPTIONS-*"), key=lambda file: file.name)
        database, _, family = newest.read_text(encoding="utf-8").partition('[CFOptions "v"]')
        return database, family
    finally:
        backend.dispose()


def test_defaults_are_those_of_flink():
    configuration = of()

    assert "hashmap" == configuration["state.backend.type"]
    assert configuration["execution.checkpointing.incremental"] is False
    assert configuration[f"{ROCKSDB}memory.managed"] is True
    assert (0.5, 0.1) == tuple(
        configuration[f"{ROCKSDB}memory.{name}-ratio"] for name in ("write-buffer", "high-prio-pool")
    )
    assert "ROCKSDB" == configuration[f"{ROCKSDB}timer-service.factory"]
    assert 1 == configuration["execution.checkpointing.num-retained"]
    assert configuration["execution.checkpointing.dir"] is None


def test_the_call_wins_over_spark_over_the_environment_over_the_project(tmp_path):
    (tmp_path / "pyproject.toml").write_text(
        '[tool.stateshift]\njob = "a:b"\nexecution.checkpointing.num-retained = 2\n'
        '"state.backend.type" = "rocksdb"\nexecution.checkpointing.incremental = true\n'
    )
    below = tmp_path / "src"
    below.mkdir()
    key = "execution.checkpointing.num-retained"
    environment = {"STATESHIFT_EXECUTION_CHECKPOINTING_NUM_RETAINED": "3", "STATESHIFT_EXECUTOR": "objects"}
    spark = {f"spark.stateshift.{key}": "4", "spark.stateshift.other": "x", "spark.app.name": "y"}

    project = of(start=below)
    assert (2, "rocksdb", True) == tuple(
        project[name] for name in (key, "state.backend.type", "execution.checkpointing.incremental")
    )
    assert 3 == of(environment=environment, start=below)[key]
    assert 4 == of(spark=spark, environment=environment, start=below)[key]
    assert 5 == of({key: 5}, spark=spark, environment=environment, start=below)[key]


def test_earlier_names_of_keys_are_known():
    assert "rocksdb" == of({"state.backend": "RocksDB"})["state.backend.type"]
    assert "/s" == of(environment={"STATESHIFT_STATE_SAVEPOINTS_DIR": "/s"})["execution.checkpointing.savepoint-dir"]


@pytest.mark.parametrize(
    "places",
    [
        {"call": {"state.backend.rocksdb.memory.manged": "true"}},
        {"spark": {"spark.stateshift.state.backend.rocksdb.memory.manged": "true"}},
    ],
)
def test_an_unknown_key_is_an_error_with_the_nearest_one(places):
    with pytest.raises(DeclarationError, match=r"did you mean 'state\.backend\.rocksdb\.memory\.managed'"):
        of(**places)


def test_an_unknown_variable_is_an_error_with_the_nearest_one():
    with pytest.raises(DeclarationError, match="did you mean 'STATESHIFT_STATE_BACKEND_TYPE'"):
        of(environment={"STATESHIFT_STATE_BACKEND_TYP": "rocksdb"})


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("state.backend.type", "hashmapp"),
        ("execution.checkpointing.incremental", "yes"),
        ("execution.checkpointing.num-retained", "many"),
        (f"{ROCKSDB}memory.write-buffer-ratio", "1.5"),
        (f"{ROCKSDB}writebuffer.size", "64 mib"),
        (f"{ROCKSDB}predefined-options", "FLASH_SSD_OPTIMIZED"),
        ("state.changelog.enabled", "true"),
        ("state.backend.forst.memory.managed", "true"),
        ("state.changelog.dstl.dfs.base-path", "/x"),
    ],
)
def test_a_value_that_does_not_fit_or_a_refused_key_is_an_error(key, value):
    with pytest.raises(DeclarationError, match=key.replace(".", r"\.")):
        of({key: value})


@pytest.mark.parametrize("key", [key for key, option in options().items() if option.effect == "warned"])
def test_a_key_without_effect_warns(key):
    option = options()[key]
    value = option.default or "1"
    with pytest.warns(UserWarning, match="has no effect: "):
        of({key.replace("*", "any"): value})


@pytest.mark.parametrize(
    "key",
    ["pipeline.max-paralelism", "pipeline.auto-watermark-intervall", "paralelism.default", "execution.runtme-mode"],
)
def test_a_slip_of_a_key_with_effect_is_an_error_among_keys_without(key):
    with pytest.raises(DeclarationError, match=r"did you mean .(pipeline|parallelism|execution)"):
        of({key: "1"})


FILES = {
    "flat": "state.backend.type: rocksdb\nparallelism.default: 3\nexecution.checkpointing.dir: file:///c\n",
    "nested": "parallelism:\n  default: 3\nstate: {backend: {type: rocksdb}}\nexecution.checkpointing:\n  dir: file:///c\n",
}


@pytest.mark.parametrize("form", FILES)
def test_the_file_of_flink_is_the_last_place_of_a_local_run(form, tmp_path):
    (tmp_path / "config.yaml").write_text(FILES[form])
    variables = {"FLINK_CONF_DIR": str(tmp_path), "STATESHIFT_EXECUTION_CHECKPOINTING_DIR": "/mine"}

    local = Configuration.of(environment=variables, start=tmp_path, is_local=True)
    assert {"state.backend.type": "rocksdb", "parallelism.default": 3, "execution.checkpointing.dir": "/mine"} == (
        local.values
    )
    assert Configuration.of(environment=variables, start=tmp_path)["state.backend.type"] == "hashmap"


def test_a_list_in_the_file_of_flink_is_a_list(tmp_path):
    file = tmp_path / "config.yaml"
    file.write_text("state.backend.rocksdb.compression.per.level: [NO_COMPRESSION, LZ4_COMPRESSION]\n")

    assert ("NO_COMPRESSION", "LZ4_COMPRESSION") == of().updated(read_flink_file(file))[
        "state.backend.rocksdb.compression.per.level"
    ]


def test_keys_without_effect_are_named_once_in_a_warning(tmp_path):
    file = tmp_path / "config.yaml"
    file.write_text("taskmanager.numberOfTaskSlots: 4\nrest:\n  port: 8081\nparallelism.default: 2\n")
    with pytest.warns(
        UserWarning, match=r"taskmanager\.numberOfTaskSlots, rest\.port in the file have no effect"
    ) as told:
        of().updated(read_flink_file(file), "the file", is_local=True)

    assert 1 == len(told)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a: [", "not valid YAML"),
        ("- a\n- b\n", "no keys and values"),
        ("state.backend.type: rocksdb\nstate:\n  backend:\n    type: hashmap\n", r"state\.backend\.type twice"),
        ("a: &a {b: *a}\n", "not valid YAML"),
        (None, "cannot be read: No such file"),
    ],
)
def test_a_file_that_is_none_of_flink_is_an_error_with_its_name(text, said, tmp_path):
    if text is not None:
        (tmp_path / "config.yaml").write_text(text)
    with pytest.raises(DeclarationError, match=said) as caught:
        Configuration.of(environment={"FLINK_CONF_DIR": str(tmp_path)}, is_local=True)

    assert "config.yaml" in str(caught.value)


def test_what_is_harmless_is_accepted_without_a_word():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        of({"state.changelog.enabled": False, f"{ROCKSDB}predefined-options": "default"})


@pytest.mark.parametrize(("name", "kind"), [("hashmap", HashMapStateBackend), ("rocksdb", EmbeddedRocksDBStateBackend)])
def test_the_configured_backend_is_made(name, kind):
    made = configured_backend(of({"state.backend.type": name}))(serializer_for(int), 4, range(4))

    assert type(made) is kind
    made.dispose()


def test_memory_has_units():
    sizes = {"1": 1, "4kb": 4096, "64 MB": 64 << 20, "1 gb": 1 << 30}

    assert list(sizes.values()) == [
        of({f"{ROCKSDB}writebuffer.size": text})[f"{ROCKSDB}writebuffer.size"] for text in sizes
    ]


def test_values_reach_the_database():
    values = {
        "compaction.style": "level",
        "compaction.level.target-file-size-base": "3mb",
        "writebuffer.size": "5mb",
        "compression.per.level": "NO_COMPRESSION;LZ4_COMPRESSION",
        "files.open": 55,
        "memory.managed": "false",
    }
    database, family = opened(of({ROCKSDB + name: value for name, value in values.items()}))

    assert "max_open_files=55" in database
    assert "compaction_style=kCompactionStyleLevel" in family
    assert "target_file_size_base=3145728" in family
    assert "write_buffer_size=5242880" in family
    assert "compression_per_level=kNoCompression:kLZ4Compression" in family
    assert "cache_index_and_filter_blocks=false" in family


def test_an_options_factory_reaches_the_database():
    configuration = of({f"{ROCKSDB}compaction.level.max-size-level-base": "1mb", f"{ROCKSDB}memory.managed": False})
    for database, family in (
        opened(configuration, options_factory=SmallLevels()),
        opened(of({**configuration.values, f"{ROCKSDB}options-factory": f"{__name__}:SmallLevels"})),
    ):
        assert "max_open_files=77" in database
        assert f"max_bytes_for_level_base={(1 << 20) + 1}" in family


def test_the_databases_of_a_process_share_their_memory():
    fixed = of({f"{ROCKSDB}memory.fixed-per-slot": "10mb"})

    assert DatabaseOptions(of())._memory is DatabaseOptions(of())._memory
    assert DatabaseOptions(fixed)._memory is not DatabaseOptions(fixed)._memory
    assert DatabaseOptions(of({f"{ROCKSDB}memory.managed": False}))._memory is None


def test_filters_are_in_parts_that_the_block_cache_takes():
    _, family = opened(of())

    assert "partition_filters=true" in family
    assert "index_type=kTwoLevelIndexSearch" in family


def test_managed_memory_replaces_the_sizes_of_a_factory():
    with pytest.warns(UserWarning, match="are replaced"):
        _, family = opened(of(), options_factory=SmallLevels())

    assert "cache_index_and_filter_blocks=true" in family


@pytest.mark.parametrize("name", ["os:path", "nowhere:Class", "os", f"{__name__}:nothing"])
def test_a_factory_that_cannot_be_made_is_an_error(name):
    with pytest.raises(DeclarationError, match="options-factory"):
        EmbeddedRocksDBStateBackend(
            serializer_for(int), 4, range(4), configuration=of({f"{ROCKSDB}options-factory": name})
        )


def table_of_options():
    """Return the table of all keys for the documentation, in Markdown."""
    rows = ["| key | default | effect | remark |", "| --- | --- | --- | --- |"]
    for option in options().values():
        notes = [option.note] if option.note else []
        if option.former:
            notes.append("also " + ", ".join(f"`{name}`" for name in option.former))
        default = f"`{option.default}`" if option.default else ""
        rows.append(f"| `{option.key}` | {default} | {option.effect} | {'; '.join(notes)} |")
    return "\n".join([*rows, ""])


def test_the_page_has_the_table_of_all_keys(root):
    page = root / "docs" / "reference" / "configuration.md"
    start, mark, _ = page.read_text(encoding="utf-8").partition("tests/state/backends/test_configuration.py -->\n\n")
    if os.environ.get("STATESHIFT_RECORD"):
        page.write_text(f"{start}{mark}{table_of_options()}", encoding="utf-8")

    assert f"{start}{mark}{table_of_options()}" == page.read_text(encoding="utf-8")
    assert all(f"| `{key}` |" in table_of_options() for key in options())


def test_checkpoints_are_where_and_as_many_as_the_configuration_says(tmp_path):
    job = "0" * 32
    keys = {"execution.checkpointing.dir": str(tmp_path), "execution.checkpointing.num-retained": 2}
    with configured_checkpoints(of(keys), job) as storage:
        harness = ProcessHarness(Doubles())
        for _ in range(3):
            harness.snapshot(storage)

    assert {"chk-2", "chk-3"} == {path.name for path in (tmp_path / job).glob("chk-*")}
    with pytest.raises(DeclarationError, match=r"checkpointing\.dir"), configured_checkpoints(of()):
        pass
