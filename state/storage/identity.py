"""Identities of places: all spellings of a folder have the same identity.

    s3a://bucket/a%62c/, S3://bucket/abc     one store, bucket and key
    /data/link/x, file:///real/x             the folders by device and inode, from the root down; then missing names

Equal identities are the same place. Different identities prove nothing: a store may have two addresses, and a folder
may be mounted twice. A proof is a file that is written to one place and found in the other (`source_guard`).
"""

from __future__ import annotations

import os
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import parse_qs, unquote, urlsplit

import attrs

from .stores import is_uri, local_path, store_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_ENDPOINTS = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL")
_DEFAULT_PORTS = (":80", ":443")
_WITH_CONTAINER = {"abfs", "abfss"}  # container@account: the part before the @ is not a user


@attrs.frozen
class Identity:
    """The identity of a place, independent of its spelling.

    Attributes:
        steps: The store, or the device and inode of each folder from the root down; then the names below it.
        known: How many steps identify a place without the steps before them: locally the folders that exist, on a store
            the store itself.
    """

    steps: tuple[str | tuple[int, int], ...]
    known: int

    @classmethod
    def of(cls, place: str | os.PathLike[str]) -> Identity:
        """Return the identity of a local path or URI, without a request to a store.

        Raises:
            ValueError: The URI is malformed.
        """
        return _find.get()(os.fspath(place))

    def is_same(self, other: Identity) -> bool:
        """Whether both are the same place."""
        return self._end_of(other) == len(self.steps)

    def is_inside(self, other: Identity) -> bool:
        """Whether this place is below the other one, at any depth."""
        end = self._end_of(other)
        return end is not None and end < len(self.steps)

    def _end_of(self, other: Identity) -> int | None:
        """Return how many of these steps lead to the other place; None where they do not lead there."""
        last, names = other.steps[other.known - 1], other.steps[other.known :]
        for at in range(self.known):
            end = at + 1 + len(names)
            if self.steps[at] == last and self.steps[at + 1 : end] == names:
                return end
        return None


def _of(place: str) -> Identity:
    if store_of(place) == "file":
        return _of_path(local_path(place) if is_uri(place) else place)
    return _of_uri(place)


_find: ContextVar[Callable[[str], Identity]] = ContextVar("find", default=_of)


@contextmanager
def each_place_once() -> Iterator[None]:
    """Look for the identity of each place once until the `with` block ends: files are many, their folders are few."""
    before = _find.set(cache(_of))
    try:
        yield
    finally:
        _find.reset(before)


def _of_path(path: str) -> Identity:
    """Return the identity of a local path: existing folders by device and inode, missing ones by name."""
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
    """Return the identity of a URI. The names `.`, `..` and "" are resolved, as most clients of stores do it."""
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
    """Return the address of an S3 store, "" for Amazon's."""
    given = parse_qs(query).get("endpoint_override", [])
    address = given[-1] if given else next(filter(None, map(os.environ.get, _ENDPOINTS)), "")
    host = address.partition("://")[2] or address
    host = host.rstrip("/").lower()
    return next((host.removesuffix(port) for port in _DEFAULT_PORTS if host.endswith(port)), host)
