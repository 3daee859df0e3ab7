"""The header of a frame. Its layout in bytes is in `zab_chaos.node.channel.frame`."""

from enum import IntEnum

import msgspec


class FrameKind(IntEnum):
    MESSAGES = 0
    HELLO = 1
    WELCOME = 2
    THANKS = 3
    PART = 4


NUMBERED = frozenset({int(FrameKind.MESSAGES), int(FrameKind.PART)})  # the kinds that use up a sequence number


class FrameHeader(msgspec.Struct, frozen=True, gc=False):
    """A frame's header without magic, checksum and length."""

    cluster: int
    kind: int
    sender: int
    receiver: int
    incarnation: int
    to: int
    session: int
    sequence: int
