"""Records: Python classes in the bytes of Flink's POJOs, including classes that contain themselves."""

from ..stored_names import former_names

__getattr__ = former_names(__name__)
