"""A fake container engine: an HTTP server on a socket that gives prepared answers, like real engines' errors."""

import json
import socketserver
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

Answer = tuple[int, Any] | None  # None: it hangs up


@contextmanager
def fake_engine(socket: Path, answers: dict[str, Answer]) -> Iterator[str]:
    """Run a fake engine, and yield its DOCKER_HOST.

    `answers` has status and JSON by "METHOD /path" without the version; anything else is answered with an empty list.
    """

    class Handler(BaseHTTPRequestHandler):
        def answer(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length", 0)))
            path = self.path.partition("?")[0]
            path = "/" + path.split("/", 2)[2] if path.startswith("/v1.") else path
            found = {**ALWAYS, **answers}.get(f"{self.command} {path}", (200, []))
            if found is None:
                self.close_connection = True
                return
            status, content = found
            body = json.dumps(content).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_GET = do_POST = do_DELETE = answer  # noqa: N815 - names that the library gives

        def log_message(self, format: str, *args: Any) -> None: ...

        def address_string(self) -> str:
            return "nobody"

    class Server(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
        daemon_threads = True

    with Server(str(socket), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield f"unix://{socket}"
        finally:
            server.shutdown()
            thread.join()


ALWAYS: dict[str, Answer] = {
    "GET /_ping": (200, "OK"),
    "GET /version": (200, {"ApiVersion": "1.41", "Version": "20.10.24"}),
}
