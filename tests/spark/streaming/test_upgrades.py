"""A running query is upgraded again and again, and goes back."""

from __future__ import annotations

import pytest
from streaming_accounts import accounts_module
from streaming_queries import BY_CARRIER

from stateshift import DeclarationError, MigrationOptions
from stateshift.compat.edits import Edits
from stateshift.spark import StreamJob, rewind
from stateshift.state.backends.restore_check import RestoreRefused

COLUMNS = "user string, amount long"
PRICES = """
from collections.abc import Iterator
from typing import Any
from stateshift import KeyedProcessFunction, ValueStateDescriptor

def to_cents(euros):
    return euros * 100

class Prices(KeyedProcessFunction):
    def open(self, runtime_context):
        self.total = runtime_context.get_state(ValueStateDescriptor("total", int{converter}))

    def process_element(self, value: Any, ctx: Any) -> Iterator[tuple[str, int]]:
        self.total.update((self.total.value() or 0) + value.amount)
        yield value.user, self.total.value()
"""


@pytest.mark.slow
def test_a_converter_is_called_once_and_later_migrations_know_that(query, load):
    live = query(COLUMNS)
    sources = {
        "euros": PRICES.format(converter=""),
        "cents": PRICES.format(converter=", converter=to_cents"),
    }
    modules = {name: load(name, **{name: source}) for name, source in sources.items()}

    def build(name):
        return lambda job, query: job.stream(query.frame()).key_by("user").process(
            modules[name].Prices(), uid="prices", output_type=tuple[str, int]
        )  # fmt: skip

    live.feed(("ann", 1))
    live.run(build("euros"))
    live.feed(("ann", 50))
    with pytest.raises(RestoreRefused, match="STATE-8"):
        live.run(build("cents"), on_incompatible="migrate")
    live.run(build("cents"), on_incompatible="migrate", options=MigrationOptions(edits=Edits(convert=("total",))))
    live.feed(("ann", 50))
    live.run(build("cents"))
    live.feed(("ann", 50))
    live.run(build("cents"), slots=3)
    live.feed(("ann", 50))
    live.run(build("cents"))

    assert [("ann", 1), ("ann", 150), ("ann", 200), ("ann", 250), ("ann", 300)] == live.results()
    assert [4, 1] == [live.directory.last_epoch.number, len(live.directory.last_epoch.history)]


BATCHES = [
    [("ann", 1), ("bob", 2)],
    [("ann", 3), ("cy", 4)],
    [("ann", 5), ("bob", 6), ("dan", 7)],
    [("bob", 8), ("eve", 9)],
    [("ann", 10), ("bob", 11), ("cy", 12), ("dan", 13), ("eve", 14)],
]
FIELDS = ('currency: str = "EUR"', "level: int = 0")
NAMES = ("accounts_u1", "accounts_u2", "accounts_u3")


@pytest.fixture
def accounts(load):
    """`accounts(1)`: the query of a version of the class."""

    def version(number):
        name = NAMES[number - 1]
        module = load(name, **{name: accounts_module(NAMES, FIELDS[: number - 1])})
        return lambda job, query: job.stream(query.frame()).key_by("user").process(
            module.Accounts(), uid="accounts", output_type=tuple[str, str]
        )  # fmt: skip

    return version


def of_batches(build, version, rows, query, place):
    """What a query of one version writes for some batches, all history at once. The sink is Parquet files."""
    whole = query(COLUMNS)
    whole.place = place
    for batch in rows:
        whole.feed(*batch)
    whole.run(build(version))
    return whole.results()


