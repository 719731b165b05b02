"""The configuration of a subscription with the sink ``webhook``."""

from __future__ import annotations

import re
from importlib.util import find_spec
from typing import Annotated, Final, Literal

from pydantic import Field

from connector.declare.masking import MASK, mask_path
from connector.declare.section import Section
from connector.declare.value_types import Text, ValueType, choice, duration, leaf, refuse
from connector.errors import WrongValue
from connector.sinks.mapped_entry import MappedEntry
from connector.sinks.subscription_model import CalledEntry, EntryCheck, ExternalEntry
from connector.sinks.template import placeholder_mistakes
from connector.sinks.webhook.network import check_network
from connector.sinks.webhook.sink import INSTALL, WITHOUT_BODY, WebhookSpec
from connector.sinks.webhook.url import URL_EXPECTED, UrlTemplate
from connector.text.names import plain, twins

_HEADER_NAME: Final = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+\Z")
_HEADER_VALUE: Final = re.compile(r"[!-~](?:[ -~\t]*[!-~])?\Z")
_OF_OURS: Final = ("connection", "content-length", "host", "idempotency-key", "transfer-encoding")


def _read_url(value: object) -> str:
    try:
        return UrlTemplate(str(leaf(value, URL_EXPECTED))).text
    except WrongValue as error:
        raise refuse(error.found, error.expected) from None


def _read_header(value: object) -> str:
    expected = "printable characters of ASCII on one line, without space around them"
    text = str(leaf(value, expected))
    if not _HEADER_VALUE.match(text):
        raise refuse("a value that no header can have", expected)  # which may be a secret
    return text


_Url = Annotated[
    str, ValueType(_read_url, mask_path, {"type": "string", "pattern": r"^https?://|\$\{"}, "URL")
]
_Header = ValueType(_read_header, lambda value: MASK, {"type": ["string", "number", "boolean"]}, "text")
_METHODS: Final = ("POST", "PUT", "PATCH", "DELETE", "GET")


class Webhook(Section):
    """The request that is sent for each object."""

    url: _Url = Field(
        repr=False,
        description="`https://` or `http://`, a host, a path. `{Attribute}` in the path or the query stands "
        "for the percent-encoded value of an attribute, `{Child.Attribute}` for that of a single "
        "child. What stands behind the host is never shown.",
    )
    method: Annotated[Literal["POST", "PUT", "PATCH", "DELETE", "GET"], choice(*_METHODS)] = Field(
        default="POST", description="`DELETE` and `GET` have no body."
    )
    headers: dict[str, Annotated[str, _Header]] = Field(
        default_factory=dict, repr=False, description="More headers. Their values are never shown."
    )
    mime_type: Text | None = Field(
        default=None,
        description="Format of the body. Default: the format of the default data handler.",
    )
    timeout: Annotated[float, duration()] = Field(
        default=30.0, description="For one request with its answer. Then the failure is temporary."
    )


class WebhookEntry(MappedEntry, ExternalEntry):
    """A server that gets the object by HTTP. A status from 200 to 299 confirms the object."""

    refused = frozenset({"reply", "mime_type", "format"})
    webhook: Webhook = Field(description="The request.")

    def sink(self) -> WebhookSpec:
        """Returns the recipe, which makes an HTTP client in the worker."""
        request = self.webhook
        headers = tuple(request.headers.items())
        return WebhookSpec(
            UrlTemplate(request.url), request.method, headers, request.mime_type, request.timeout
        )

    def target(self) -> str:
        return UrlTemplate(self.webhook.url).origin

    def check(self, check: EntryCheck) -> None:
        """Reports what is wrong in the entry, on this machine and in its environment. Sends nothing."""
        CalledEntry.check(self, check)
        for key in sorted(self.refused):
            if getattr(self, key):
                expected = "webhook: {mime_type: ...}" if key == "mime_type" else "it left out"
                check.add(key, f"{key} of a webhook, which does not reply", expected)
        check.check_mime_type("webhook.mime_type", self.webhook.mime_type)
        if self.webhook.mime_type is not None and self.webhook.method in WITHOUT_BODY:
            check.add(
                "webhook.mime_type", f"mime_type of a {self.webhook.method}, without a body", "no mime_type"
            )
        for name in self.webhook.headers:
            if not _HEADER_NAME.match(name):
                check.add("webhook.headers", f"{plain(name)}, no name of a header", "a name such as X-Source")
            elif name.lower() in _OF_OURS:
                check.add("webhook.headers", f"{name}, which the connector sets", "it left out")
        for earlier, name in twins(self.webhook.headers):
            check.add("webhook.headers", f"{earlier} and {name}, one header", "one of the two")
        self._check_attributes(check)
        if check.runs_here:
            self._check_here(check)

    def _check_here(self, check: EntryCheck) -> None:
        """Reports what this machine lacks. A worker on another machine may have it."""
        if find_spec("httpcore") is None:
            check.add("webhook", "a webhook without the package httpcore", INSTALL)
            return
        try:
            check_network(UrlTemplate(self.webhook.url).origin)
        except WrongValue as error:
            check.add("webhook", error.found, error.expected)

    def _check_attributes(self, check: EntryCheck) -> None:
        if check.definitions is None:
            return
        names = UrlTemplate(self.webhook.url).names
        for mistake in placeholder_mistakes(names, self.objects, check.definitions):
            check.add("webhook.url", *mistake)
