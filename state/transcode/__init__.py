"""Blocks of old entries -> blocks of new entries: framing as data, the executors, and the one way in."""

from .factory import make_element_transcoder, make_transcoder
from .framing import EntryFraming, ValueFraming, entry_framing, value_framing
from .transcoder import ElementTranscoder, Transcoded, Transcoder

__all__ = [
    "ElementTranscoder",
    "EntryFraming",
    "Transcoded",
    "Transcoder",
    "ValueFraming",
    "entry_framing",
    "make_element_transcoder",
    "make_transcoder",
    "value_framing",
]
