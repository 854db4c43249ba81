# The face of the package: every public name and its place, one import a line, as in that of `stateshift`.

from ..compat.queries.changes import Backfill as Backfill
from ..compat.queries.changes import FieldChanges as FieldChanges
from ..state.directory.rewind import rewind as rewind
from .queries.check import check_query as check_query
from .queries.description import describe as describe
from .queries.guard import start as start
from .queries.migration import migrate_checkpoint as migrate_checkpoint
from .queries.verification import verify_checkpoint as verify_checkpoint
from .sessions import session as session
from .source.savepoint_source import register as register
from .streaming.job import BroadcastStream as BroadcastStream
from .streaming.job import ConnectedStreams as ConnectedStreams
from .streaming.job import DataStream as DataStream
from .streaming.job import KeyedStream as KeyedStream
from .streaming.job import StreamJob as StreamJob
from .streaming.progress import print_progress as print_progress
from .streaming.savepoints import take_savepoint as take_savepoint
from .streaming.side_outputs import split_outputs as split_outputs
from .streaming.taken_offsets import position_of as position_of
