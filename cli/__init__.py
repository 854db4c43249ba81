"""The command line: `stateshift inspect`, `export`, `check`, `migrate`, `verify`."""

import atexit
import gc
import sys

# Imported modules stay loaded. Garbage collection during the import, or over the modules later, would take a tenth of
# the import time. Nothing is collected when the process ends, either, as that frees all memory.
_was_enabled = gc.isenabled()
gc.disable()
try:
    from .app import main

    gc.freeze()
except KeyboardInterrupt:  # within the first tenths of a second; a traceback of imports does not help
    from .output import print_notice

    print_notice("", "interrupted.")
    sys.exit(130)
finally:
    if _was_enabled:
        gc.enable()
atexit.register(gc.freeze)

__all__ = ["main"]
