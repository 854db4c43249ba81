"""Records: Python classes in the bytes of Flink's POJOs, including classes that contain themselves."""

from ..families import family_of
from ..stored_names import former_names

__getattr__ = former_names(__name__)

FAMILY = family_of(
    __package__,
    "columns strategies json_forms sources nulls",
    rewrites=".rewrites:REWRITES",
    snapshots=(".pojo", ".recursive", ".serializers"),
    classes=".hints:serializer_of_class",
)
