"""Results that a notebook shows as pages do. Pages know results, and results do not know pages: they ask for theirs."""

from __future__ import annotations

from importlib import import_module


class Displayed:
    """A result that a notebook shows as the pieces of its page."""

    __slots__ = ()

    def _repr_html_(self) -> str:
        html: str = import_module("..compat.pages.displays", __package__).html_of(self)
        return html
