"""Answers ``POST /requests/{BusinessObject}/{Verb}``, and makes the same request from a form."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import copy_context
from dataclasses import dataclass
from http import HTTPStatus
from typing import NamedTuple

from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from connector.businessobjects.definition import Definitions
from connector.config.http_model import REQUEST, Http
from connector.errors import MalformedData
from connector.http.answers import SECONDS_TO_RETRY, answer
from connector.http.bodies import check_media_type, parse, read_body, too_large
from connector.http.idempotency import HEADER, KeptAnswers, key_of
from connector.http.problems import HttpProblem
from connector.http.throttled_log import ThrottledLog
from connector.http.timeout_limits import check_dynamic, milliseconds, requested_timeout
from connector.http.tokens import Caller, Tokens
from connector.operate.trace_context import TRACEPARENT, sending_under, valid_traceparent
from connector.requests.contract import Requests
from connector.requests.result import RequestResult
from connector.text.names import did_you_mean, shown


@dataclass(frozen=True, slots=True)
class ServerLimits:
    """The limits of a server that no configuration changes.

    Args:
        head_seconds: that the head of a call may take to arrive.
        body_seconds: that the body of a call may take to arrive.
        write_seconds: after which a client has to have read a part of an answer that waits.
        threads: that send requests. Sending may take a sync of the disk. No thread waits for a reply.
    """

    head_seconds: float = 10.0
    body_seconds: float = 30.0
    write_seconds: float = 10.0
    threads: int = 32


class _Call(NamedTuple):
    """A call without its body.

    Args:
        caller: the number of the token.
        name: object and verb, ``Customer.Retrieve``.
        timeout: ResponseTimeout in ms. None = as the meta-objects say.
        key: that the caller has chosen. None = the call may be made twice.
    """

    caller: int
    name: str
    timeout: int | None
    key: str | None


class RequestCalls:
    """Makes requests from calls. For one thread, that of the server."""

    def __init__(
        self,
        settings: Http,
        tokens: Tokens,
        requests: Requests,
        definitions: Definitions,
        limits: ServerLimits,
    ) -> None:
        self._tokens = tokens
        self._requests = requests
        self._definitions = definitions
        self.max_body = settings.max_body
        """Bytes of the largest body."""
        self._body_seconds = limits.body_seconds
        self._max_requests = settings.max_requests
        self._max_timeout = milliseconds(settings.max_timeout)
        self._refused = ThrottledLog("calls are refused", {"max_requests": settings.max_requests})
        self._answers = KeptAnswers(settings.idempotency_time, settings.idempotency_keys)
        self._threads = ThreadPoolExecutor(limits.threads, "connector-http")
        self.under_way = 0
        """The number of calls that are being answered."""
        self._stopping = False
        self._cut = asyncio.Event()

    def refuse(self) -> None:
        """Refuses all further calls."""
        self._stopping = True

    def cut(self) -> None:
        """Ends the wait of every call for a reply."""
        self._cut.set()

    def close(self) -> None:
        """Ends the threads. Does not wait for a thread that is stuck in a provider."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def post(self, request: Request) -> Response:
        """Answers one call. Reports the first mistake in the order of the checks.

        Raises:
            HttpProblem: the call made no request.
        """
        call = self._call(
            self._tokens.check(request, REQUEST),
            self.name_of(request.path_params["object"], request.path_params["verb"]),
            request.query_params.multi_items(),
            request.headers.getlist(HEADER),
        )
        check_media_type(request.headers)
        traceparent = valid_traceparent(",".join(request.headers.getlist(TRACEPARENT)))  # two are none
        with self._place(), sending_under(traceparent):
            try:
                body = await read_body(request, self.max_body, self._body_seconds)
            except ClientDisconnect:
                return Response(status_code=HTTPStatus.BAD_REQUEST)  # the client has gone
            return await self._make(call, body)

    async def make(
        self, caller: Caller, name: str, body: bytes, *, timeout: str = "", key: str = ""
    ) -> Response:
        """Returns the answer that :meth:`post` would give to the same call.

        Args:
            caller: has been identified.
            name: that :meth:`name_of` has returned.
            body: JSON.
            timeout: ResponseTimeout in ms. Empty = as the meta-objects say.
            key: an Idempotency-Key. Empty = none.

        Raises:
            HttpProblem: the call made no request.
        """
        self._tokens.demand(caller, REQUEST)
        call = self._call(caller, name, [("timeout", timeout)] if timeout else [], [key] if key else [])
        with self._place():
            if len(body) > self.max_body:
                raise too_large(self.max_body)
            return await self._make(call, body)

    def _call(
        self, caller: Caller, name: str, parameters: Sequence[tuple[str, str]], keys: Sequence[str]
    ) -> _Call:
        return _Call(caller.number, name, requested_timeout(parameters, self._max_timeout), key_of(keys))

    async def _make(self, call: _Call, body: bytes) -> Response:
        """Makes the request, unless an earlier call with the same key has an answer."""
        if call.key is None:
            return answer(await self._request(call.name, body, call.timeout))
        fingerprint = hashlib.sha256(call.name.encode() + b" " + body).digest()
        which = (call.caller, call.key)
        known = self._answers.begin(which, fingerprint)
        if known is not None:
            return known
        kept = None
        try:
            result = await self._request(call.name, body, call.timeout)
            response = answer(result)
            if not (result.not_sent or result.refused):
                kept = response
        finally:
            self._answers.finish(which, kept)
        return response

    async def _request(self, name: str, body: bytes, timeout: int | None) -> RequestResult:
        """Returns the answer to a request. After :meth:`cut`, returns the answer only if it is there already.

        Raises:
            HttpProblem: there is no answer.
        """
        begun = self._threads.submit(copy_context().run, self._begin, name, body, timeout)
        done = asyncio.ensure_future(_completion(begun))
        cut = asyncio.ensure_future(self._cut.wait())
        try:
            await asyncio.wait((done, cut), return_when=asyncio.FIRST_COMPLETED)
        finally:
            cut.cancel()
        try:
            if not done.done():
                done.add_done_callback(_read_exception)
                return _final_answer(begun)
            return done.result()
        except MalformedData as error:
            raise HttpProblem(HTTPStatus.UNPROCESSABLE_ENTITY, str(error)) from None

    def _begin(self, name: str, body: bytes, timeout: int | None) -> Future[RequestResult]:
        """Sends the request, in a thread, because reading a large body and sending take a while."""
        data = parse(body)
        check_dynamic(self._definitions[name.partition(".")[0]], data, self._max_timeout)
        return self._requests.request_async(name, data, timeout=timeout)

    @contextmanager
    def _place(self) -> Iterator[None]:
        """Counts a call as under way until the context ends.

        Raises:
            HttpProblem: 503, there are too many calls, or the server is stopping.
        """
        if self._stopping or self.under_way >= self._max_requests:
            found = "the adapter is stopping" if self._stopping else "too many requests (http.max_requests)"
            if not self._stopping:
                self._refused.add()
            raise HttpProblem(
                HTTPStatus.SERVICE_UNAVAILABLE,
                f"{found}; nothing was sent, so that it may be repeated",
                {"Retry-After": SECONDS_TO_RETRY},
                closes=True,
            )
        self.under_way += 1
        try:
            yield
        finally:
            self.under_way -= 1

    def name_of(self, business_object: str, verb: str) -> str:
        """Returns the name of a request.

        Raises:
            HttpProblem: 404, there is no such business object or verb.
        """
        definition = self._definitions.get(business_object)
        if definition is None:
            having = [name for name, each in self._definitions.items() if each.verbs]
            detail = f"no business object {shown(business_object)}{did_you_mean(business_object, having)}"
            raise HttpProblem(HTTPStatus.NOT_FOUND, detail)
        if verb not in definition.verbs:
            has = f"it has {', '.join(definition.verbs)}" if definition.verbs else "it has no verbs"
            detail = (
                f"{business_object} has no verb {shown(verb)}{did_you_mean(verb, definition.verbs)}; {has}"
            )
            raise HttpProblem(HTTPStatus.NOT_FOUND, detail)
        return f"{business_object}.{verb}"


