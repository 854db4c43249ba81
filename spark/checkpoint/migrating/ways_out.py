"""Ways out of an error, in the words of the caller: arguments in Python, options on the command line."""

from __future__ import annotations

OPTIONS = {
    "fill": ('changes={0: FieldChanges(fills={"value.count": 0})}', "--fill 0:value.count=0 (JSON; null for none)"),
    "rename": ('FieldChanges(renames={"value.new": "value.old"})', "--rename-field 0:value.old=value.new"),
    "keep": ('FieldChanges(renames={"value.x": "value.x"})', "--keep-field 0:value.x"),
    "convert": ('FieldChanges(converters={"value.x": function})', "--convert-field 0:value.x=module:function"),
    "merge": ('FieldChanges(merges={"value.x": "sum"})', "--merge-field 0:value.x=sum|min|max"),
    "ttl": ('FieldChanges(ttls={"count": "3600000"})', "--ttl 0:count=3600000 (milliseconds after the last batch)"),
    "gone": ('FieldChanges(drops=["total"])', "--drop-variable 0:total"),
    "map": ("operators={0: 1}, {0: None} to drop its state", "--map 0:1, --map 0: to drop its state"),
    "accept": ('accept=("SPK-13",)', "--accept SPK-13"),
    "was": ("was=old_query", "--was MODULE:FUNCTION"),
    "recording": ("require_recording=True", "--require-recording"),
    "drop": ("drop_uncommitted=True", "--drop-uncommitted"),
}
"""Each option of a migration: as an argument in Python, and on the command line."""


class WayOut(str):  # noqa: SLOT000 - it has an attribute
    """What to do, as a caller in Python does it.

    Attributes:
        command: The same on the command line.
    """

    command: str

    @classmethod
    def of(cls, text: str, *, rule: str = "SPK-13", operator: int = 0, path: str = "") -> WayOut:
        """Return a text in which the names of options stand in braces.

        Args:
            text: The text.
            rule: The rule to accept.
            operator: The operator of which something is to be said.
            path: The field of it; "": any.
        """

        def of_this(said: str) -> str:
            return said.replace("SPK-13", rule).replace("0:", f"{operator}:")

        def of_field(name: str, said: str) -> str:
            part = path.partition(".")[0]
            if not path or (name == "merge" and part != "value"):  # values are merged, and never keys
                return of_this(said)
            for example in ("value.count", "value.new", "value.x"):
                said = said.replace(example, path)
            return of_this(said.replace("value.old", f"{part}.old"))

        python, command = ({name: of_field(name, both[at]) for name, both in OPTIONS.items()} for at in (0, 1))
        way = cls(text.format(**python))
        way.command = text.format(**command)
        return way
