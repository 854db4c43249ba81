"""The properties at the end of `_metadata` from version 4 on: a Java object that describes the kind of snapshot.

It is copied as opaque bytes; only whether it is of a stop is read in it. A new savepoint gets the object that Flink
1.20 and 2.3 write into each canonical savepoint, a new checkpoint that of their checkpoints. Source: format notes 3.6;
the Java Object Serialization Specification, section 6, for where it ends.
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

# The same with formatType NATIVE.
NATIVE_PROPERTIES = CANONICAL_PROPERTIES.replace(b"\0\x09CANONICAL", b"\0\x06NATIVE")

# The same of 604 bytes: of a CheckpointType with name "Checkpoint", which is retained when its job is cancelled.
CHECKPOINT_PROPERTIES = zlib.decompress(
    base64.b85decode(
        "c-obbu};G<5QeXTB0!=<6)PLFEp<Y4DxqZ{Qc;71)CC=ho0uk!Wjm-{`b3DwVdM>X2kf-89gv`&{`+m8|L^?v1x>BsvQ#NSiE+lrB<Es"
        "ER3!{A7_m+~l_eL31Z#P(O39SrOv7?{9vqIrPq>azB>{?<<vB~naI&%n$m{y_r{;p|Y}<*dXI&M}@z;))OeD@an3O7Z;;0gFjy6~lLTi"
        ")lVJ?}0PG~Xc5`)$lbcI1TM`<Kb>a48qbY~Kv(Xa$|2%X)A;O>8X4)>bx=T{zhA?yn*Y>IaHg0Dz(6e*32;v(&aaHcbKa$v`xt&4`Ga|"
        "5?KC%%Y&X=E`B9B-m66!iZC^JnAL_d*+Brl94(hyx>iQ5D;p_I-aa96k0%H&55S;LeF})zQv-"
    )
)

_STOPS = frozenset(("SUSPEND", "TERMINATE"))


def check_properties(data: bytes) -> None:
    """Refuse bytes that are not a Java object, or that end in the middle of one.

    Objects of content that is not read here are accepted.

    Raises:
        CorruptSavepoint: The bytes are damaged; the error has the offset within `data`.
    """
    if data in {CANONICAL_PROPERTIES, NATIVE_PROPERTIES, CHECKPOINT_PROPERTIES}:
        return
    from ....serializers.sql.java_objects import JAVA_STREAM, UnreadJavaObject, read_java_object

    source = DataInputView(data)
    if not data.startswith(JAVA_STREAM):
        raise CorruptSavepoint("the checkpoint properties are missing or damaged", offset=0)
    try:
        read_java_object(source)
    except UnreadJavaObject:
        return
    if source.remaining():
        raise CorruptSavepoint(f"{source.remaining()} bytes follow the checkpoint properties", offset=source.position)


def stops_job(data: bytes) -> bool:
    """Whether they are of a savepoint that was taken to stop its job, with or without a drain."""
    from ....serializers.sql.java_objects import enum_constant

    return enum_constant(data, "checkpointType", "postCheckpointAction") in _STOPS
