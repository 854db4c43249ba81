"""The ways out of a finding name options of the command line; a caller in Python passes `MigrationOptions` instead."""

from __future__ import annotations

import re
import shlex

_OPTIONS = {
    "--rename-state": "edits=parse_edits(rename_states=[{}])",
    "--rename-uid": "edits=parse_edits(rename_uids=[{}])",
    "--drop": "edits=parse_edits(drop=[{}])",
    "--convert": "edits=parse_edits(convert=[{}])",
    "--allow-empty": "policy=Policy(allow_empty=[{}])",
    "--trust": "trust=({},)",
    "--trust-stored-serializers": "trust_stored_serializers=True",
    "--repartition --max-parallelism": "repartition=Repartition(max_parallelism={number})",
    "--repartition": "repartition=Repartition()",
}
"""What stands for an option of the command line in Python; `{}` are its values, `{number}` its number."""

_QUOTED = r"\$'(?:[^'\\]|\\.)*'|'[^']*'|\"[^\"]*\""
_WORD = rf"(?:{_QUOTED}|,(?=\S)|[^\s;,()'\"])+"
_GIVEN_WORD = rf"(?:{_QUOTED}|\S)+"
_GIVEN = re.compile(
    rf"(?:stateshift migrate )?(?P<option>{'|'.join(sorted(_OPTIONS, key=len, reverse=True))})(?![\w-])"
    rf"(?P<values> {_WORD}(?: (?P=option) {_WORD})*)?"
)


def in_python(text: str) -> str:
    """Return a way out that names options of the command line as a caller in Python passes them."""
    return _GIVEN.sub(_as_argument, text)


def _as_argument(given: re.Match[str]) -> str:
    option, values = given["option"], given["values"] or ""
    if "{" not in _OPTIONS[option]:
        return f"options=MigrationOptions({_OPTIONS[option]}){values}"
    if not values:
        return option.removeprefix("--")  # it is only mentioned
    words = [word for word in re.findall(_GIVEN_WORD, values) if word != option]
    told = _OPTIONS[option].format(", ".join(map(_quoted, words)), number=words[0])
    return f"options=MigrationOptions({told})"


def _quoted(word: str) -> str:
    is_escaped = word.startswith("$'")  # the escapes of bash are those of Python
    text = word[2:-1] if is_escaped else "".join(shlex.split(word)).replace("\\", "\\\\")
    return '"' + text.replace('"', r"\"") + '"'
