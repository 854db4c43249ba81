"""The declared state of a stream program: operators, their keys and their states."""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
import sysconfig
import traceback
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, redirect_stdout
from contextvars import ContextVar
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import attrs

from ..compat.description import (
    OPERATOR_ID,
    Converter,
    JobDescription,
    OperatorDescription,
    SerializerDescription,
    StateDescription,
    StateKind,
    operator_id_of_uid,
)
from ..compat.key_hashes import MAX_KEY_GROUPS
from ..serializers.errors import DeclarationError, JobNotFound, StateShiftError, UserCodeFailed, shown
from ..serializers.hints import serializer_for
from ..serializers.limits import require_name
from ..serializers.pickled.trust import refuse_pickles
from ..serializers.pyflink import is_of_pyflink
from ..serializers.wording import many, repr_of
from .runtime.descriptors import (
    ListStateDescriptor,
    MapStateDescriptor,
    StateDescriptor,
    optional_converter,
    refuse_duplicates,
)
from .runtime.functions import Function
from .runtime.of_pyflink import as_ours
from .timers import TimerServiceDescriptor

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType

    from ..serializers.serializer import TypeSerializer

DEFAULT_KEY_GROUPS = 128
"""The number of key groups that Flink takes for a small parallelism."""
"""The form of an operator id; any other name of an operator is a uid."""

T = TypeVar("T")


# The converters have typed parameters, so that type checkers know what callers may pass; `tuple` alone has none.
def _states(given: Iterable[StateDescriptor]) -> tuple[StateDescriptor, ...]:
    return _all_of(given, "states")


def _list_states(given: Iterable[ListStateDescriptor]) -> tuple[ListStateDescriptor, ...]:
    return _all_of(given, "list_states")


def _map_states(given: Iterable[MapStateDescriptor]) -> tuple[MapStateDescriptor, ...]:
    return _all_of(given, "broadcast_states")


def _timers(given: Iterable[TimerServiceDescriptor]) -> tuple[TimerServiceDescriptor, ...]:
    return _all_of(given, "timers")


def _operators(given: Iterable[Operator]) -> tuple[Operator, ...]:
    return _all_of(given, "operators")


def _all_of(given: Iterable[T], what: str) -> tuple[T, ...]:
    """Return the given items as a tuple; refuse a single item with an error that asks for a list."""
    if not isinstance(given, Iterable) or isinstance(given, str | bytes):
        raise DeclarationError(f"{what} must be a list, not {_named(given)}", advice=f"put it in brackets: {what}=[…]")
    return tuple(given)


def _named(value: object) -> str:
    return f"{type(value).__name__} {getattr(value, 'name', '') or getattr(value, 'uid', '')!r}".removesuffix(" ''")


