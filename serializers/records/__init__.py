"""Records: classes of Python, in the bytes of Flink's POJOs; also those that contain themselves."""

from ..stored_names import former_names

__getattr__ = former_names(__name__)
