"""Primitives: numbers, booleans, strings and chars."""

from ..families import family_of

FAMILY = family_of(__package__, "rewrites columns strategies hints json_forms sources", snapshots=(".numeric", ".text"))
