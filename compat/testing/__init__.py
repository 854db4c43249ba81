"""The compatibility test harness: what a serializer, a state and a job promise, as tests to inherit."""

from .contract import SerializerContract

__all__ = ["SerializerContract"]
