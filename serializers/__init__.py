"""Objects to bytes and back, and a versioned description of how (the snapshot).

Importing the package registers the snapshots of all built-in families, so that whoever reads a savepoint knows them.
"""

from . import (
    arrays,
    avro,
    containers,
    decimals,
    either,
    enums,
    kryo,
    maps,
    numeric,
    object_arrays,
    optional,
    pojo,
    records,
    rows,
    temporal,
    text,
    timers,
    ttl,
    ttl_aware,
    tuples,
    void,
    windows,
)

__all__ = [
    "arrays",
    "avro",
    "containers",
    "decimals",
    "either",
    "enums",
    "kryo",
    "maps",
    "numeric",
    "object_arrays",
    "optional",
    "pojo",
    "records",
    "rows",
    "temporal",
    "text",
    "timers",
    "ttl",
    "ttl_aware",
    "tuples",
    "void",
    "windows",
]
