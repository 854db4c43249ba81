"""`PickledValue`: an unopened pickle, and how a caller that trusts its class opens it."""

from __future__ import annotations

import pickle
from typing import TYPE_CHECKING, Any

import attrs

from ..errors import CorruptSavepoint, StateShiftError, ValueNotConvertible, cause_text
from ..stored_names import known_name, lasting, qualified_name
from .unpickling import BY_VALUE, Names, open_pickle, trusted_names, untrusted

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


@lasting
@attrs.frozen(repr=False)
class PickledValue:
    """A stored pickle, unopened, as a reader without a job returns it for pickled state.

    Attributes:
        class_name: Qualified name of the class that the state declares. The bytes need not hold one.
        data: The pickle.
        by_value: Whether the state declares that the pickle contains the class, as code.
    """

    class_name: str
    data: bytes
    by_value: bool = attrs.field(default=False, kw_only=True)

    def __repr__(self) -> str:
        return f"PickledValue({self.class_name!r}, {len(self.data)} bytes)"

    def load(self, trust: Iterable[str] = ()) -> Any:
        """Open the pickle; modules of trusted classes are imported.

        Args:
            trust: Qualified names that the pickle may use, in addition to those that the calling migration trusts: the
                class itself and the classes within. `by-value:` before the name of the class also runs code in it.

        Raises:
            UntrustedCode: It names something else.
            CorruptSavepoint: It is not a pickle, or holds another class than the state declares.
            ValueNotConvertible: A trusted name cannot be imported, or a pickle with its own code cannot be opened.
        """
        value = self.open({}, trust)
        if qualified_name(type(value)) != self.class_name:
            raise CorruptSavepoint(
                f"the state declares pickles of {self.class_name}, but one holds a {qualified_name(type(value))}"
            )
        return value

    def open(self, known: Mapping[str, Any], trust: Iterable[str] = ()) -> Any:
        """Open the pickle with known objects for some names, and without checking the class of the value.

        Raises the errors of `load`.

        Args:
            known: Name -> the object that it means, if it is trusted.
            trust: As for `load`.
        """
        trusted = frozenset(map(known_name, trust)) | (trusted_names() or frozenset())
        if self.by_value:
            return self._run(trusted)
        if self.class_name not in trusted:
            raise untrusted(self.class_name)
        names = Names(self.class_name, {name: found for name, found in known.items() if name in trusted}, trusted)
        return open_pickle(self.data, names)

    def _run(self, trusted: frozenset[str]) -> Any:
        word = BY_VALUE + self.class_name
        if word not in trusted:
            raise untrusted(word)
        try:
            return pickle.loads(self.data)  # noqa: S301 - the caller trusts the code within
        except StateShiftError:
            raise
        except Exception as error:
            raise ValueNotConvertible(
                f"a pickle with its own code cannot be opened: {cause_text(error)}", rule="PKL-5"
            ) from error
