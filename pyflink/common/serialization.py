"""How elements become lines of files, and bytes."""

from ...state.runtime.files import Encoder, SimpleStringSchema

__all__ = ["Encoder", "SimpleStringSchema"]
