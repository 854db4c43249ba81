"""Errors: one base class, and subclasses that also derive from the fitting builtin.

A message answers, in this order: what happened, where, why, what to do, and whether anything was written.
The facts are kept as attributes, so that a caller can act on them, and survive pickling (a Spark worker raises them).

Values in messages are limited by their size as a tree, in which a shared part counts each time that it occurs: a list
that holds a second list twice, which holds a third one twice, and so on, is small in memory and endless in print.
"""

from __future__ import annotations

import collections
import sys
from typing import TYPE_CHECKING, Any, Self, TypeVar

from .ways_out import Option, Told, WayOut, in_python, ways_out
from .wording import one_line

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable

    Detail = str | tuple[str, tuple[WayOut, ...]]

PART = 16
"""The size of each part, apart from its characters and digits."""


def size_of_part(value: object) -> int:
    """Return the size of a part without the parts within it."""
    if isinstance(value, str | bytes | bytearray):
        return PART + len(value)
    return PART + (value.bit_length() >> 1 if isinstance(value, int) else 0)


def is_tree_within(value: object, most: int) -> bool:
    """Whether the size of a value of built-in containers is at most `most`; always true for a text or number alone."""
    size, level = 0, [value] if _parts(value) else []
    while level:
        within: list[Any] = []
        for one in level:
            parts = _parts(one)
            size += size_of_part(one)
            if size + PART * (len(within) + len(parts)) > most:
                return False
            within += parts
        level = within
    return True


def _parts(value: object) -> Collection[Any]:
    if isinstance(value, dict):
        return [*value, *value.values()]
    return value if isinstance(value, list | tuple | set | frozenset | collections.deque) else ()


NOTHING_WRITTEN = "Nothing was written."
_MOST_SHOWN = 1 << 20
_PLACES = {
    "side": "side",
    "savepoint": "savepoint",
    "file": "file",
    "offset": "byte",
    "operator": "operator",
    "state": "state",
    "key": "key",
    "element": "element",
    "path": "path",
    "snapshot": "snapshot",
    "rule": "rule",
}
_redacted = False


def redact_values(enabled: bool = True) -> None:  # noqa: FBT001, FBT002 - reads as a switch
    """Keep keys and values out of all later messages (`--redact`, for personal data)."""
    global _redacted  # noqa: PLW0603 - one switch for the process, set once by the command line
    _redacted = enabled


def values_are_redacted() -> bool:
    """Whether keys and values are kept out of messages; used to pass the switch on to another process."""
    return _redacted


def cause_text(error: BaseException) -> str:
    """Return an error of user code or of a library as messages show it; when redacting, only its type."""
    name = type(error).__name__
    text = str(error)
    return name if _redacted or not text else f"{name}: {text}"


def shown(value: object, limit: int = 80) -> str:
    """Return a value as messages show it: shortened, or `<redacted>`."""
    if _redacted:
        return "<redacted>"
    try:
        text = repr(value) if is_tree_within(value, _MOST_SHOWN) else f"<{type(value).__name__} with very many parts>"
    except ValueError:  # Python refuses to write integers of more than 4300 digits
        text = f"<{type(value).__name__} with an integer of thousands of digits>"
    except RecursionError:
        text = f"<{type(value).__name__} that is nested very deeply>"
    return text if len(text) <= limit else text[: limit - 1] + "…"


def unless_redacted(value: Any) -> Any:
    """Return a value that is printed as data, or `<redacted>`."""
    return shown(value) if _redacted else value


