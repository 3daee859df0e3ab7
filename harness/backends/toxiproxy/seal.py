"""Closes the port of a program that asks nobody who they are: from now on it takes connections with a key only.

The program is a child of ours and knows nothing of it. The kernel hands us a copy of its listening socket
(pidfd_getfd(2), which is for whoever may trace the process), and the key is set on that (`zab_chaos.faults.tcp_signature`).
"""

import ctypes
import os
import socket
import sys
from typing import Any

import psutil

from zab_chaos.faults import tcp_signature

PIDFD_GETFD = 438  # the same on every architecture


def listens(pid: int, port: int) -> bool:
    """Whether the process takes connections on the port."""
    return any(it.status == psutil.CONN_LISTEN for it in _sockets(pid, port))


def seal(pid: int, port: int) -> bytes | None:
    """Set a key on the process's listener at `port`; whoever had connected before is cut off. None: it can't be done
    here, because the kernel or its settings (Yama, a container's filter) do not allow it."""
    key = tcp_signature.new_key()
    try:
        with _Borrowed(pid) as borrowed:
            for found in _sockets(pid, port):
                if found.status == psutil.CONN_LISTEN:
                    borrowed.socket(found.fd).setsockopt(*tcp_signature.option(key))
            for found in _sockets(pid, port):
                if found.status != psutil.CONN_LISTEN:
                    borrowed.socket(found.fd).shutdown(socket.SHUT_RDWR)
    except OSError:
        return None
    return key


def _sockets(pid: int, port: int) -> list[Any]:
    """As psutil has them: `fd`, `laddr`, `status`."""
    try:
        found = psutil.Process(pid).net_connections("tcp4")
    except psutil.Error:
        return []
    return [it for it in found if it.laddr and it.laddr.port == port]


class _Borrowed:
    """Copies of another process's sockets, closed here in the end; the process keeps its own."""

    def __init__(self, pid: int) -> None:
        if sys.platform != "linux":
            raise OSError("there is no pidfd here")
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._process = os.pidfd_open(pid)
        self._sockets: list[socket.socket] = []

    def __enter__(self) -> "_Borrowed":
        return self

    def __exit__(self, *error: object) -> None:
        for one in self._sockets:
            one.close()
        os.close(self._process)

    def socket(self, descriptor: int) -> socket.socket:
        """Raises OSError."""
        copy = self._libc.syscall(PIDFD_GETFD, self._process, descriptor, 0)
        if copy < 0:
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
        self._sockets.append(socket.socket(fileno=copy))
        return self._sockets[-1]
