"""TODO."""

from __future__ import annotations

import re
from urllib.parse import unquote

_SECRET = re.compile(r"key|secret|token|passw|pwd|credential|^sig|^sas", re.IGNORECASE)

_USER_INFO = re.compile(r"(?<=://)[^/?#\s'\"]*@")

_OPTION = re.compile(r"([?&]([^=&#\s]*))=([^&#\s'\"]*)")


def masked(text: str) -> str:
    """Return a text with the credentials of URIs in it masked: users, passwords, and options that contain them."""

    def option(found: re.Match[str]) -> str:
        holds = _SECRET.search(unquote(found[2])) or "@" in unquote(found[3])
        return f"{found[1]}=…" if holds else found[0]

    return _OPTION.sub(option, _USER_INFO.sub("…@", text))
