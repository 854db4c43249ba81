"""Records: Python classes in the bytes of Flink's POJOs, including classes that contain themselves."""

from ..families import Family
from ..stored_names import former_names

__getattr__ = former_names(__name__)

FAMILY = Family(
    __package__,
    snapshots=(".pojo", ".recursive", ".serializers"),
    rewrites=".rewrites:REWRITES",
    columns=".columns:COLUMNS",
    strategies=".strategies:STRATEGIES",
    classes=".hints:serializer_of_class",
    json_forms=".json_forms:JSON_FORMS",
    sources=".sources:SOURCES",
    nulls=".sources:NULLS",
)
