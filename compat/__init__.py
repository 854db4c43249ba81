"""Comparison of old and new descriptions of state: verdicts, explanations, plans. It opens no files."""

from .. import _face

_PLACES, __all__, __getattr__, __dir__ = _face(__name__)
