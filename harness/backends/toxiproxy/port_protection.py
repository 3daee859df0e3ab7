"""Protects the port of a program without authentication: from then on it accepts only connections with a key.

The program is a child process and does not notice. The kernel gives us a copy of its listening socket (pidfd_getfd(2), which is
allowed to whoever may trace the process), and the key is set on that copy (`zab_chaos.faults.tcp_signature`).
"""

import ctypes
import os
import socket
import sys
from typing import Any

import psutil

from zab_chaos.faults import tcp_signature
from zab_chaos.harness.machine.connections import sockets

PIDFD_GETFD = 438  # the same on every architecture


def is_listening(pid: int, port: int) -> bool:
    """Return whether the process listens on the port."""
    return any(it.status == psutil.CONN_LISTEN for it in _sockets(pid, port))


def protect(pid: int, port: int) -> bytes | None:
    """Set a new key on the process's listening socket, cut the connections that are open already, and return the key.

    Return None if the kernel or its settings (Yama, a container's filter) do not allow it.
    """
    key = tcp_signature.new_key()
    try:
        with _CopiedSockets(pid) as copies:
            for found in _sockets(pid, port):
                if found.status == psutil.CONN_LISTEN:
                    copies.socket(found.fd).setsockopt(*tcp_signature.option(key))
            for found in _sockets(pid, port):
                if found.status != psutil.CONN_LISTEN:
                    copies.socket(found.fd).shutdown(socket.SHUT_RDWR)
    except OSError:
        return None
    return key


def _sockets(pid: int, port: int) -> list[Any]:
    """Return the process's sockets on the port, as psutil has them."""
    return [it for it in sockets(pid) if it.laddr and it.laddr.port == port]


class _CopiedSockets:
    """Makes copies of another process's sockets, and closes them at the end. The process keeps its own."""

    def __init__(self, pid: int) -> None:
        if sys.platform != "linux":
            raise OSError("only Linux has pidfds")
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._process = os.pidfd_open(pid)
        self._sockets: list[socket.socket] = []

    def __enter__(self) -> "_CopiedSockets":
        return self

    def __exit__(self, *error: object) -> None:
        for one in self._sockets:
            one.close()
        os.close(self._process)

    def socket(self, descriptor: int) -> socket.socket:
        """Return a copy of the socket with this descriptor in the process. Raises OSError."""
        copy = self._libc.syscall(PIDFD_GETFD, self._process, descriptor, 0)
        if copy < 0:
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
        self._sockets.append(socket.socket(fileno=copy))
        return self._sockets[-1]
