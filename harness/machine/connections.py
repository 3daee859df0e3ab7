"""Finds which process has one end of a connection, by asking the kernel for that connection only.

The table of all connections (/proc/net/tcp, which psutil reads) takes it tens of milliseconds, and a node whose peers are gone
connects again dozens of times a second.
"""

import socket
import struct
from contextlib import suppress
from pathlib import Path

_SOCK_DIAG = 4  # linux/netlink.h
_BY_FAMILY = 20  # linux/sock_diag.h
_REQUEST = 1
_HEADER = struct.Struct("=IHHII")  # length, type, flags, number, port
_QUESTION = struct.Struct("=BBBxI")  # family, protocol, extensions, states; then the two ends
_INODE_AT = _HEADER.size + 68  # in an inet_diag_msg (linux/inet_diag.h)
_ANY_STATE = _ANY = 0xFFFFFFFF


def connection_end(mine: tuple[str, int], other: tuple[str, int]) -> str | None:
    """Return the name of the end of a TCP connection (IPv4) that has the address `mine`, as `open_files` has it; None if there
    is no such connection."""
    question = _QUESTION.pack(socket.AF_INET, socket.IPPROTO_TCP, 0, _ANY_STATE)
    question += struct.pack(">HH", mine[1], other[1])
    question += b"".join(socket.inet_aton(host).ljust(16, b"\0") for host, _ in (mine, other))
    question += struct.pack("=III", 0, _ANY, _ANY)  # any interface, any cookie
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, _SOCK_DIAG) as kernel:
        kernel.send(_HEADER.pack(_HEADER.size + len(question), _BY_FAMILY, _REQUEST, 1, 0) + question)
        answer = kernel.recv(1 << 16)
    if _HEADER.unpack_from(answer)[1] != _BY_FAMILY:
        return None
    (inode,) = struct.unpack_from("=I", answer, _INODE_AT)
    return f"socket:[{inode}]"


def open_files(pid: int) -> set[str]:
    """Return the names of the files and sockets that a process has open; none if it has ended."""
    names = set()
    with suppress(OSError):
        for descriptor in Path(f"/proc/{pid}/fd").iterdir():
            with suppress(OSError):
                names.add(str(descriptor.readlink()))
    return names
