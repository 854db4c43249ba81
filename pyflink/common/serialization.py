"""How elements become lines of files, and bytes."""

from ...state.runtime.files import Encoder, SimpleStringSchema
from ..absent import explain_absent

__all__ = ["Encoder", "SimpleStringSchema"]

explain_absent(__name__)
