"""Which place a spelling means: two spellings of one folder have one identity.

    s3a://bucket/a%62c/, S3://bucket/abc     one store, bucket and key
    /data/link/x, file:///real/x             the folders by device and inode, from the root down; then missing names

Equal identities are one place. Unequal ones prove nothing: a store may be reached by two addresses, a folder be mounted
twice. What proves it is a file that was written to one and looked for in the other (`source_guard`).
"""

from __future__ import annotations

import os
from pathlib import Path
from urllib.parse import parse_qs, unquote, urlsplit

import attrs

from .stores import is_uri, local_path, store_of

_ENDPOINTS = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL")
_DEFAULT_PORTS = (":80", ":443")
_WITH_CONTAINER = {"abfs", "abfss"}  # container@account: what is before the @ is no user


@attrs.frozen
class Identity:
    """What a place is, whatever it is called.

    Attributes:
        steps: The store or the device and inode of each folder from the root down, and then the names below it.
        known: How many of the steps are a place by themselves, wherever it hangs: locally the folders that exist, on a
            store the store itself.
    """

    steps: tuple[str | tuple[int, int], ...]
    known: int

    @classmethod
    def of(cls, place: str | os.PathLike[str]) -> Identity:
        """Find out what a local path or URI means; of a store nothing is asked.

        Raises:
            ValueError: It is no URI.
        """
        text = os.fspath(place)
        if store_of(text) == "file":
            return _of_path(local_path(text) if is_uri(text) else text)
        return _of_uri(text)

    def is_same(self, other: Identity) -> bool:
        """Whether both are one place."""
        return self._end_of(other) == len(self.steps)

    def is_inside(self, other: Identity) -> bool:
        """Whether this is below the other one, at any depth."""
        end = self._end_of(other)
        return end is not None and end < len(self.steps)

    def _end_of(self, other: Identity) -> int | None:
        """Give how many of these steps lead to the other place; None where they do not."""
        last, names = other.steps[other.known - 1], other.steps[other.known :]
        for at in range(self.known):
            end = at + 1 + len(names)
            if self.steps[at] == last and self.steps[at + 1 : end] == names:
                return end
        return None


def _of_path(path: str) -> Identity:
    """Follow each folder that is there; what is not there has a name only."""
    real = Path(os.path.realpath(path))
    found: list[str | tuple[int, int]] = []
    below = [*reversed(real.parents), real]
    for at, folder in enumerate(below):
        try:
            facts = folder.stat()
        except OSError:
            return Identity((*found, *(missing.name for missing in below[at:])), at)
        found.append((facts.st_dev, facts.st_ino))
    return Identity(tuple(found), len(found))


def _of_uri(uri: str) -> Identity:
    """Take a URI apart. Names `.`, `..` and "" are seen through, as most that lie between us and a store do."""
    parts, store = urlsplit(uri), store_of(uri)
    host = parts.netloc if store in _WITH_CONTAINER else parts.netloc.rpartition("@")[2]
    names: list[str] = []
    for name in unquote(parts.path).split("/"):
        if name == "..":
            names = names[:-1]
        elif name not in {"", "."}:
            names.append(name)
    address = _endpoint(parts.query) if store == "s3" else ""
    return Identity((f"{store}:{address}", unquote(host).lower(), *names), 1)


def _endpoint(query: str) -> str:
    """Give the address of an S3 store, "" for Amazon's."""
    given = parse_qs(query).get("endpoint_override", [])
    address = given[-1] if given else next(filter(None, map(os.environ.get, _ENDPOINTS)), "")
    host = address.partition("://")[2] or address
    host = host.rstrip("/").lower()
    return next((host.removesuffix(port) for port in _DEFAULT_PORTS if host.endswith(port)), host)