class StateShiftError(Exception):
    """Base of every error that stateshift raises on purpose.

    Args:
        what: One sentence: what happened and, where known, why. It may contain names from a savepoint; whatever is not
            printable is escaped, line breaks too, so that no name can forge a line.
        details: Lines below it; one that ends with ways out is given with them.
        advice: What to do about it: a text, or ways out.
        written: Whether anything was written.
        where: Any of side (of a comparison), savepoint, file, offset, operator, state, key, element, path, rule; and
            checkpoint, if the savepoint is a checkpoint of Spark, as messages then call it. Callers further out add
            what they know with `located`.
    """

    advice = ""
    ways_out: tuple[WayOut, ...] = ()
    written = ""
    options: tuple[Told | str, ...] = ()
    _details: tuple[Detail, ...] = ()

    def __init__(
        self,
        what: str,
        *,
        details: Iterable[Detail] = (),
        advice: str | WayOut | tuple[WayOut | str, ...] = "",
        written: str = "",
        **where: object,
    ) -> None:
        module = _users_module() if _redacted else ""
        if module:
            what, details, advice, where = f"<redacted>: raised in {module}", (), "", {}
        self._details = (what, *details)
        self.what = what_text(self, in_python)
        super().__init__(self.what)
        if isinstance(advice, str):
            self.advice = advice or self.advice
        else:
            self.advise(*((advice,) if isinstance(advice, WayOut) else advice))
        if written:
            self.written = written
        self.where: dict[str, object] = {name: value for name, value in where.items() if value is not None}

    def advise(self, *ways: WayOut | str) -> None:
        # Replaces what to do about it. As `before_writing`, it is for our own code.
        self.ways_out = ways_out(ways)
        self.advice = _joined(self, in_python)

    @classmethod
    def before_writing(cls, what: str, **facts: Any) -> Self:
        # Says that nothing was written. It is for our own code, so it has no place on the pages of the API.
        return cls(what, written=NOTHING_WRITTEN, **facts)

    def __str__(self) -> str:
        return error_text(self, in_python)

    def __reduce__(self) -> tuple[Any, ...]:
        return (_rebuild, (type(self), self.__dict__))


def error_text(error: StateShiftError, words: Callable[[WayOut], str]) -> str:
    """Return an error as lines of text; `words` puts a way out into the words of the caller."""
    labels = _PLACES | ({"savepoint": "checkpoint"} if "checkpoint" in error.where else {})
    places = [f"{label} {error.where[name]}" for name, label in labels.items() if name in error.where]
    lines = []
    if places:
        lines.append("  where: " + ", ".join(places))
    if advice := advice_text(error, words):
        lines.append("  what to do: " + advice)
    options = (one if isinstance(one, str) else words(WayOut("", (one,))).strip() for one in error.options)
    lines += [f"  {one}" for one in options]
    if error.written:
        lines.append("  " + error.written)
    return "\n".join([what_text(error, words), *map(one_line, lines)])


def what_text(error: StateShiftError, words: Callable[[WayOut], str]) -> str:
    """Return what happened, with the lines below it, in the words of the caller."""
    lines = error._details or error.what.split("\n")  # noqa: SLF001 - its own function
    pairs = ((one, ()) if isinstance(one, str) else one for one in lines)
    return "\n".join(one_line(text + "; or ".join(map(words, ways))) for text, ways in pairs)


def advice_text(error: StateShiftError, words: Callable[[WayOut], str]) -> str:
    """Return what to do about an error, in the words of the caller."""
    is_of_ways = error.advice == _joined(error, in_python)
    return _joined(error, words) if is_of_ways else error.advice


def _joined(error: StateShiftError, words: Callable[[WayOut], str]) -> str:
    return "; or ".join(map(words, error.ways_out))


def _users_module() -> str:
    """Return the module outside of stateshift that creates one of stateshift's errors; "" if none does.

    A user's serializer or converter may raise our errors with a value in the text, which `--redact` cannot remove.
    """
    frame = sys._getframe(2)  # noqa: SLF001 - nothing else knows the caller of `__init__`
    maker = StateShiftError.before_writing.__code__
    while frame.f_back is not None and (
        frame.f_code is maker or isinstance(frame.f_locals.get("self"), StateShiftError)
    ):
        frame = frame.f_back
    module: str = frame.f_globals.get("__name__", "")
    return "" if module.partition(".")[0] == __name__.partition(".")[0] else module or "a module without a name"


