"""The classes of the built-in families, for tests that ask each of them for something."""

from __future__ import annotations

import inspect
import pkgutil
from importlib import import_module

from stateshift import TypeSerializer, TypeSerializerConfigSnapshot
from stateshift.serializers.families import families
from stateshift.serializers.scalars import ScalarSerializer


def serializers():
    """The public serializer classes that have instances."""
    return [cls for cls in _classes(TypeSerializer) if not issubclass(cls, ScalarSerializer) or hasattr(cls, "row")]


def snapshots():
    """The public snapshot classes that have instances and an id."""
    return [cls for cls in _classes(TypeSerializerConfigSnapshot) if cls.snapshot_id]


def _classes(base):
    found = []
    for family in families.built_in:
        for module in pkgutil.iter_modules(import_module(family).__path__, f"{family}."):
            held = vars(import_module(module.name)).values()
            found += [cls for cls in held if _is_one(cls, base, module.name)]
    return found


def _is_one(cls, base, module):
    is_own = inspect.isclass(cls) and cls.__module__ == module and not cls.__name__.startswith("_")
    return is_own and issubclass(cls, base) and not inspect.isabstract(cls)
