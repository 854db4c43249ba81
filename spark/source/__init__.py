"""Savepoints as a data source of Spark.

stateshift.spark.register(session)
session.read.format("savepoint").option("operator", "account-state").option("state", "account").load("/savepoint-1")
"""

from .savepoint_source import SavepointDataSource, register

__all__ = ["SavepointDataSource", "register"]
