"""This machine's TCP connections, the bytes moved on each, and who has them: sock_diag(7) over netlink. Needs no privileges.

One connection is asked for by its ends: for the table of all (also for /proc/net/tcp) the kernel takes tens of milliseconds.
"""

import errno
import socket
import struct
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from ipaddress import IPv6Address
from pathlib import Path
from typing import Any

import psutil

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
_MESSAGE = struct.Struct("!B3xHH16s16s12x")  # family, ports and addresses of a struct inet_diag_msg
_QUEUES = struct.Struct("=4xIIII")  # expires, rqueue, wqueue, uid, inode
_ATTRIBUTE = struct.Struct("=HH")
_MOVED = struct.Struct("=QQ")  # tcpi_bytes_acked, tcpi_bytes_received
MOVED_AT = 120  # of these in struct tcp_info

Address = tuple[str, int]  # host and port


@dataclass(frozen=True, slots=True)
class TcpConnection:
    """An established TCP connection, from one of its ends.

    `sent`: the number of bytes that were written at the local end. `received`: of those that have arrived there, whether they
    were read or not. `file`: the local end, as `open_files` names it. IPv4 addresses are those of IPv4 also if the socket is
    one for IPv6.
    """

    local: Address
    remote: Address
    sent: int
    received: int
    file: str


def connections(family: socket.AddressFamily = socket.AF_INET) -> Iterator[TcpConnection]:
    """Yield all established connections of the sockets of one family, each from both ends. Raises OSError."""
    yield from _ask(ESTABLISHED, _ANY_SOCKET, DUMP, family)


def between(pids: Mapping[int, int]) -> Iterator[tuple[int, int, TcpConnection]]:
    """Yield the connections between different nodes, whose process ids are given: (from, to, connection as `from` has it).

    A node's process and those that it has started are one. Each connection is yielded from both ends. Raises OSError.
    """
    owners = {file: node for node, pid in pids.items() for file in open_files(pid) | open_files_of_children(pid)}
    ends = {
        (one.local, one.remote): (owners[one.file], one)
        for family in (socket.AF_INET, socket.AF_INET6)
        for one in connections(family)
        if one.file in owners
    }
    for (local, remote), (node, one) in ends.items():
        other, _ = ends.get((remote, local), (node, one))
        if other != node:
            yield node, other, one


def connection(local: Address, remote: Address) -> TcpConnection | None:
    """Return the connection over IPv4 with these ends, seen from the local one; None if there is none. Raises OSError."""
    ends = [socket.inet_aton(host).ljust(16, b"\0") for host, _ in (local, remote)]
    wanted = struct.pack("!HH", local[1], remote[1]) + b"".join(ends) + struct.pack("=III", 0, ANY, ANY)
    return next(_ask(ANY, wanted, 0), None)


def _ask(
    states: int, wanted: bytes, flags: int, family: socket.AddressFamily = socket.AF_INET
) -> Iterator[TcpConnection]:
    question = _REQUEST.pack(family, socket.IPPROTO_TCP, 1 << (INFO - 1), 0, states) + wanted
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
    family, local_port, remote_port, local, remote = _MESSAGE.unpack_from(message)
    _, queued, _, inode = _QUEUES.unpack_from(message, _MESSAGE.size)
    at, acked, received = _MESSAGE.size + _QUEUES.size, 0, 0
    while at + _ATTRIBUTE.size <= len(message):
        length, kind = _ATTRIBUTE.unpack_from(message, at)
        if kind == INFO:
            acked, received = _MOVED.unpack_from(message, at + _ATTRIBUTE.size + MOVED_AT)
        at += max(_ATTRIBUTE.size, (length + 3) & ~3)
    ends = (_host(family, local), local_port), (_host(family, remote), remote_port)
    return TcpConnection(*ends, acked + queued, received, f"socket:[{inode}]")


def _host(family: int, address: bytes) -> str:
    if family == socket.AF_INET:
        return socket.inet_ntoa(address[:4])
    one = IPv6Address(address)
    return str(one.ipv4_mapped or one)


def host_and_port(address: str) -> Address:
    """Return the two parts of host:port."""
    host, _, port = address.rpartition(":")
    return host, int(port)


def sockets(pid: int, kind: str = "tcp4") -> list[Any]:
    """Return a process's sockets, as psutil has them: with `fd`, `laddr`, `raddr` and `status`; none if it has ended."""
    try:
        return psutil.Process(pid).net_connections(kind)
    except psutil.Error:
        return []


def open_files(pid: int) -> set[str]:
    """Return the names of the files and sockets that a process has open; none if it has ended."""
    names = set()
    with suppress(OSError):
        for descriptor in Path(f"/proc/{pid}/fd").iterdir():
            with suppress(OSError):
                names.add(str(descriptor.readlink()))
    return names


def open_files_of_children(pid: int) -> set[str]:
    """Return the names of what the processes have open that this one has started, and those that they have started."""
    try:
        return {name for child in psutil.Process(pid).children(recursive=True) for name in open_files(child.pid)}
    except psutil.Error:  # it has ended
        return set()
