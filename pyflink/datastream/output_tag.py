"""Side outputs."""

from ...state.runtime.output_tag import OutputTag

__all__ = ["OutputTag"]
