"""The state that a stream program declares, and the savepoints that hold it."""

from .. import _face

_PLACES, __all__, __getattr__, __dir__ = _face(__name__)
