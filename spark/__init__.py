"""Savepoints on Spark; pyspark is used in this package only."""

from .. import _face

_PLACES, __all__, __getattr__, __dir__ = _face(__name__)