@attrs.frozen
class Operator:
    """An operator of the Flink job, identified by its `uid("…")`.

    Attributes:
        uid: The uid set in the job. Either uid or operator_id is required.
        operator_id: 32 hexadecimal digits; only needed where the job sets no uid.
        key: The type hint or serializer of the key; None: the operator is not keyed.
        key_converter: Converts a stored key whose bytes are not valid for the new type. Only a migration with
            `--repartition` uses it, because it rewrites all keyed state of the operator.
        states: The keyed states.
        list_states: Operator states whose elements are redistributed when the parallelism changes.
        union_list_states: Operator states whose elements go to every subtask.
        broadcast_states: Operator states that are the same map in every subtask.
        timers: The timer services; see `TimerServiceDescriptor`. Undeclared timer services are kept as they are.
        name: A display name.
    """

    uid: str = ""
    operator_id: str = attrs.field(default="", kw_only=True)
    key: TypeSerializer[Any] | None = attrs.field(
        default=None, converter=attrs.converters.optional(serializer_for), kw_only=True
    )
    key_converter: Converter | None = attrs.field(default=None, converter=optional_converter, kw_only=True)
    states: tuple[StateDescriptor, ...] = attrs.field(default=(), converter=_states, kw_only=True)
    list_states: tuple[ListStateDescriptor, ...] = attrs.field(default=(), converter=_list_states, kw_only=True)
    union_list_states: tuple[ListStateDescriptor, ...] = attrs.field(default=(), converter=_list_states, kw_only=True)
    broadcast_states: tuple[MapStateDescriptor, ...] = attrs.field(default=(), converter=_map_states, kw_only=True)
    timers: tuple[TimerServiceDescriptor, ...] = attrs.field(default=(), converter=_timers, kw_only=True)
    name: str = attrs.field(default="", kw_only=True)

    @classmethod
    def pyflink(
        cls,
        uid: str = "",
        states: Iterable[StateDescriptor] | Function = (),
        *,
        key: Any = None,
        execution_mode: Literal["process", "thread"] = "process",
        broadcast_states: Iterable[MapStateDescriptor] = (),
        **others: Any,
    ) -> Operator:
        """Return an operator of PyFlink, whose states are kept as PyFlink keeps those of a Python function.

        Args:
            uid: As the attribute.
            states: The states of the function as it declares them: `ValueStateDescriptor("count", Types.LONG())` for
                what a savepoint calls `python-state-count`. Or the function itself: its `open` is called, and what it
                asks for is noted. Functions, descriptors and types of PyFlink itself are taken, too, where a job file
                imports it.
            key: The type of the keys, as in `key_by(…, key_type)`; `bytes` where that was left out. None: the operator
                is not keyed.
            execution_mode: PyFlink's `python.execution-mode`. In each mode it keeps other state.
            broadcast_states: The broadcast states, as they are declared.
            others: Further arguments of `Operator`.

        Raises:
            DeclarationError: PyFlink has no coder for a type, or the state has a `transform` or a
                `fallback_deserializer`, which are of Flink's own kinds of state.
            UserCodeFailed: `open` of the function fails.
        """
        from .runtime.pyflink_layout import ExecutionMode, stored_key, stored_state
        from .runtime.recording import states_of

        mode = ExecutionMode(execution_mode)
        is_function = isinstance(states, Function) or is_of_pyflink(states)
        declared = states_of(states) if is_function else tuple(map(as_ours, _states(states)))  # type: ignore[arg-type]
        return cls(
            uid,
            key=None if key is None else stored_key(as_ours(key)),
            states=[stored_state(one, mode) for one in declared],
            broadcast_states=[stored_state(one, mode) for one in map(as_ours, _map_states(broadcast_states))],
            **others,
        )

    @classmethod
    def named(cls, name: str) -> Operator:
        """Return the operator with a uid, or with an id where its job sets no uid."""
        return cls(operator_id=name) if OPERATOR_ID.fullmatch(name) else cls(name)

    def __attrs_post_init__(self) -> None:
        if not self.uid and not self.operator_id:
            raise DeclarationError("an operator needs a uid or an id", advice="give it the uid of the Flink job")
        for text, what in ((self.uid, "an operator's uid"), (self.name, "an operator")):
            require_name(text, what)
        where = f"operator {self.uid or self.operator_id!r}"
        if self.operator_id and not OPERATOR_ID.fullmatch(self.operator_id):
            raise DeclarationError(f"the id of {where} is not 32 hexadecimal digits: {self.operator_id!r}")
        if self.uid and self.operator_id and operator_id_of_uid(self.uid).hex() != self.operator_id:
            raise DeclarationError(
                f"the id {self.operator_id} does not belong to the uid {self.uid!r}", advice="give one"
            )
        self._refuse_strangers(where)
        if self.key is not None:
            refuse_pickles(self.key, f"the key of {where}")
        if self.key_converter is not None and self.key is None:
            raise DeclarationError(f"{where} has a key_converter but no key type", advice="add key=…")
        if (self.states or self.timers) and self.key is None:
            what = "keyed states" if self.states else "timers"
            raise DeclarationError(f"{where} has {what} but no key type", advice="add key=…")
        stamped = next((state for state in self._operator_states() if state.time_to_live), None)
        if stamped is not None:
            raise DeclarationError(
                f"the operator state {stamped.name!r} of {where} cannot have TTL: Flink supports it only for keyed "
                "state",
                advice="leave time_to_live out",
            )
        transformed = next((state for state in self._operator_states() if state.transform is not None), None)
        if transformed is not None:
            raise DeclarationError(
                f"the operator state {transformed.name!r} of {where} cannot have a transform: transforms are only "
                "supported for keyed state",
                advice="declare the new state under another name, and leave transform out",
            )
        refuse_duplicates([state.name for state in self.states], where)
        refuse_duplicates([service.name for service in self.timers], f"the timers of {where}")
        # Flink keeps the lists and broadcast maps of a subtask in one table, by name.
        refuse_duplicates([state.name for state in self._operator_states()], where)

    def _refuse_strangers(self, where: str) -> None:
        """Refuse values that are not descriptors, and descriptors of another kind of state."""
        arguments: list[tuple[str, tuple[object, ...], type]] = [
            ("states", self.states, StateDescriptor),
            ("list_states", self.list_states, ListStateDescriptor),
            ("union_list_states", self.union_list_states, ListStateDescriptor),
            ("broadcast_states", self.broadcast_states, MapStateDescriptor),
            ("timers", self.timers, TimerServiceDescriptor),
        ]
        for argument, states, wanted in arguments:
            stranger = next((state for state in states if not isinstance(state, wanted)), None)
            if stranger is not None:
                name = getattr(stranger, "name", None)
                what = f"a {type(stranger).__name__} {name!r}" if name else shown(stranger)
                raise DeclarationError(
                    f"{what} is in the {argument} of {where}, but is not a {wanted.__name__}",
                    advice=f"declare it with a {wanted.__name__}, or in the list for its kind",
                )

    def _operator_states(self) -> tuple[StateDescriptor, ...]:
        return (*self.list_states, *self.union_list_states, *self.broadcast_states)

    def __repr__(self) -> str:
        states = (*self.states, *self.list_states, *self.union_list_states, *self.broadcast_states)
        names = ", ".join(state.name for state in states) or "none"
        return repr_of(self, f"{self.uid or self.operator_id}: states {names}")

    @property
    def id(self) -> str:
        """The operator id in 32 hexadecimal digits: the given id, or the hash of the uid."""
        return self.operator_id or operator_id_of_uid(self.uid).hex()

    def describe(self) -> OperatorDescription:
        """Return a description of the operator for the compatibility check."""
        states = [state.describe() for state in self.states]
        if self.key is not None:
            states += [queue for service in self.timers for queue in service.describe(self.key)]
        states += [element_state(state, StateKind.SPLIT_LIST) for state in self.list_states]
        states += [element_state(state, StateKind.UNION_LIST) for state in self.union_list_states]
        states += [broadcast_state(state) for state in self.broadcast_states]
        key = None if self.key is None else SerializerDescription.of(self.key, converter=self.key_converter)
        return OperatorDescription(self.id, self.uid, self.name, key, tuple(states))


