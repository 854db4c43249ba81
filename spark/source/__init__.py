"""Savepoints as a data source of Spark.

stateshift.spark.register(session)
session.read.format("savepoint").option("operator", "account-state").option("state", "account").load("/savepoint-1")
"""

from .registering import register
from .savepoint_source import SavepointDataSource

__all__ = ["SavepointDataSource", "register"]
