"""Serializers turn objects into bytes and back; a versioned snapshot describes how.

Reading a savepoint needs no import of a family: the registry loads all built-in ones on the first look-up.
"""