def element_state(state: ListStateDescriptor, kind: StateKind) -> StateDescription:
    """Return a description of a list state of an operator; its kind says how elements are distributed."""
    element = SerializerDescription.of(
        state.element_serializer, fallback=state.fallback_deserializer, converter=state.converter
    )
    return StateDescription(state.name, kind, element)


def broadcast_state(state: MapStateDescriptor) -> StateDescription:
    """Return a description of a broadcast state."""
    value = SerializerDescription.of(
        state.value_serializer, fallback=state.fallback_deserializer, converter=state.converter
    )
    key = SerializerDescription.of(state.key_serializer)
    return StateDescription(state.name, StateKind.BROADCAST, value, key=key)


@attrs.frozen
class Job:
    """All operators that have state.

    Attributes:
        operators: The operators; their ids differ.
        max_parallelism: The number of key groups, if the Flink job sets it (`setMaxParallelism`): Flink refuses state
            with another one. None: the job sets none, and takes over that of the savepoint.
        former: The job that wrote the state which this one is to take over, as it was then. It is needed for state of
            PyFlink alone: a savepoint has bytes, and the job that wrote them says what they hold.
    """

    operators: tuple[Operator, ...] = attrs.field(converter=_operators)
    max_parallelism: int | None = attrs.field(default=None, kw_only=True)
    former: Job | None = attrs.field(default=None, kw_only=True, repr=False)

    def __attrs_post_init__(self) -> None:
        number = self.max_parallelism
        is_number = isinstance(number, int) and not isinstance(number, bool)
        if number is not None and not (is_number and 1 <= number <= MAX_KEY_GROUPS):
            raise DeclarationError(
                f"the max parallelism of the job is {shown(number)}", advice=f"choose 1 to {MAX_KEY_GROUPS}"
            )
        stranger = next((one for one in self.operators if not isinstance(one, Operator)), None)
        if stranger is not None:
            raise DeclarationError(
                f"{shown(stranger)} is in the operators of the job, but is not an Operator",
                advice='put its states into an Operator("uid", …)',
            )
        refuse_duplicates([operator.id for operator in self.operators], "the job")

    def __repr__(self) -> str:
        return repr_of(self, many(len(self.operators), "operator"), *(repr(one)[1:-1] for one in self.operators))

    def _repr_html_(self) -> str:
        return self.describe()._repr_html_()

    def describe(self, origin: str = "the job") -> JobDescription:
        """Return a description of the job for the compatibility check."""
        operators = (operator.describe() for operator in self.operators)
        if number := self.max_parallelism:
            operators = (attrs.evolve(operator, max_parallelism=number) for operator in operators)
        former = None if self.former is None else self.former.describe("the job that wrote the state")
        return JobDescription(origin, tuple(operators), former=former)


