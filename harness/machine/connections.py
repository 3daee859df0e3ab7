"""This machine's TCP connections, the bytes sent on each, and who has them: sock_diag(7) over netlink. Needs no privileges.

One connection is asked for by its ends: for the table of all (also for /proc/net/tcp) the kernel takes tens of milliseconds.
"""

import errno
import socket
import struct
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

NETLINK_SOCK_DIAG = 4
SOCK_DIAG_BY_FAMILY = 20
REQUEST, DUMP = 0x001, 0x300
DONE, ERROR = 3, 2  # types of the netlink messages that end an answer
ESTABLISHED = 1 << 1
ANY = 0xFFFFFFFF  # any state, any cookie
INFO = 2  # INET_DIAG_INFO: struct tcp_info
BUFFER = 1 << 18

_HEADER = struct.Struct("=IHHII")  # length, type, flags, sequence, port
_ERROR = struct.Struct("=i")
_REQUEST = struct.Struct("=BBBBI")  # family, protocol, extensions, padding, states; then a struct inet_diag_sockid
_ANY_SOCKET = bytes(48)
_MESSAGE = struct.Struct("!4xHH4s12x4s12x12x")  # ports and addresses of a struct inet_diag_msg
_QUEUES = struct.Struct("=4xIIII")  # expires, rqueue, wqueue, uid, inode
_ATTRIBUTE = struct.Struct("=HH")
_ACKED = struct.Struct("=Q")
ACKED_AT = 120  # of tcpi_bytes_acked in struct tcp_info

Address = tuple[str, int]  # host and port


@dataclass(frozen=True, slots=True)
class TcpConnection:
    """An established TCP connection, from one of its ends.

    `sent`: the number of bytes that were written at the local end. `file`: the local end, as `open_files` names it.
    """

    local: Address
    remote: Address
    sent: int
    file: str


def connections() -> Iterator[TcpConnection]:
    """Yield all established connections over IPv4, each from both ends. Raises OSError."""
    yield from _ask(ESTABLISHED, _ANY_SOCKET, DUMP)


def connection(local: Address, remote: Address) -> TcpConnection | None:
    """Return the connection over IPv4 with these ends, seen from the local one; None if there is none. Raises OSError."""
    ends = [socket.inet_aton(host).ljust(16, b"\0") for host, _ in (local, remote)]
    wanted = struct.pack("!HH", local[1], remote[1]) + b"".join(ends) + struct.pack("=III", 0, ANY, ANY)
    return next(_ask(ANY, wanted, 0), None)


def _ask(states: int, wanted: bytes, flags: int) -> Iterator[TcpConnection]:
    question = _REQUEST.pack(socket.AF_INET, socket.IPPROTO_TCP, 1 << (INFO - 1), 0, states) + wanted
    header = _HEADER.pack(_HEADER.size + len(question), SOCK_DIAG_BY_FAMILY, REQUEST | flags, 1, 0)
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, NETLINK_SOCK_DIAG) as link:
        link.send(header + question)
        while True:
            answer = link.recv(BUFFER)
            while answer:
                length, kind, *_ = _HEADER.unpack_from(answer)
                if kind == DONE or (kind == ERROR and _ERROR.unpack_from(answer, _HEADER.size) == (-errno.ENOENT,)):
                    return
                if kind == ERROR:
                    raise OSError("the kernel does not list the TCP connections")
                yield read(answer[_HEADER.size : length])
                answer = answer[length:]
            if not flags & DUMP:
                return


def read(message: bytes) -> TcpConnection:
    """Decode a struct inet_diag_msg and its attributes.

    The bytes sent are those that were acknowledged and those still in the send queue.
    """
    local_port, remote_port, local, remote = _MESSAGE.unpack_from(message)
    _, queued, _, inode = _QUEUES.unpack_from(message, _MESSAGE.size)
    at, acked = _MESSAGE.size + _QUEUES.size, 0
    while at + _ATTRIBUTE.size <= len(message):
        length, kind = _ATTRIBUTE.unpack_from(message, at)
        if kind == INFO:
            (acked,) = _ACKED.unpack_from(message, at + _ATTRIBUTE.size + ACKED_AT)
        at += max(_ATTRIBUTE.size, (length + 3) & ~3)
    ends = (socket.inet_ntoa(local), local_port), (socket.inet_ntoa(remote), remote_port)
    return TcpConnection(*ends, acked + queued, f"socket:[{inode}]")


def host_and_port(address: str) -> Address:
    """Return the two parts of host:port."""
    host, _, port = address.rpartition(":")
    return host, int(port)


def open_files(pid: int) -> set[str]:
    """Return the names of the files and sockets that a process has open; none if it has ended."""
    names = set()
    with suppress(OSError):
        for descriptor in Path(f"/proc/{pid}/fd").iterdir():
            with suppress(OSError):
                names.add(str(descriptor.readlink()))
    return names
