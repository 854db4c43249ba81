"""Pickles as opaque bytes, which are opened only by callers that trust their class."""

from ..stored_names import former_names

__getattr__ = former_names(__name__)