def _final_answer(begun: Future[Future[RequestResult]]) -> RequestResult:
    """Returns the answer to a request that is not waited for any longer.

    Raises:
        HttpProblem: 503, there is no answer. With Retry-After if nothing was sent.
    """
    if begun.cancel():  # no thread has begun the request
        raise HttpProblem(
            HTTPStatus.SERVICE_UNAVAILABLE,
            "the adapter is stopping; nothing was sent",
            {"Retry-After": SECONDS_TO_RETRY},
        )
    if begun.done() and begun.result().done():
        return begun.result().result()
    # Without Retry-After, because the request may have been sent.
    detail = "the adapter has stopped while the reply was awaited; the request may have been sent"
    raise HttpProblem(HTTPStatus.SERVICE_UNAVAILABLE, detail)


async def _completion(begun: Future[Future[RequestResult]]) -> RequestResult:
    """Waits for a result. A cancelled wait does not cancel the request."""
    request = await asyncio.wrap_future(begun)
    loop = asyncio.get_running_loop()
    completed = asyncio.Event()

    def tell(_: object) -> None:
        try:
            loop.call_soon_threadsafe(completed.set)
        except RuntimeError:
            pass  # the server has ended meanwhile

    request.add_done_callback(tell)
    await completed.wait()
    return request.result()


def _read_exception(done: asyncio.Future[RequestResult]) -> None:
    """Reads the exception of a result that is not needed, so that asyncio does not log the exception."""
    if not done.cancelled():
        done.exception()
