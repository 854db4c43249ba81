"""The steps of a program in a worker: functions without state, called as in a local run."""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

import attrs
import pyarrow as pa

from ...serializers.errors import StateShiftError
from ...state.backends.heap.backend import HashMapStateBackend
from ...state.backends.restore_check import RESTORING
from ...state.entry_keys import encode
from ...state.environment.execution import to_all, typed_way
from ...state.environment.graph import Edge, Transformation
from ...state.environment.stations import FunctionTask, Outputs, Station, WatermarkTask, locate
from ...state.key_groups import key_group, key_hasher
from ...state.runtime.output_tag import OutputTag
from ...state.runtime.runtime_context import TaskInfo
from ...state.runtime.watermarks import WatermarkStrategy
from ..frames import arrow_columns
from ..streaming.blobs import milliseconds
from ..streaming.slot_runs import function_failed, register_all
from ..worker import dumped, loaded

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from ...serializers.serializer import TypeSerializer
    from ...state.environment.stations import Collect
    from ..streaming.runs import RunFacts
    from ..worker import Settings

ROWS = "place int, value binary, at long, key binary, key_group int"
"""The columns of elements behind steps: the number of their way out, the pickled element, its time stamp in
milliseconds, the bytes of its key and its key group."""

_SCHEMA = arrow_columns(ROWS)


@attrs.frozen
class Way:
    """Where results go.

    Attributes:
        tag: The name of the side output; None: the main output.
        type_info: The type of the results; None: they have none.
        step: The number of a step; None: out.
        out: The number of the way out.
    """

    tag: str | None
    type_info: Any
    step: int | None
    out: int = 0


@attrs.frozen
class Step:
    """A step, and the ways of its results.

    Attributes:
        transformation: The step, without its inputs.
        uid: Its uid.
        ways: The ways.
    """

    transformation: Transformation
    uid: str
    ways: tuple[Way, ...]


@attrs.frozen
class Out:
    """A way out of steps.

    Attributes:
        target: The name of what takes the elements, in errors.
        key: The serializer of the keys there; None: there are none.
        selector: Returns the key of an element.
    """

    target: str
    key: TypeSerializer[Any] | None = None
    selector: Callable[[Any], Any] | None = None


@attrs.frozen
class Steps:
    """Processes elements by steps; used with `mapInArrow`.

    Attributes:
        run: Reads what holds for this start of the query.
        settings: The settings of the workers.
        serializers: As for `SlotRunner`.
        origin: The name of what the elements come from.
        entries: Their ways.
        steps: The steps, each before those that its results go to.
        outs: The ways out.
    """

    run: RunFacts
    settings: Settings
    serializers: tuple[tuple[type, TypeSerializer[Any]], ...]
    origin: str
    entries: tuple[Way, ...]
    steps: tuple[Step, ...]
    outs: tuple[Out, ...]

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        self.settings.begin()
        register_all(self.serializers)
        rows = _Rows(self.outs, self.run)
        try:
            with self._opened(rows) as taken:
                for batch in batches:
                    for tag, value, at in _elements(batch):
                        if tag in taken:
                            self._take(taken[tag], loaded(value), at)
                    if rows.places:
                        yield rows.taken()
        except StateShiftError:
            raise
        except Exception as error:
            raise function_failed(error, None) from error

    def _take(self, collect: Collect, element: Any, at: int | None) -> None:
        try:
            collect(element, at)
        except Exception as error:
            locate(error, self.origin, element)  # unless a step has done it
            raise

    @contextmanager
    def _opened(self, rows: _Rows) -> Iterator[dict[str | None, Collect]]:
        """Open all steps for a `with` block, and yield what takes the elements of each output."""
        pushes: dict[int, Collect] = {}
        with ExitStack() as stack:
            for number in reversed(range(len(self.steps))):
                step = self.steps[number]
                station = _station(step)
                station.begin(_outputs(self._ways(step.ways, pushes, rows)), (), RESTORING)
                stack.callback(station.close)
                pushes[number] = station.push(0, Edge(step.transformation))
            yield self._ways(self.entries, pushes, rows)

    def _ways(self, ways: Sequence[Way], pushes: dict[int, Collect], rows: _Rows) -> dict[str | None, Collect]:
        found: dict[str | None, list[Collect]] = {}
        types = {way.tag: way.type_info for way in ways}
        for way in ways:
            found.setdefault(way.tag, []).append(rows.out(way.out) if way.step is None else pushes[way.step])
        return {tag: typed_way(types[tag], several) for tag, several in found.items()}


def _station(step: Step) -> Station:
    one = step.transformation
    if isinstance(one.body, WatermarkStrategy):
        return WatermarkTask(one.body, one.title)
    return FunctionTask(one, HashMapStateBackend, TaskInfo(name=one.name), step.uid)


def _outputs(ways: dict[str | None, Collect]) -> Outputs:
    main = ways.pop(None, None) or to_all(())
    return Outputs(main, {OutputTag(tag): way for tag, way in ways.items() if tag is not None})


def _elements(batch: pa.RecordBatch) -> Iterator[tuple[str | None, bytes, int | None]]:
    """Yield the elements of some rows, with the name of their output and their time stamps."""
    names, count = batch.schema.names, batch.num_rows
    tags = batch.column("tag").to_pylist() if "tag" in names else [None] * count
    for tag, value, at in zip(
        tags, batch.column("value").to_pylist(), milliseconds(batch.column("at")).to_pylist(), strict=True
    ):
        if value is not None:  # a source has begun
            yield tag, value, at


class _Rows:
    """Collects the rows of elements that have passed the steps."""

    def __init__(self, outs: Sequence[Out], run: RunFacts) -> None:
        self._outs = outs
        self._groups = run.read().max_parallelism if any(out.key is not None for out in outs) else 0
        self._clear()

    def _clear(self) -> None:
        self.places: list[int] = []
        self._values: list[bytes] = []
        self._times: list[int | None] = []
        self._keys: list[bytes | None] = []
        self._key_groups: list[int | None] = []

    def out(self, number: int) -> Collect:
        """Return what takes the elements of a way out."""
        out, groups = self._outs[number], self._groups
        if out.key is None or out.selector is None:
            return lambda value, at: self._add(number, value, at, None, None)
        serializer, select, hashed = out.key, out.selector, key_hasher(out.key)

        def keyed(value: Any, at: int | None) -> None:
            try:
                key = select(value)
                data, group = encode(serializer, key), key_group(hashed(key), groups)
            except Exception as error:
                locate(error, out.target, value)
                raise
            self._add(number, value, at, data, group)

        return keyed

    def _add(self, place: int, value: Any, at: int | None, key: bytes | None, group: int | None) -> None:
        self.places.append(place)
        self._values.append(dumped(value))
        self._times.append(at)
        self._keys.append(key)
        self._key_groups.append(group)

    def taken(self) -> pa.RecordBatch:
        """Return the rows since the last call."""
        columns = self.places, self._values, self._times, self._keys, self._key_groups
        arrays = [pa.array(column, field.type) for column, field in zip(columns, _SCHEMA, strict=True)]
        self._clear()
        return pa.RecordBatch.from_arrays(arrays, schema=_SCHEMA)
