"""Pickles, contained: opaque bytes, which only those open who trust their class."""

from ..stored_names import former_names

__getattr__ = former_names(__name__)
