# The face of the package: every public name and its place, one import a line, as in that of `stateshift`.

from .rewrite import Blob as Blob
from .rewrite import Boolean as Boolean
from .rewrite import ByteRewrite as ByteRewrite
from .rewrite import Constant as Constant
from .rewrite import Counted as Counted
from .rewrite import Fixed as Fixed
from .rewrite import Float as Float
from .rewrite import Nullable as Nullable
from .rewrite import Sequence as Sequence
from .rewrite import Text as Text
from .rewrite import Widened as Widened
from .rewrite import rewrite_of as rewrite_of
