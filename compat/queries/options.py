"""Options of sources: which decide what rows a query reads, which do not, and which may be credentials.

An option of no table here is kept, and a change of it is flagged: nobody knows what it does. What may be a credential
is never kept, not even as a digest. Source: Spark 4.3, the options of its sources; names are in small letters.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from ...serializers.wording import masked

if TYPE_CHECKING:
    from collections.abc import Mapping

_SECRET = re.compile(
    r"key|secret|token|passw|pwd|credential|jaas|sasl|ssl|auth|user|connectionstring|^sig|^sas", re.IGNORECASE
)
_TIMES = {"timestampformat": "", "timestampntzformat": "", "dateformat": "", "enabledatetimeparsingfallback": ""}
_PARSED = {"mode": "permissive", "columnnameofcorruptrecord": "", "locale": "en-us", "timezone": "", **_TIMES}
_TEXT = {"linesep": "", "encoding": "utf-8", "multiline": "false"}
_FILES = {
    "pathglobfilter": "", "modifiedbefore": "", "modifiedafter": "", "recursivefilelookup": "false", "basepath": "",
    "ignorecorruptfiles": "false", "ignoremissingfiles": "false",
}  # fmt: skip
_REBASED = {"datetimerebasemode": "", "int96rebasemode": ""}
_OF_FORMATS: dict[str, dict[str, str]] = {
    "json": {
        **_PARSED, **_TEXT, "allowcomments": "false", "allowunquotedfieldnames": "false", "allowsinglequotes": "true",
        "allownumericleadingzeros": "false", "allowbackslashescapinganycharacter": "false",
        "allowunquotedcontrolchars": "false", "allownonnumericnumbers": "true", "singlevariantcolumn": "",
    },
    "csv": {
        **_PARSED, **_TEXT, "sep": ",", "quote": '"', "escape": "\\", "comment": "", "header": "false",
        "enforceschema": "true", "ignoreleadingwhitespace": "false", "ignoretrailingwhitespace": "false",
        "nullvalue": "", "emptyvalue": "", "nanvalue": "nan", "positiveinf": "inf", "negativeinf": "-inf",
        "maxcolumns": "20480", "maxcharspercolumn": "-1", "chartoescapequoteescaping": "",
        "unescapedquotehandling": "stop_at_delimiter", "columnpruning": "true", "singlevariantcolumn": "",
    },
    "xml": {
        **_PARSED, **_TEXT, "rowtag": "row", "excludeattribute": "false", "attributeprefix": "_", "valuetag": "_value",
        "ignoresurroundingspaces": "true", "ignorenamespace": "false", "nullvalue": "null", "wildcardcolname": "",
        "rowvalidationxsdpath": "", "singlevariantcolumn": "",
    },
    "text": {"wholetext": "false", "linesep": ""},
    "parquet": {"mergeschema": "false", **_REBASED},
    "orc": {"mergeschema": "false"},
    "avro": {"avroschema": "", "avroschemaurl": "", "mode": "failfast", "ignoreextension": "true", **_REBASED},
    "binaryfile": {},
    "rate": {"rowspersecond": "1", "rampuptime": "0s"},
    "rate-micro-batch": {"rowsperbatch": "0", "starttimestamp": "0", "advancemillisperbatch": "1000"},
    "socket": {"host": "", "port": "", "includetimestamp": "false"},
    "kafka": {
        "subscribe": "", "subscribepattern": "", "assign": "", "includeheaders": "false",
        "kafka.isolation.level": "read_uncommitted",
    },
    "jdbc": {
        "url": "", "dbtable": "", "query": "", "preparequery": "", "customschema": "", "sessioninitstatement": "",
        "prefertimestampntz": "false",
    },
}  # fmt: skip
"""The options that decide rows, with the value that Spark takes where none is given, by the format."""
FILES = {"json", "csv", "xml", "text", "parquet", "orc", "avro", "binaryfile"}
OF_TEXT = {"json", "csv", "xml"}
"""The formats whose times are texts, which a time zone decides."""
_IGNORED = {
    # where a started query goes on is in its checkpoint; how much it takes at once, and from where, decides no row
    "path", "paths", "maxfilespertrigger", "maxbytespertrigger", "maxcachedfiles", "discardcachedinputratio",
    "cleansource", "sourcearchivedir", "inferschema", "samplingratio", "primitivesasstring", "prefersdecimal",
    "dropfieldifallnull", "preferdate", "numpartitions", "compression",
    "startingoffsets", "startingoffsetsbytimestamp", "startingtimestamp", "startingoffsetsbytimestampstrategy",
    "endingoffsets", "endingoffsetsbytimestamp", "endingtimestamp", "failondataloss", "maxoffsetspertrigger",
    "minoffsetspertrigger", "maxtriggerdelay", "minpartitions", "maxrecordsperpartition", "kafkaconsumer.polltimeoutms",
    "fetchoffset.numretries", "fetchoffset.retryintervalms", "groupidprefix", "kafka.group.id", "kafka.client.id",
    "kafka.max.poll.records", "kafka.request.timeout.ms", "kafka.session.timeout.ms",
    "driver", "partitioncolumn", "lowerbound", "upperbound", "fetchsize", "querytimeout", "isolationlevel", "batchsize",
    "pushdownpredicate", "pushdownaggregate", "pushdownlimit", "pushdownoffset", "pushdowntablesample",
}  # fmt: skip
_SAME = {"delimiter": "sep", "charset": "encoding", "multipleline": "multiline"}
_KEEPS_USER = re.compile(r"(?i)(hdfs|viewfs|abfss?|wasbs?)://[^/@:]*@")
"""URIs in which the name of a container or a user stands before the host, and no credential."""
_JDBC = re.compile(r"(?i)jdbc:[a-z0-9]+:(?:thin:|oci:)?")


def options_of(kind: str, given: Mapping[str, str]) -> tuple[dict[str, str], dict[str, str]]:
    """Return the options of a source that are compared, without credentials.

    Args:
        kind: Its format.
        given: All its options.

    Returns:
        Those that decide which rows there are, or what stands in them, and those of which nobody knows what they do.
    """
    deciding = _OF_FORMATS.get(kind, {}) | (_FILES if kind in FILES else {})
    of_rows, unknown = {}, {}
    for said, value in given.items():
        name = _SAME.get(said.lower(), said.lower())
        if name in deciding:
            if value.lower() != deciding[name]:
                is_word = deciding[name] in {"true", "false"} or name == "mode"
                of_rows[name] = without_credentials(value.lower() if is_word else value)
        elif name not in _IGNORED and not _SECRET.search(name) and not _SECRET.search(value):
            unknown[name] = without_credentials(value)
    return of_rows, unknown


def without_credentials(place: str) -> str:
    """Return a place, or another value of an option, without the credentials in it."""
    if found := _JDBC.match(place):
        base, *rest = re.split(r"([?;&])", place[found.end() :])
        host = base.rpartition("@")[2]
        slashes = "//" if base.startswith("//") and not host.startswith("//") else ""
        told = [
            f"{mark}{option}"
            for mark, option in zip(rest[::2], rest[1::2], strict=True)
            if not _SECRET.search(option.partition("=")[0])
        ]
        return f"{found[0]}{slashes}{host}{''.join(told)}"
    return place if _KEEPS_USER.search(place) and "?" not in place else masked(place)