@pytest.mark.slow
@BY_CARRIER
def test_two_upgrades_and_both_ways_back(query, carrier, accounts, tmp_path):
    """The first upgrade is refused, then migrated; the second one is refused, then lazy. The sink is Parquet files."""
    live = query(COLUMNS, carrier=carrier)
    live.feed(*BATCHES[0])
    live.run(accounts(1))
    live.feed(*BATCHES[1])
    with pytest.raises(RestoreRefused, match='on_incompatible="migrate"'):
        live.run(accounts(2))
    live.run(accounts(2), on_incompatible="migrate")
    live.feed(*BATCHES[2])
    with pytest.raises(RestoreRefused, match='or "lazy"'):
        live.run(accounts(3))
    live.run(accounts(3), on_incompatible="lazy")
    live.feed(*BATCHES[3])
    live.feed(*BATCHES[4])
    live.run(accounts(3))
    so_far = live.results()

    paid = {user: [amount for rows in BATCHES for name, amount in rows if name == user] for user, _ in BATCHES[4]}
    of_last_batch = {
        (user, f"Account(total={sum(amounts)}, visits={len(amounts)}, currency='EUR', level=0)")
        for user, amounts in paid.items()
    }
    assert of_last_batch <= set(so_far)
    assert of_last_batch <= set(of_batches(accounts, 3, BATCHES, query, tmp_path / "third"))

    # The present state goes back: what was added since the upgrade would be lost, and that has to be accepted.
    live.feed(("ann", 100))
    with pytest.raises(RestoreRefused, match=r"drops:\$\.currency"):
        live.run(accounts(1), on_incompatible="migrate")
    told = rewind(live.place / "state", tmp_path / "back", tmp_path / "back-checkpoint", to_epoch=1)
    live.run(accounts(1), on_incompatible="migrate", options=MigrationOptions())
    (now,) = set(live.results()) - set(so_far)
    assert ("ann", "Account(total=119, visits=5)") == now

    # The copy stands where the first upgrade was made, and reads again what came since.
    assert (0, 1, (1, 7)) == (told.batch, told.epoch, told.again)
    job = StreamJob(tmp_path / "back", tmp_path / "back-checkpoint", carrier=carrier)
    results = accounts(1)(job, live)
    with pytest.raises(DeclarationError, match="results of batches up to"):
        live.start(job, results, available_now=True)
    writer = results.writeStream.format("parquet").option("path", str(tmp_path / "back-out"))
    job.start(writer, available_now=True).awaitTermination()
    again = [tuple(row) for row in live.spark.read.parquet(str(tmp_path / "back-out")).collect()]
    paid["ann"].append(100)
    finals = {(user, f"Account(total={sum(amounts)}, visits={len(amounts)})") for user, amounts in paid.items()}
    assert finals <= set(again)  # all files are one batch, in which the order of rows is another
    assert finals <= set(of_batches(accounts, 1, [*BATCHES, [("ann", 100)]], query, tmp_path / "first"))
    assert sum(map(len, BATCHES[1:])) + 1 == len(again)
    assert live.results() == sorted([*so_far, now], key=repr)


def digits(key):
    return int(key.removeprefix("user-"))


@pytest.mark.slow
def test_a_key_of_another_type_is_converted_once(query, load):
    live, module = query(COLUMNS), load("prices_by_number", prices_by_number=PRICES.format(converter=""))

    def build(*, by_number, **options):
        def built(job, query):
            frame = query.frame()
            if by_number:
                frame = frame.selectExpr("int(substr(user, 6)) as user", "amount")
            stream = job.stream(frame).key_by("user", **options)
            results = stream.process(module.Prices(), uid="prices", output_type=tuple[int if by_number else str, int])
            return results.selectExpr("string(f0) as f0", "f1")

        return built

    live.feed(("user-7", 1), ("user-12", 2))
    live.run(build(by_number=False))
    live.feed(("user-7", 10), ("user-12", 20))
    with pytest.raises(RestoreRefused, match=r"key_by\(…, key_converter=…\)"):
        live.run(build(by_number=True), on_incompatible="migrate")
    with pytest.raises(RestoreRefused, match='on_incompatible="migrate"'):
        live.run(build(by_number=True, key_converter=digits))
    live.run(build(by_number=True, key_converter=digits), on_incompatible="migrate")
    live.feed(("user-7", 100))
    live.run(build(by_number=True, key_converter=digits), on_incompatible="migrate")

    assert [("12", 22), ("7", 11), ("7", 111), ("user-12", 2), ("user-7", 1)] == live.results()
    assert 1 == len(live.directory.last_epoch.history)
