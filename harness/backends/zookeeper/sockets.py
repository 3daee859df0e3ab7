"""Lists this machine's TCP connections and the bytes sent on each, with sock_diag(7) over netlink. Needs no privileges."""

import socket
import struct
from collections.abc import Iterator
from dataclasses import dataclass

NETLINK_SOCK_DIAG = 4
SOCK_DIAG_BY_FAMILY = 20
REQUEST, DUMP = 0x001, 0x300
DONE, ERROR = 3, 2  # types of the netlink messages that end an answer
ESTABLISHED = 1 << 1
INFO = 2  # INET_DIAG_INFO: struct tcp_info
BUFFER = 1 << 18

_HEADER = struct.Struct("=IHHII")  # length, type, flags, sequence, port
_REQUEST = struct.Struct("=BBBBI48x")  # family, protocol, extensions, padding, states, any socket
_MESSAGE = struct.Struct("!4xHH4s12x4s12x12x")  # ports and addresses of a struct inet_diag_msg
_QUEUES = struct.Struct("=4xII8x")  # expires, rqueue, wqueue, uid, inode
_ATTRIBUTE = struct.Struct("=HH")
_ACKED = struct.Struct("=Q")
ACKED_AT = 120  # of tcpi_bytes_acked in struct tcp_info


@dataclass(frozen=True, slots=True)
class TcpConnection:
    """An established TCP connection, from one of its ends. `sent` is the number of bytes that were written at the local end."""

    local: tuple[str, int]
    remote: tuple[str, int]
    sent: int


def connections() -> Iterator[TcpConnection]:
    """Yield all established connections over IPv4, each from both ends. Raises OSError."""
    request = _REQUEST.pack(socket.AF_INET, socket.IPPROTO_TCP, 1 << (INFO - 1), 0, ESTABLISHED)
    header = _HEADER.pack(_HEADER.size + len(request), SOCK_DIAG_BY_FAMILY, REQUEST | DUMP, 1, 0)
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, NETLINK_SOCK_DIAG) as link:
        link.send(header + request)
        while True:
            answer = link.recv(BUFFER)
            while answer:
                length, kind, *_ = _HEADER.unpack_from(answer)
                if kind == DONE:
                    return
                if kind == ERROR:
                    raise OSError("the kernel does not list the TCP connections")
                yield read(answer[_HEADER.size : length])
                answer = answer[length:]


def read(message: bytes) -> TcpConnection:
    """Decode a struct inet_diag_msg and its attributes.

    The bytes sent are those that were acknowledged and those still in the send queue.
    """
    local_port, remote_port, local, remote = _MESSAGE.unpack_from(message)
    _, queued = _QUEUES.unpack_from(message, _MESSAGE.size)
    at, acked = _MESSAGE.size + _QUEUES.size, 0
    while at + _ATTRIBUTE.size <= len(message):
        length, kind = _ATTRIBUTE.unpack_from(message, at)
        if kind == INFO:
            (acked,) = _ACKED.unpack_from(message, at + _ATTRIBUTE.size + ACKED_AT)
        at += max(_ATTRIBUTE.size, (length + 3) & ~3)
    return TcpConnection((socket.inet_ntoa(local), local_port), (socket.inet_ntoa(remote), remote_port), acked + queued)
