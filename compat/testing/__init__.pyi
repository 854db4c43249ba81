# The face of the package: every public name and its place, one import a line, as in that of `stateshift`.

from .contract import SerializerContract as SerializerContract
from .migration import assert_migrates as assert_migrates
from .serializers import V1 as V1
from .serializers import V2 as V2
from .serializers import NeedsFallback as NeedsFallback
from .serializers import NeedsReconfig as NeedsReconfig
from .serializers import Refuses as Refuses
from .serializers import Unrestorable as Unrestorable
from .strategies import Evolution as Evolution
from .strategies import evolutions as evolutions
from .strategies import types as types
from .strategies import values_of as values_of
from .upgrade import UpgradeCase as UpgradeCase