def _rebuild(cls: type[StateShiftError], facts: dict[str, Any]) -> StateShiftError:
    error = cls.__new__(cls)
    Exception.__init__(error, facts["what"])
    error.__dict__.update(facts)
    if "ways_out" in facts:
        error.ways_out = ways_out(facts["ways_out"])  # of earlier releases they are texts
    return error


class _Located:
    """The context manager of `located`; one made from a generator would cost more than most blocks do."""

    __slots__ = ("_where",)

    def __init__(self, where: dict[str, object]) -> None:
        self._where = where

    def __enter__(self) -> None:
        """Do nothing: only an error matters."""

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        if isinstance(error, StateShiftError):
            for name, value in self._where.items():
                if value is not None:
                    error.where.setdefault(name, value)


def located(**where: object) -> _Located:
    """Add places to any `StateShiftError` that leaves a `with` block; a place that is already set is kept."""
    return _Located(where)


def add_step(error: StateShiftError, step: str) -> None:
    """Prepend the step by which a value was reached to an error's path: `.name`, `[]`, `{}`, `(i)`, `?`.

    Called in `except` clauses of per-value loops, which cost nothing while nothing fails.
    """
    inner = str(error.where.get("path", "$"))
    error.where["path"] = "$" + step + inner.removeprefix("$")


class at_step:  # noqa: N801 - it is used like a function
    """Adds a step, as `add_step`, to the path of errors that leave its `with` block."""

    __slots__ = ("_step",)

    def __init__(self, step: str) -> None:
        self._step = step

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, StateShiftError):
            add_step(error, self._step)


E = TypeVar("E", bound=StateShiftError)


def without_locals(error: E) -> E:
    """Return an error that is kept as data; what the functions of its traceback held, such as open files, is let go."""
    from traceback import clear_frames

    found: BaseException | None = error
    while found is not None:
        clear_frames(found.__traceback__)
        found = found.__cause__ or found.__context__
    return error


class CorruptSavepoint(StateShiftError, ValueError):
    """The bytes are not what the format says: truncated, damaged, or not a savepoint."""

    advice = "check the file against its source (a copy may be incomplete), or use another savepoint"


class CorruptFile(StateShiftError, ValueError):
    """A file that stateshift wrote (a plan, a recorded snapshot) has been changed or damaged."""

    advice = "take the file as it was written, or write it again"


class UnsupportedFormat(StateShiftError, NotImplementedError):
    """The savepoint is sound, but of a kind that this release does not read."""


class SavepointNotFound(StateShiftError, FileNotFoundError):
    """There is no savepoint at that place, or a file that its metadata names is missing."""

    advice = "name the folder that contains _metadata; a moved savepoint must keep the files beside it"


class StorageFailed(StateShiftError, OSError):
    """The store that holds a file does not answer, or does not allow the operation."""

    advice = "check the address, the credentials and the permissions"


class NoSpaceLeft(StorageFailed):
    """The store is full; trying again at once does not help."""

    advice = "free space there, or choose a target on a larger disk, and run the same command again"


class NothingInCommon(StateShiftError, LookupError):
    """No operator of the job is in the savepoint, which is probably another job's; or a uid is mistyped."""

    advice = "compare the uids of the job with those that `stateshift inspect` lists"


class StateNotFound(StateShiftError, LookupError):
    """The savepoint has no operator or state of that name."""

    advice = "`stateshift inspect` lists operators and states"


class UnknownSnapshot(StateShiftError, LookupError):
    """A snapshot class is not registered; Flink's snapshots have no length, so it cannot be skipped.

    Attributes:
        snapshot_id: The class name or identifier that was found.
    """

    advice = "register a snapshot class for it, or leave out the operator, which is then copied as it is"

    def __init__(self, what: str, *, snapshot_id: str = "", **rest: Any) -> None:
        super().__init__(what, **rest)
        self.snapshot_id = snapshot_id


class SnapshotVersionError(StateShiftError, ValueError):
    """A snapshot was written at a version that this code does not read (rule SNAP-3).

    Attributes:
        found: The stored version.
        readable: The versions that this code reads.
    """

    def __init__(self, what: str, *, found: int = 0, readable: tuple[int, ...] = (), **rest: Any) -> None:
        super().__init__(what, **rest)
        self.found = found
        self.readable = readable


