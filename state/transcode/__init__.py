"""Transcoding of blocks of old entries to blocks of new entries: the framing, the executors, and the factory."""

from .entry_layout import EntryFraming, entry_framing
from .factory import make_element_transcoder, make_transcoder
from .transcoder import ElementTranscoder, Transcoded, Transcoder

__all__ = [
    "ElementTranscoder",
    "EntryFraming",
    "Transcoded",
    "Transcoder",
    "entry_framing",
    "make_element_transcoder",
    "make_transcoder",
]