def key_groups_of(job: Job, given: int | None) -> int:
    """Return the number of key groups of a new savepoint: a given one, the one of the job, or Flink's least.

    Raises:
        DeclarationError: The job sets another one than is given.
    """
    ours = job.max_parallelism
    if given is None:
        return ours or DEFAULT_KEY_GROUPS
    if ours not in {None, given}:
        raise DeclarationError.before_writing(
            f"max parallelism {given} is asked for, and the job sets {ours}",
            advice="leave one of them out",
        )
    return given


_FILE = ".py"
_RUNS_USERS_CODE: ContextVar[bool] = ContextVar("_RUNS_USERS_CODE", default=False)


@contextmanager
def users_code() -> Iterator[None]:
    """Run code of a user in a `with` block: what it prints goes to stderr, and the working folder stays as it was.

    The answer of a command is on stdout, and its places are relative to the folder in which it was started. Within the
    outermost block the folder may change.
    """
    if _RUNS_USERS_CODE.get():
        yield
        return
    within = _RUNS_USERS_CODE.set(True)
    here = Path.cwd()
    try:
        with redirect_stdout(sys.stderr):
            yield
    finally:
        _RUNS_USERS_CODE.reset(within)
        os.chdir(here)


def import_user_module(name: str) -> ModuleType:
    """Import a user module by its name, or by the path of its file.

    Args:
        name: The name; or a path that ends in `.py`. The file becomes the module of its own name, `accounts` for
            `jobs/accounts.py`, as if it were imported from its folder. That folder is not searched for other modules.

    Raises:
        JobNotFound: The module does not exist.
        UserCodeFailed: Its import fails; the message has the reason and the failing line.
    """
    is_file = name.endswith(_FILE)
    try:
        with users_code():
            return _loaded(Path(name).resolve(), name) if is_file else importlib.import_module(name)
    except StateShiftError:
        raise
    except (Exception, SystemExit) as error:
        missing = error.name if isinstance(error, ModuleNotFoundError) else None
        is_itself = bool(missing) and not is_file and f"{name}.".startswith(f"{missing}.")
        advice = "fix the module"
        if is_itself:
            advice = "run in the folder that contains it, or add that folder to PYTHONPATH"
        elif missing and is_file:
            advice = f"add the folder of {missing} to PYTHONPATH, or fix the module"
        told, kind = (
            (f"{type(error).__name__}: {error}", JobNotFound) if is_itself else (told_of(error), UserCodeFailed)
        )
        raise kind(f"the module {name!r} cannot be imported: {told}", advice=advice) from error


def told_of(error: BaseException) -> str:
    """Return an error of a user's code, with the last line of that code which led to it, if it is known.

    Lines of libraries and of Python itself are not where a user mends it, unless there is no other.
    """
    if isinstance(error, SyntaxError) and error.filename:
        return f"{type(error).__name__}: {error.msg} ({error.filename}, line {error.lineno})"
    frames = [
        (frame.f_code.co_filename, line)
        for frame, line in traceback.walk_tb(error.__traceback__)
        if frame.f_globals.get("__name__", "").partition(".")[0] != __name__.partition(".")[0]
        and not frame.f_code.co_filename.startswith("<")
    ]
    libraries = tuple(sysconfig.get_paths()[name] for name in ("stdlib", "platstdlib", "purelib", "platlib"))
    own = [frame for frame in frames if not frame[0].startswith(libraries)] or frames
    where = f" ({own[-1][0]}, line {own[-1][1]})" if own else ""
    return f"{type(error).__name__}: {error}{where}"


