"""Serializers turn objects into bytes and back; a versioned snapshot describes how.

Reading a savepoint needs no import of a family: the registry loads all built-in ones on the first look-up.
"""

from .. import _face

_PLACES, __all__, __getattr__, __dir__ = _face(__name__)