class CompatibilityCheckError(StateShiftError, RuntimeError):
    """A serializer failed while it judged an old snapshot; that is never a verdict (rule V-6)."""


class IncompatibleState(StateShiftError, TypeError):
    """The new types cannot take over the stored state, not even by migration."""


class OldReaderUnavailable(StateShiftError, LookupError):
    """Nothing can read the old bytes: no snapshot, no stored serializer, no fallback (rule READ-4).

    Attributes:
        reasons: Why each of them failed, in the order in which they were tried.
        ways_out: What can be done, one item per way.
    """

    advice = (
        "import the module that registers the snapshot, pass a fallback deserializer, or leave the state out of the "
        "job, which keeps it as it is"
    )

    def __init__(
        self, what: str, *, reasons: tuple[str, ...] = (), ways_out: tuple[WayOut | str, ...] = (), **rest: Any
    ) -> None:
        if ways_out:
            rest.setdefault("advice", ways_out)
        super().__init__(what, details=[f"  - {reason}" for reason in reasons], **rest)
        self.reasons = reasons
        self.ways_out = self.ways_out or (WayOut(self.advice),)


class ValueNotConvertible(StateShiftError, ValueError):
    """A value does not fit the type that it is to be written as, or was stored as something other than declared."""


class ValuesCollide(ValueNotConvertible):
    """Two keys, or two elements of a set, become equal (rules LIST-2, MAP-3, ROLE-4).

    Neither is bad by itself, so this always ends a run, even one that puts bad values into quarantine (RUN-4).
    """


class DeclarationError(StateShiftError, TypeError):
    """A job, descriptor or serializer is declared in a way that cannot work."""


class TargetExists(StateShiftError, FileExistsError):
    """The target of a write already exists."""


class LibraryNotFound(StateShiftError, ModuleNotFoundError):
    """An optional library is needed and not installed; the advice has the command."""


class JobNotFound(StateShiftError, ImportError):
    """The module or attribute that should hold the job cannot be loaded."""


class UserCodeFailed(JobNotFound):
    """The module of a job, query or function raised an error when it was imported, or the function that makes it did.

    The message names the error, and its file and line in user code.
    """


class UntrustedCode(StateShiftError, PermissionError):
    """Something in a savepoint would have to be unpickled, and the caller has not declared it trusted."""


class UntrustedPlace(StateShiftError, PermissionError):
    """A savepoint names files outside its own folder, and the caller has not allowed reading them.

    Attributes:
        roots: Folders that would have to be allowed; empty where nothing can allow it.
        options: What stateshift would have to be told, one for a line.
    """

    def __init__(
        self, what: str, *, roots: tuple[str, ...] = (), options: tuple[Told, ...] | None = None, **rest: Any
    ) -> None:
        super().__init__(what, **rest)
        self.roots = roots
        self.options = tuple(Told.of(Option.ALLOW_ROOT, root) for root in roots) if options is None else options


class FilesElsewhere(UntrustedPlace, SavepointNotFound):
    """Files of a checkpoint are not beside it: a download is incomplete, or they lie in another folder."""


class PlanChanged(StateShiftError, ValueError):
    """What would be done differs from the plan file.

    Attributes:
        differences: One line for each: where, what the file says, what would be done.
    """

    advice = "make the plan again, and have it reviewed"

    def __init__(self, what: str, *, differences: tuple[str, ...] = (), **rest: Any) -> None:
        super().__init__(what, details=[f"  {difference}" for difference in differences], **rest)
        self.differences = differences


class MigrationFailed(StateShiftError, RuntimeError):
    """A run ended without a result: nothing was published, and nothing was written to the source."""


class FunctionFailed(StateShiftError, RuntimeError):
    """A function of the user raised an error, which is the cause of this one."""


class SourceChanged(MigrationFailed):
    """The savepoint that a run reads has changed since the run began."""
