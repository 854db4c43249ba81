"""The compatibility test harness: the contracts of serializers and upgrades, as test classes to inherit.

The names are loaded on first use, because pytest imports this package in every run, for its plugin.
"""

from ... import _face

_PLACES, __all__, __getattr__, __dir__ = _face(__name__)
