"""Subclasses of records over several versions of a job: which stored one is which present one (REC-14)."""

from __future__ import annotations

import attrs
import pytest

from stateshift import DeclarationError, Record, Verdict
from stateshift.serializers.records.hints import record_serializer

HEAD = "import attrs\nfrom stateshift import record\n"
BASE = HEAD + "@attrs.frozen\nclass Ad:\n    cost: int\n"
SALE = "@record()\n@attrs.frozen\nclass Sale(Ad):\n    price: int = 0\n"
AD_SALE = "@record(aliases=('shop.Sale',))\n@attrs.frozen\nclass AdSale(Ad):\n    price: int = 0\n"
NEW_SALE = "@record()\n@attrs.frozen\nclass Sale(Ad):\n    buyer: str = ''\n"


@pytest.fixture
def version(module):
    """`version(source)`: the module of one version of the job, and the serializer of its base class."""

    def made(*source, base=BASE):
        shop = module(base + "".join(source))
        return shop, record_serializer(shop.Ad)

    return made


def test_a_direct_name_goes_before_an_alias(version, write, read, stored):
    shop, job = version(AD_SALE, NEW_SALE)
    data = [write(job, value) for value in (shop.AdSale(1, 2), shop.Sale(3, "me"))]

    restarted = job.ensure_compatibility(stored(job))

    assert restarted.is_compatible_as_is()
    assert [shop.AdSale(1, 2), shop.Sale(3, "me")] == [read(job, one) for one in data]


def test_one_stored_subclass_with_a_name_and_an_alias_is_claimed_twice(version, ask):
    _, old = version(SALE)
    _, new = version(AD_SALE, NEW_SALE)

    with pytest.raises(DeclarationError, match=r"'shop\.Sale' .* claimed by 'shop\.Sale' and, as an alias, by"):
        ask(new, old)


def test_two_subclasses_must_not_claim_one_alias(version, ask):
    _, old = version(SALE)
    _, new = version(AD_SALE, AD_SALE.replace("AdSale", "Discount"))

    with pytest.raises(DeclarationError, match="claimed by"):
        ask(new, old)


def test_subclasses_that_become_one_are_migrated_and_read_rightly_by_every_later_version(version, stored, migrate, ask):
    visit = "@record()\n@attrs.frozen\nclass Visit(Ad):\n    price: int = 0\n    place: str = ''\n"
    was, old = version(SALE, visit)
    both = AD_SALE.replace("('shop.Sale',)", "('shop.Sale', 'shop.Visit')") + "    place: str = '-'\n"
    shop, new = version(both)

    result = ask(new, old)

    assert Verdict.REQUIRES_MIGRATION is result.verdict
    assert ("$", "lossy") in result.flags
    assert shop.AdSale(1, 2, "-") == migrate(new, old, was.Sale(1, 2))
    assert shop.AdSale(1, 2, "x") == migrate(new, old, was.Visit(1, 2, "x"))
    assert ask(new, new).is_compatible_as_is()
    assert 1 == len(stored(new).registered)


@pytest.mark.parametrize("alike", [True, False])
def test_a_savepoint_that_lists_a_subclass_twice_is_only_read_where_both_are_alike(version, stored, alike):
    """Copies of earlier releases left such."""
    _, job = version(AD_SALE)
    snapshot = stored(job)
    twin = stored(job).registered[0]
    if not alike:
        twin[1].fields = twin[1].fields[:1]
    snapshot.registered = (*snapshot.registered, twin)

    result = job.ensure_compatibility(snapshot)

    assert (Verdict.REQUIRES_MIGRATION if alike else Verdict.INCOMPATIBLE) is result.verdict


def test_a_class_name_in_the_bytes_stays_what_an_alias_once_made_of_it(version, write, read, stored):
    """Flink writes the names of subclasses that are not registered; a copy keeps them, whatever they are called now."""
    java = "java_class='com.acme.{0}'"
    base = BASE.replace("@attrs.frozen\nclass Ad", f"@record({java.format('Ad')})\n@attrs.frozen\nclass Ad")

    def pojo(source, name):
        return source.replace("@record(", f"@record({java.format(name)}, ").replace("shop.", "com.acme.")

    was, first = version(pojo(SALE, "Sale"), base=base)
    of_flink = stored(first)
    of_flink.registered, of_flink.unregistered = (), of_flink.registered
    by_flink = attrs.evolve(first, registered=(), unregistered=first.registered)
    data = write(by_flink, was.Sale(1, 2))

    shop, second = version(pojo(AD_SALE, "AdSale"), base=base)
    copy = second.ensure_compatibility(of_flink).reconfigured_serializer
    assert shop.AdSale(1, 2) == read(copy, data)

    shop, third = version(pojo(AD_SALE, "AdSale"), pojo(NEW_SALE, "Sale"), base=base)
    result = third.ensure_compatibility(stored(copy))
    assert shop.AdSale(1, 2) == read(result.reconfigured_serializer, data)
    generic = read(stored(copy).restore_serializer(), data)
    assert Record("com.acme.AdSale", {"cost": 1, "price": 2}) == generic
    assert generic == result.conversion(generic)
