"""Which release of Spark the tests run on."""

import pyspark


def has_spark(*release: int) -> bool:
    """Whether Spark is of this release or a later one: `has_spark(4, 1)`."""
    return tuple(map(int, pyspark.__version__.split(".")[:2])) >= release
