"""A client of toxiproxy: toxiproxy-python with timeouts, typed errors, and checks of what the server really did.

The package (0.1.1) sends the requests. This module adds, each for a reason that was measured:

- a timeout for each call: a wedged server never answers, and the package waits for ever;
- a check of the HTTP status: from a 500 the package makes a `KeyError`, from a 503 a JSON error;
- no web proxies from the environment: the server is on 127.0.0.1;
- reading back every toxic: the server ignores unknown attributes silently (`latncy: 5` is a latency of 0).
"""

from collections.abc import Callable, Mapping
from typing import Any

import requests
import toxiproxy.api
from toxiproxy import Proxy, Toxiproxy
from toxiproxy.exceptions import InvalidToxic, NotFound, ProxyExists

from zab_chaos.faults import tcp_signature
from zab_chaos.faults.proxies import MissingError, NetworkError, Proxies, ProxyState, ReadBackError, WedgedError

SECONDS = 3.0  # timeout of each call
HANGS = 8  # so many calls without an answer, one after the other: the server hangs, and nothing unwedges it


class _CheckedRequests:
    """A replacement of the module `requests` for toxiproxy-python: the same calls, with timeouts, checks and signatures."""

    def __init__(self, key: bytes | None, gone: Callable[[], bool]) -> None:
        self._key = key
        self._gone = gone
        self.unanswered = 0  # calls since the last answer

    @property
    def hangs(self) -> bool:
        """Whether the server has not answered for so long that nothing is asked any more."""
        return self.unanswered >= HANGS

    def get(self, url: str, **keywords: Any) -> requests.Response:
        return self._request("GET", url, **keywords)

    def post(self, url: str, **keywords: Any) -> requests.Response:
        return self._request("POST", url, **keywords)

    def delete(self, url: str, **keywords: Any) -> requests.Response:
        return self._request("DELETE", url, **keywords)

    def _request(self, method: str, url: str, **keywords: Any) -> requests.Response:
        if self._gone():  # its port refuses no connection: the refusal would have to be signed
            raise NetworkError("toxiproxy has ended")
        if self.hangs:
            raise WedgedError("toxiproxy hangs")
        try:
            with tcp_signature.session(self._key) as session:
                answer = session.request(method, url, timeout=SECONDS, **keywords)
        except requests.Timeout:
            self.unanswered += 1
            raise WedgedError(f"toxiproxy did not answer {method} {url} within {SECONDS:g} s") from None
        except requests.RequestException as error:
            raise NetworkError(f"toxiproxy can't be reached at {url}: {error}") from None
        self.unanswered = 0
        if answer.status_code >= 500:
            raise NetworkError(
                f"toxiproxy answered {answer.status_code} to {method} {url}: {answer.text.strip()[:300]}"
            )
        return answer


class ToxiproxyClient(Proxies):
    """The proxies of one toxiproxy server. `address`: host:port of its HTTP interface; `key`: signs the connections to it.

    The package keeps one address for the whole process, so every call sets it first. Two runs in one process (tests) do
    not affect each other as long as they do not call at the same instant.
    """

    def __init__(self, address: str, key: bytes | None = None, gone: Callable[[], bool] = lambda: False) -> None:
        host, _, port = address.rpartition(":")
        self._host, self._port = host, int(port)
        self._requests = _CheckedRequests(key, gone)

    @property
    def hangs(self) -> bool:
        return self._requests.hangs

    def create(self, name: str, listen: str, upstream: str, enabled: bool = True) -> None:
        # `Toxiproxy.create` lists all proxies first, and that hangs while any proxy is wedged, which is exactly when one is
        # recreated.
        self._select_server()
        wanted = {"name": name, "listen": listen, "upstream": upstream, "enabled": enabled}
        answer = self._checked(lambda: toxiproxy.api.APIConsumer.post("/proxies", json=wanted)).json()
        got = {key: answer.get(key) for key in wanted}
        if got != wanted:
            raise ReadBackError(f"asked toxiproxy for the proxy {wanted}, but it has {got}")

    def states(self) -> dict[str, ProxyState]:
        self._select_server()
        found = self._checked(lambda: toxiproxy.api.APIConsumer.get("/proxies").json())
        return {name: _state(one) for name, one in found.items()}

    def delete(self, name: str) -> None:
        try:
            self._checked(self._proxy(name).destroy)
        except MissingError:
            return

    def enable(self, name: str) -> None:
        self._checked(self._proxy(name).enable)

    def disable(self, name: str) -> None:
        self._checked(self._proxy(name).disable)

    def add(self, name: str, toxic: str, kind: str, stream: str, attributes: dict[str, int]) -> None:
        proxy = self._proxy(name)
        wanted = {"type": kind, "stream": stream, "toxicity": 1.0, "attributes": attributes}
        self._checked(lambda: proxy.add_toxic(name=toxic, **wanted))
        got = self.toxics(name).get(toxic)
        if got != wanted:
            self.remove(name, toxic)
            raise ReadBackError(f"asked toxiproxy for the toxic {wanted} on {name}, but it has {got}")

    def remove(self, name: str, toxic: str) -> None:
        try:
            self._checked(lambda: self._proxy(name).destroy_toxic(toxic))
        except MissingError:
            return

    def toxics(self, name: str) -> dict[str, dict[str, Any]]:
        found = self._checked(self._proxy(name).toxics)
        return {
            toxic.name: {
                "type": toxic.type,
                "stream": toxic.stream,
                "toxicity": toxic.toxicity,
                "attributes": toxic.attributes,
            }
            for toxic in found.values()
        }

    def _select_server(self) -> None:
        """Set the address for the package, which keeps it for the whole process."""
        toxiproxy.api.requests = self._requests
        Toxiproxy().update_api_consumer(self._host, self._port)

    def _proxy(self, name: str) -> Proxy:
        self._select_server()
        return Proxy(name=name, upstream="", enabled=True, listen="")  # the package uses the name only

    def _checked(self, call: Any) -> Any:
        try:
            return call()
        except NotFound as error:
            raise MissingError(f"toxiproxy does not know it: {_message(error)}") from None
        except ProxyExists as error:
            raise NetworkError(f"toxiproxy has it already: {_message(error)}") from None
        except InvalidToxic as error:
            raise NetworkError(f"toxiproxy refuses it: {_message(error)}") from None
        except (KeyError, ValueError) as error:
            raise NetworkError(f"toxiproxy gave an answer that can't be read: {error!r}") from None


def _state(answer: Mapping[str, Any]) -> ProxyState:
    toxics = {
        toxic["name"]: {key: toxic[key] for key in ("type", "stream", "toxicity", "attributes")}
        for toxic in answer["toxics"]
    }
    return ProxyState(answer["listen"], answer["upstream"], answer["enabled"], toxics)


def _message(error: Exception) -> str:
    content = error.args[0] if error.args else b""
    return content.decode(errors="replace").strip() if isinstance(content, bytes) else str(content)
