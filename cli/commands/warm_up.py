"""`stateshift warm-up`: compile machine code before it is needed."""

from __future__ import annotations

import time
from functools import partial
from typing import TYPE_CHECKING

import click

from ...serializers.errors import DeclarationError
from ..failures import Status
from ..options import common_options
from ..output import print_json, print_lines

if TYPE_CHECKING:
    from collections.abc import Iterator


@click.command(
    "warm-up",
    epilog="""\b
Examples:
  stateshift warm-up
  stateshift warm-up --json
  NUMBA_CACHE_DIR=/opt/machine-code stateshift warm-up

\b
This takes about 20 seconds on one core, once for each version of stateshift, numba and Python, and each
kind of processor; code that is already compiled is kept. In an image, run it after the installation.
The code is stored in NUMBA_CACHE_DIR if that is set, else next to the package, else in the user's cache
folder. Without it, a migration compiles only if there is enough state to make it worthwhile, and uses
Python objects otherwise.""",
)
@common_options
def command(*, with_json: bool) -> int:
    """Compile the machine code that rewrites and reads state, and keep it for every process of this machine."""
    from ...state.transcode.executor_choice import code_folder, has_numba

    if not has_numba():
        raise DeclarationError(
            "machine code needs numba, which is not installed", advice="pip install 'stateshift[spark]'"
        )
    place, found = code_folder(), [*_functions()]
    total = sum(seconds or 0.0 for _, seconds in found)
    if with_json:
        functions = [
            {"name": name, "compiled": seconds is not None, "seconds": seconds or 0.0} for name, seconds in found
        ]
        print_json({"folder": str(place), "seconds": total, "functions": functions})
        return Status.DONE
    made = [f"  {name}: compiled in {seconds:.1f} s" for name, seconds in found if seconds is not None]
    print_lines([f"{len(made)} of {len(found)} functions compiled in {total:.1f} s; kept in {place}", *made])
    return Status.DONE


def _functions() -> Iterator[tuple[str, float | None]]:
    """Load every function, and yield the CPU seconds of its compilation, None if it was compiled before."""
    from ...state.columnar import flat_numba
    from ...state.transcode.executor_choice import is_compiled
    from ...state.transcode.numba_executor import FUNCTIONS, load_compiled

    loaders = {f"numba_kernels.{name}": partial(load_compiled, [name]) for name in FUNCTIONS}
    loaders["flat_numba._decode_flat"] = partial(flat_numba.load_compiled)
    for name, load in loaders.items():
        was_there, began = is_compiled(name), time.process_time()
        load()
        yield name.partition(".")[2].lstrip("_"), None if was_there else time.process_time() - began
