"""Pickles as opaque bytes, which are opened only by callers that trust their class."""

from ..families import ANY, Family
from ..stored_names import former_names

__getattr__ = former_names(__name__)

FAMILY = Family(
    __package__,
    snapshots=(".serializers",),
    rules={("pickle", ANY): ".moves:from_pickle", (ANY, "pickle"): ".moves:to_pickle"},
    columns=".columns:COLUMNS",
    json_forms=".json_forms:JSON_FORMS",
)
