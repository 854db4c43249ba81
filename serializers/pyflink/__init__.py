"""What PyFlink stores: the bytes that its coders make of Python values, which Flink keeps without knowing them."""

from ..families import family_of

FAMILY = family_of(__package__, "columns strategies json_forms rewrites sources", snapshots=(".byte_keys",))
