"""Processors of transformWithState with a value, a list, a map and a timer of event time for each key.

The old and the new one compute the same. Under the new one all fields are in another order, some are wider, and the
grouping key is another one; both exist for rows and for frames of pandas.
"""

from __future__ import annotations

from pyspark.sql import functions as F  # noqa: N812 - as its users write it

from stateshift.compat.queries.changes import FieldChanges

AFTER_MS = 20 * 60_000
"""When the timer of a key ends, after the time of its first row."""

OUTPUT = "k string, l string, n bigint, names string, seen string, ended bigint"


def keeping(*, is_new=False, is_pandas=False, has_nulls=True):
    """A query that keeps all it has seen of a key; the result of a timer has the time when it was to end."""
    number = "bigint" if is_new else "int"

    def in_order(text, of):
        return f"{of} {number}, {text}" if is_new else f"{text}, {of} {number}"

    def query(s, _):
        from pyspark.sql import Row
        from pyspark.sql.streaming import StatefulProcessor

        def ordered(first, second):
            return (second, first) if is_new else (first, second)

        class Keeping(StatefulProcessor):
            def init(self, handle):
                self.handle = handle
                self.total = handle.getValueState("total", in_order("first bigint", "n"))
                self.names = handle.getListState("names", in_order("name string", "n"))
                self.seen = handle.getMapState("seen", f"part {number}", in_order("name string", "n"))

            def handleInputRows(self, key, rows, timerValues):  # noqa: N802, N803 - Spark's names
                first, n = ordered(*self.total.get()) if self.total.exists() else (None, 0)
                if is_pandas:
                    rows = (row for frame in rows for row in frame.itertuples())
                for row in rows:
                    if first is None:
                        first = row.ms
                        self.handle.registerTimer(first + AFTER_MS)
                    n += row.n
                    self.names.appendValue(ordered(row.name, row.n))
                    self.seen.updateValue((row.n % 4,), ordered(row.name, row.n))
                self.total.update(ordered(first, n))
                yield self.result(key, None)

            def handleExpiredTimer(self, key, timerValues, expiredTimerInfo):  # noqa: N802, N803 - Spark's names
                yield self.result(key, expiredTimerInfo.getExpiryTimeInMs())

            def result(self, key, ended):
                names = " ".join("{}{}".format(*ordered(*one)) for one in self.names.get())
                pairs = sorted((part[0], *ordered(*one)) for part, one in self.seen.iterator())
                k, l = key[::-1] if is_new else key  # noqa: E741 - the names of columns
                n = ordered(*self.total.get())[1]
                found = {"k": k, "l": l, "n": n, "names": names, "seen": str(pairs), "ended": ended}
                if not is_pandas:
                    return Row(**found)
                import pandas as pd

                return pd.DataFrame({name: [one] for name, one in found.items()}, dtype=object)

            def close(self):
                pass

        name = F.coalesce("l", F.lit("-")).alias("name")
        rows = s.select("k", "l", name, "n", "at", F.unix_millis("at").alias("ms"))
        rows = rows if has_nulls else rows.dropna(subset=["k", "l"])
        grouped = rows.withColumnRenamed("k", "user").groupBy("l", "user") if is_new else rows.groupBy("k", "l")
        call = grouped.transformWithStateInPandas if is_pandas else grouped.transformWithState
        return call(Keeping(), OUTPUT, "append", "eventTime")

    return query


CHANGES = FieldChanges(renames={"key.user": "key.k"})
