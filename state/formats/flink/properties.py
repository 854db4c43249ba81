"""The properties at the end of `_metadata` from version 4 on: a Java object that describes the kind of snapshot.

It is copied as opaque bytes. A new savepoint gets the object that Flink 1.20 and 2.3 write into each canonical
savepoint, a new checkpoint that of their checkpoints. Source: format notes 3.6; the Java Object Serialization
Specification, section 6, for where it ends.
"""

from __future__ import annotations

import base64
import zlib

from ....serializers.errors import CorruptSavepoint
from ....serializers.views import DataInputView

# zlib, then base 85, of 745 bytes: org.apache.flink.runtime.checkpoint.CheckpointProperties, of a SavepointType
# with formatType CANONICAL, name "Savepoint" and postCheckpointAction NONE.
CANONICAL_PROPERTIES = zlib.decompress(
    base64.b85decode(
        "c-obcK~BOz6o#LOhMI_ka0J&gQDb7liZl>S8YHO;!)}}oFw)M9GgE>awqC=9OAp{ZJcoC1T54$m3+(F6KYj0g|KEQ8z>(2#BlQ#!"
        "Md*y7NzBC@=~P&rFys_ESCR{h{IVQrshGB$8CXBH8Z^exinyUfM?Mjh#W9P<a9T(M!t?Xl-<b<;W>qCjpG=x$N~=_iVj{|<<B8NX"
        "E4)<Dm^iQ~faZqn;Z-pUmw~f^*EVo&0~a>%=2aXDqRdR@J>8|s`47N_aIsGaAz83;<@?)r<KwaORfEF-P8?%G3Y6<@6e=~tY{_V9"
        "xfHk@G$`A;0n`OaTzflsCJTaNBBnUBnv1Es>nLgL<|FiIHpjy4ey*$B=c65yTox-0S6d-u+^FP6JGhIV0NMac4b2Q4W$36c(xiH+"
        "EO>rzct5=Jdx5LVS#I&*-|6pkQC;@}EATAT-NODaiOl};"
    )
)

# The same of 604 bytes: of a CheckpointType with name "Checkpoint", which is retained when its job is cancelled.
CHECKPOINT_PROPERTIES = zlib.decompress(
    base64.b85decode(
        "c-obbu};G<5QeXTB0!=<6)PLFEp<Y4DxqZ{Qc;71)CC=ho0uk!Wjm-{`b3DwVdM>X2kf-89gv`&{`+m8|L^?v1x>BsvQ#NSiE+lrB<Es"
        "ER3!{A7_m+~l_eL31Z#P(O39SrOv7?{9vqIrPq>azB>{?<<vB~naI&%n$m{y_r{;p|Y}<*dXI&M}@z;))OeD@an3O7Z;;0gFjy6~lLTi"
        ")lVJ?}0PG~Xc5`)$lbcI1TM`<Kb>a48qbY~Kv(Xa$|2%X)A;O>8X4)>bx=T{zhA?yn*Y>IaHg0Dz(6e*32;v(&aaHcbKa$v`xt&4`Ga|"
        "5?KC%%Y&X=E`B9B-m66!iZC^JnAL_d*+Brl94(hyx>iQ5D;p_I-aa96k0%H&55S;LeF})zQv-"
    )
)

_JAVA_STREAM = b"\xac\xed\x00\x05"
_NULL, _REFERENCE, _CLASS, _OBJECT, _STRING, _END_BLOCK, _ENUM = 0x70, 0x71, 0x72, 0x73, 0x74, 0x78, 0x7E
_FIRST_REFERENCE = 0x7E0000
_PRIMITIVE_BYTES = {"B": 1, "C": 2, "D": 8, "F": 4, "I": 4, "J": 8, "S": 2, "Z": 1}
_PLAIN_FIELDS = 2
_MAX_DEPTH = 20


def check_properties(data: bytes) -> None:
    """Refuse bytes that are not a Java object, or that end in the middle of one.

    Only the kinds of content that `CheckpointProperties` consists of are checked; bytes with any other are accepted.

    Raises:
        CorruptSavepoint: The bytes are damaged; the error has the offset within `data`.
    """
    source = DataInputView(data)
    if source.peek(4) != _JAVA_STREAM:
        raise CorruptSavepoint("the checkpoint properties are missing or damaged", offset=0)
    source.skip_bytes(4)
    try:
        _Walk(source).content(0)
    except _NotFollowedError:
        return
    if source.remaining():
        raise CorruptSavepoint(f"{source.remaining()} bytes follow the checkpoint properties", offset=source.position)


class _NotFollowedError(Exception):
    """The object has content that `_Walk` does not support."""


class _Class:
    """A class description: the fields of its objects, with the superclass's fields first."""

    def __init__(self) -> None:
        self.fields: list[str] = []


class _Walk:
    """Skips one serialized Java object."""

    def __init__(self, source: DataInputView) -> None:
        self.source = source
        self.references: list[_Class | None] = []

    def content(self, depth: int) -> None:
        """Skip an object, enum, string, reference or null."""
        if depth > _MAX_DEPTH:
            raise _NotFollowedError
        tag = self.source.read_unsigned_byte()
        if tag == _OBJECT:
            description = self.class_description(depth)
            self.references.append(None)
            for kind in description.fields:
                if kind in _PRIMITIVE_BYTES:
                    self.source.skip_bytes(_PRIMITIVE_BYTES[kind])
                else:
                    self.content(depth + 1)
        elif tag == _ENUM:
            self.class_description(depth)
            self.references.append(None)
            self.content(depth + 1)
        elif tag == _STRING:
            self.references.append(None)
            self.source.skip_bytes(self.source.read_unsigned_short())
        elif tag == _REFERENCE:
            self.source.skip_bytes(4)
        elif tag != _NULL:
            raise _NotFollowedError

    def class_description(self, depth: int) -> _Class:
        """Read the description of a class, or look up a reference to one."""
        tag = self.source.read_unsigned_byte()
        if tag == _NULL:
            return _Class()
        if tag == _REFERENCE:
            return self.referred()
        if tag != _CLASS or depth > _MAX_DEPTH:
            raise _NotFollowedError
        self.source.skip_bytes(self.source.read_unsigned_short())
        self.source.skip_bytes(8)
        found = _Class()
        self.references.append(found)
        flags = self.source.read_unsigned_byte()
        own = []
        for _ in range(self.source.read_unsigned_short()):
            kind = chr(self.source.read_unsigned_byte())
            self.source.skip_bytes(self.source.read_unsigned_short())
            if kind not in _PRIMITIVE_BYTES:
                self.content(depth + 1)
            own.append(kind)
        if self.source.read_unsigned_byte() != _END_BLOCK or flags & ~0x10 != _PLAIN_FIELDS:
            raise _NotFollowedError
        found.fields = self.class_description(depth + 1).fields + own
        return found

    def referred(self) -> _Class:
        """Look up a reference to a class."""
        index = self.source.read_int() - _FIRST_REFERENCE
        found = self.references[index] if 0 <= index < len(self.references) else None
        if found is None:
            raise _NotFollowedError
        return found