def _loaded(file: Path, spelled: str) -> ModuleType:
    """Return the module of a file, which is loaded once."""
    name = file.stem
    if not file.is_file():
        raise JobNotFound(f"there is no file {spelled}", advice="check the path: it starts in the current folder")
    loaded = sys.modules.get(name)
    if loaded is not None and Path(getattr(loaded, "__file__", None) or "").resolve() == file:
        return loaded
    spec = importlib.util.spec_from_file_location(name, file)
    if loaded is not None or not name.isidentifier() or spec is None or spec.loader is None:
        why = f"another module {name!r} is loaded already" if loaded else f"{name!r} is not a valid name of a module"
        raise JobNotFound(f"the file {spelled} cannot be loaded: {why}", advice="rename the file")
    sys.modules[name] = module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


def load_function(place: str, *, advice: str) -> Callable[..., Any]:
    """Import the function at `module:function`; the module may also be the path of its file, as in `load_job`.

    Args:
        place: The function.
        advice: What to do if the module has none of this name.

    Raises:
        JobNotFound: The module is not there, or has no such function.
        UserCodeFailed: The module cannot be imported.
    """
    module_name, _, name = place.rpartition(":")
    if not module_name or not name:
        raise JobNotFound(
            f"{place!r} does not name a function", advice="write module:function, such as clicks:to_total"
        )
    function: Callable[..., Any] | None = getattr(import_user_module(module_name), name, None)
    if not callable(function):
        raise JobNotFound(f"{module_name} has no function {name!r}", advice=advice)
    return function


def load_job(place: str) -> Job:
    """Import the job at `module:attribute`; the attribute is a `Job` or a function without arguments that returns one.

    A program counts, too: the function returns its `StreamExecutionEnvironment` instead of running it.

    The module may also be given as a path that ends in `.py`, such as `jobs/accounts.py:job`.

    Raises:
        JobNotFound: The module is not there, or has no such job; the message has the reason.
        UserCodeFailed: The module cannot be imported, or the function fails; the message has the failing line.
    """
    module_name, _, attribute = place.rpartition(":")
    if not module_name or not attribute:
        advice = "write module:attribute, such as accounts:job or jobs/accounts.py:job"
        raise JobNotFound(f"{place!r} does not name a job", advice=advice)
    with users_code():
        return _loaded_job(module_name, attribute, place)


def job_described(job: str, old_job: str = "", load: Callable[[str], Job] = load_job) -> JobDescription:
    """Return the description of a job.

    Args:
        job: The job as `module:attribute`.
        old_job: The job that wrote the state which it is to take over, or "": it is not known, or the job names it.
        load: A function that imports a job.

    Raises:
        JobNotFound: One of them cannot be loaded.
    """
    described = load(job).describe(f"job {job}")
    if not old_job:
        return described
    return attrs.evolve(described, former=load(old_job).describe(f"job {old_job}"))


def _loaded_job(module_name: str, attribute: str, place: str) -> Job:
    module = import_user_module(module_name)
    try:
        job = getattr(module, attribute)
    except AttributeError as error:
        jobs = ", ".join(name for name, value in vars(module).items() if isinstance(value, Job)) or "none"
        raise JobNotFound(f"{module_name} has no attribute {attribute!r}; jobs in it: {jobs}") from error
    if callable(job) and not isinstance(job, Job):
        job = _made(job, place)
    if not isinstance(job, Job) and hasattr(job, "declared_job"):  # a program; its environment imports this module
        job = job.declared_job()
    if not isinstance(job, Job):
        raise JobNotFound(f"{place} is a {type(job).__name__}, not a stateshift.Job", advice="name a Job")
    return job


def _made(function: Callable[[], object], place: str) -> object:
    try:
        return function()
    except StateShiftError:
        raise
    except Exception as error:
        raise UserCodeFailed(
            f"{place} was called to get the job, and failed: {told_of(error)}",
            advice="name a Job, or a function without arguments that returns one",
        ) from error
