"""A server on a free port of this machine, its clients, and requests that are answered as a test wants."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import contextmanager
from decimal import Decimal
from typing import Any, Final

import httpx

from connector.businessobjects.definition import Attribute, Definition, Definitions, Verb
from connector.businessobjects.facets import Facets
from connector.businessobjects.instance import BusinessObject, finish
from connector.businessobjects.metadata import READERS
from connector.config.http_model import Address, Http, TokenEntry
from connector.http.calls import ServerLimits
from connector.http.server import Server
from connector.requests.contract import Requests
from connector.requests.result import RequestResult
from connector.status import ReturnCode

TOKEN: Final = "AbCd-0123456789.~token"
OTHER_TOKEN: Final = "another_9876543210+token="
PATIENCE: Final = 60.0
"""Seconds after which what has not happened will not."""


def _define(name: str, info: str, verbs: str, *attributes: Attribute) -> Definition:
    known = {attribute.name: attribute for attribute in attributes}
    return Definition(name, "1.0.0", info, known, {verb: Verb(verb) for verb in verbs.split()})


_CUSTOMER: Final = (
    Attribute("CustomerId", "String", is_key=True, max_length=20),
    Attribute("Name", "String"),
    Attribute("Limit", "Double", default=0.0),
    Attribute("Rating", "Integer"),
    Attribute("Weight", "Float"),
    Attribute("Active", "Boolean"),
    Attribute("Since", "Date"),
    Attribute("Notes", "LongText", max_length=1000),
    Attribute("Tag", "String", cardinality="n", max_length=10),
    Attribute("Price", "Decimal", default=Decimal("0.00")),
    Attribute("Rate", "Decimal", cardinality="n"),
    Attribute("Score", "Integer", cardinality="n"),
    Attribute("Seen", "Date", cardinality="n"),
    Attribute("Address", "Address", cardinality="n"),
    Attribute("Region", "String", facets=Facets(values=("EU", "US"))),
    Attribute("Code", "String", facets=Facets(pattern="C-[0-9]{1,3}|x", min_length=1)),
    Attribute("Grade", "Integer", facets=Facets(minimum=1, maximum=5)),
    Attribute("Step", "Double", cardinality="n", facets=Facets(values=(0.5, 1.0))),
    Attribute("Parent", "Customer"),
    Attribute("Meta", "CustomerMeta"),
)
_META: Final = (
    Attribute("Priority", "Integer"),
    Attribute("ResponseTimeout", "Integer"),
    Attribute("CorrelationID", "String", is_required=True),
)
_ORDER: Final = (
    Attribute("OrderId", "String", is_key=True, is_required=True),
    Attribute("Express", "Boolean", is_required=True),
    Attribute("Weight", "Float", is_required=True),
    Attribute("Currency", "String", is_required=True, default="EUR"),
    Attribute("Line", "Line", is_required=True, cardinality="n"),
    Attribute("To", "Address", is_required=True),
    Attribute("ObjectEventId", "String", is_required=True),
)
DEFINITIONS: Final = Definitions(
    {
        "Customer": _define("Customer", "cw_mo_conn=Meta", "Create Retrieve", *_CUSTOMER),
        "Address": _define("Address", "", "", Attribute("City", "String"), Attribute("Zip", "String")),
        "CustomerMeta": _define("CustomerMeta", "", "", *_META),
        "Order": _define("Order", "", "Create", *_ORDER),
        "Line": _define("Line", "", "", Attribute("Item", "String", is_required=True)),
    }
)


class Script:
    """Requests (:class:`connector.requests.contract.Requests`) whose answers a test decides about.

    It checks what it is given as the real client does, and gives answers that no real application has on
    demand: none yet, too many in flight, a mistake in the program.
    """

    def __init__(self) -> None:
        self.calls: list[tuple[BusinessObject, int | None]] = []
        self.held: list[tuple[BusinessObject, Future[RequestResult]]] = []
        self.holds = False
        self.refusing = False
        self.answer: Callable[[BusinessObject], RequestResult] = lambda bo: RequestResult(
            ReturnCode.VALCHANGE, bo
        )

    def again(self) -> Script:
        """The same script, as new: for a row of a table."""
        self.__init__()  # type: ignore[misc]
        return self

    def request_async(
        self, name: str, data: Mapping[str, Any] | BusinessObject, *, timeout: int | None = None
    ) -> Future[RequestResult]:
        """Answers at once, or when the test says so."""
        assert not isinstance(data, BusinessObject)
        type_name, _, verb = name.partition(".")
        bo = BusinessObject(DEFINITIONS, type_name, verb, data)
        finish(bo)
        future: Future[RequestResult] = Future()
        self.calls.append((bo, timeout))
        refused = _refusal(bo)
        if refused is not None:
            future.set_result(refused)
        elif self.refusing:
            future.set_result(RequestResult(ReturnCode.FAIL, bo, "the adapter is stopping", not_sent=True))
        elif self.holds:
            self.held.append((bo, future))
        else:
            future.set_result(self.answer(bo))
        return future

    def request(
        self, name: str, data: Mapping[str, Any] | BusinessObject, *, timeout: int | None = None
    ) -> RequestResult:
        """As :meth:`request_async`, and waits."""
        return self.request_async(name, data, timeout=timeout).result()

    def refuse(self) -> None:
        """Nothing new is answered; what is held is in flight, and stays so."""
        self.refusing = True

    def stop(self, timeout: float = 0.0) -> None:
        """Nothing is to be stopped."""

    def release(self) -> None:
        """Answers all that are held, and holds no more."""
        self.holds = False
        for bo, future in self.held:
            future.set_result(self.answer(bo))
        self.held.clear()


def _refusal(bo: BusinessObject) -> RequestResult | None:
    """What a client that knows nothing of rules says to meta-data that cannot be."""
    metadata: BusinessObject | None = bo["Meta"] if bo.type == "Customer" else None
    for name in metadata or ():
        value = metadata.value(name) if metadata else ""
        try:
            if value != "":
                READERS[name](value)
        except ValueError as error:
            return RequestResult(ReturnCode.FAIL, bo, f"Customer.Meta.{name}: {error}", refused=True)
    return None


def tokens(*texts: str | TokenEntry) -> tuple[TokenEntry, ...]:
    """Tokens as the section ``http`` has them. A text has all roles."""
    made = TokenEntry.model_construct
    return tuple(one if isinstance(one, TokenEntry) else made(token=one) for one in texts)


def settings(**changes: Any) -> Http:
    """A section ``http`` on a free port, with :data:`TOKEN` unless a test has others."""
    values = {name: field.default for name, field in Http.model_fields.items()}
    changes["tokens"] = tokens(*changes.get("tokens", (TOKEN,)))
    return Http.model_construct(**{**values, "listen": Address("127.0.0.1", 0), **changes})


@contextmanager
def serving(
    requests: Requests | None = None,
    limits: ServerLimits = ServerLimits(),  # noqa: B008, immutable
    definitions: Definitions = DEFINITIONS,
    **changes: Any,
) -> Iterator[Server]:
    """A server with changed settings; stopped at the end."""
    server = Server(settings(**changes), requests or Script(), definitions, limits=limits)
    server.start()
    try:
        yield server
    finally:
        server.stop()


def client(server: Server, token: str | None = TOKEN, **options: Any) -> httpx.Client:
    """A client of a server. None = without a token."""
    headers = {} if token is None else {"Authorization": f"Bearer {token}"}
    options |= {"timeout": PATIENCE, "trust_env": False, "verify": False}  # certificates take 30 ms to load
    return httpx.Client(base_url=server.url, headers=headers, **options)


def connect(server: Server) -> socket.socket:
    """A bare connection, for what no client would send."""
    host, _, port = server.url.removeprefix("http://").rpartition(":")
    return socket.create_connection((host, int(port)), timeout=PATIENCE)


def read_all(connection: socket.socket) -> bytes:
    """All that comes until the other side closes."""
    received = bytearray()
    try:
        while chunk := connection.recv(65536):
            received += chunk
    except ConnectionResetError:
        pass
    return bytes(received)
