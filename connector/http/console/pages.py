"""Answers the paths below ``/console``."""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import Awaitable, Callable, Mapping
from http import HTTPStatus
from importlib.resources import files
from typing import Any, Final, NamedTuple
from urllib.parse import parse_qsl, quote, urlencode

from jinja2 import Environment, PackageLoader, StrictUndefined
from starlette.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect, Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from connector.config.http_model import OPERATE, READ, REQUEST, Http
from connector.errors import ConnectorError
from connector.http.actions import ACTIONS
from connector.http.addresses import client_of
from connector.http.bodies import read_body
from connector.http.calls import RequestCalls
from connector.http.console import views
from connector.http.console.requests import RequestForm
from connector.http.console.session import COOKIE, SECONDS, Sessions
from connector.http.guard import POLICY
from connector.http.operator_calls import Action, ControlCall, do, log_action
from connector.http.pages import Pages, constant_page
from connector.http.problems import HttpProblem
from connector.http.tokens import Caller, Tokens
from connector.service.observer import Observer
from connector.status import VERSION
from connector.text.iso_time import iso_time

_HOME: Final = "/console"
_MOST_BYTES: Final = 3 << 20
_SIGN_BYTES: Final = 4 << 10
"""Of the forms that everybody may send."""
_MOST_NEXT: Final = 1000
"""Characters of a page that is shown after the sign-in."""
_LINK: Final = re.compile(r"\[([^]]+)\]\([^)]+\)")
_BODY_SECONDS: Final = 30.0
_MOST_LOOKS: Final = 4
"""Pages that look at the provider at the same time."""
_MOST_EXPLANATIONS: Final = 2
"""Messages that are explained at the same time, each in a process of its own."""
_MOST_WAITING: Final = 4
"""Further explanations that wait for their turn."""
_STATIC: Final = {
    "console.css": "text/css",
    "console.js": "text/javascript",
    "htmx.min.js": "text/javascript",
}
_HEADERS: Final = {
    "Content-Security-Policy": POLICY.replace("form-action 'none'", "form-action 'self'"),
    "Referrer-Policy": "same-origin",  # with no-referrer a browser sends a form with the Origin null
}


class _Page(NamedTuple):
    """A page.

    Args:
        path: below the console.
        title: in the navigation.
    """

    path: str
    title: str
    template: str
    view: Callable[[Observer, Mapping[str, str]], dict[str, Any]]


_PAGES: Final = (
    _Page("", "Overview", "overview.html", views.overview),
    _Page("/queues", "Queues", "queues.html", views.queues),
    _Page("/errors", "Errors", "errors.html", views.errors),
    _Page("/history", "History", "history.html", views.history),
    _Page("/configuration", "Configuration", "configuration.html", views.configuration),
)
_BELOW: Final = (
    _Page("/messages", "Messages", "messages.html", views.messages),
    _Page("/message", "Message", "message.html", views.message),
    _Page("/explain", "Explanation", "explain.html", views.explain),
)
_STEERS: Final = ("pause", "resume", "reload", "replay", "move", "discard", "correct", "send")
"""What a form can do: the last part of a path of :data:`.ACTIONS`."""


_PREVIEWED: Final = ("replay", "move", "discard")
"""Without ``yes`` these say what they would do."""
_QUESTIONS: Final = {
    "pause": "It is paused for all instances, until somebody resumes it.",
    "resume": "All instances go on with it.",
    "reload": "All instances read adapter.yaml and its files anew.",
    "correct": "The corrected message goes to where the old one came from. The old one goes to the archive.",
    "send": "Whoever reads this destination gets the message.",
}
"""By the last part of a path, what happens."""


class Console(Pages):
    """The pages, and the forms on them."""

    def __init__(
        self,
        settings: Http,
        observer: Observer,
        tokens: Tokens,
        calls: RequestCalls,
        description: Mapping[str, Any],
    ) -> None:
        self._observer = observer
        self._requests = RequestForm(calls, description)
        self._pages = (*_PAGES, _Page("/requests", "Requests", "requests.html", self._requests.view))
        self._tokens = tokens
        self._sessions = Sessions(tokens)
        self._hosts = settings.hosts
        self._places = asyncio.Semaphore(_MOST_LOOKS)
        self._explanations = asyncio.Semaphore(_MOST_EXPLANATIONS)
        self._explained = 0
        """Explanations that are made or wait."""
        self._actions = {one.path.rpartition("/")[2]: one for one in ACTIONS if one.method == "POST"}
        self._templates = Environment(
            loader=PackageLoader("connector.http.console"),
            autoescape=True,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        self._templates.filters["url"] = lambda text: quote(str(text), safe="")
        self._templates.filters["prose"] = _prose
        self._templates.filters["time"] = lambda milliseconds: iso_time(milliseconds / 1000)
        self._templates.globals["VERSION"] = VERSION

    def routes(self) -> list[Route]:
        return [
            *(Route(_HOME + one.path, self._shows(one)) for one in (*self._pages, *_BELOW)),
            Route(f"{_HOME}/sign-in", self._sign_in, methods=["GET", "POST"]),
            Route(f"{_HOME}/sign-out", self._sign_out, methods=["POST"]),
            Route(f"{_HOME}/request", self._request, methods=["POST"]),
            *(Route(f"{_HOME}/{one}", self._steers(one), methods=["POST"]) for one in _STEERS),
            *(Route(f"{_HOME}/static/{name}", _static(name, kind)) for name, kind in _STATIC.items()),
        ]

    # -- pages -------------------------------------------------------------------------------------

    def _shows(self, page: _Page) -> Callable[[Request], Awaitable[Response]]:
        async def show(request: Request) -> Response:
            caller = self._sessions.caller(request.cookies.get(COOKIE, ""))
            if caller is None:
                there = request.url.path + (f"?{request.url.query}" if request.url.query else "")
                return _see_other(f"{_HOME}/sign-in?{urlencode({'next': there})}")
            if not self._tokens.may(caller, READ):
                return self._problem(request, caller, HTTPStatus.FORBIDDEN, f"{caller.name} may not read")
            try:
                found = await self._look(page, dict(request.query_params))
            except ConnectorError as error:
                return self._problem(request, caller, HTTPStatus.UNPROCESSABLE_ENTITY, str(error))
            except HttpProblem as problem:
                return self._problem(request, caller, problem.status, problem.detail)
            return self._render(request, caller, page.template, found, title=page.title)

        return show

    async def _look(self, page: _Page, query: dict[str, str]) -> dict[str, Any]:
        """Returns what a page shows. Many readers take no more of the processor than a few.

        Raises:
            HttpProblem: 503, too many messages are explained.
        """
        if page.view is views.explain:
            return await self._explain(query)
        async with self._places:
            return await run_in_threadpool(page.view, self._observer, query)

    async def _explain(self, query: dict[str, str]) -> dict[str, Any]:
        """Returns an explanation. No thread waits for its turn, because all pages share the threads."""
        if self._explained >= _MOST_EXPLANATIONS + _MOST_WAITING:
            text = "Other messages are explained now. Open the page again in a moment."
            raise HttpProblem(HTTPStatus.SERVICE_UNAVAILABLE, text)
        self._explained += 1
        try:
            async with self._explanations:
                return await run_in_threadpool(views.explain, self._observer, query)
        finally:
            self._explained -= 1

    def _problem(self, request: Request, caller: Caller, status: HTTPStatus, text: str) -> Response:
        return self._render(request, caller, "problem.html", {"text": text}, title="Problem", status=status)

    def _render(
        self,
        request: Request,
        caller: Caller | None,
        template: str,
        view: Mapping[str, Any],
        *,
        title: str,
        status: HTTPStatus = HTTPStatus.OK,
    ) -> Response:
        cookie = request.cookies.get(COOKIE, "")
        text = self._templates.get_template(template).render(
            view,
            title=title,
            application=self._observer.configuration.connector.application_name,
            pages=self._pages,
            path=request.url.path,
            caller=caller,
            may_operate=caller is not None and self._tokens.may(caller, OPERATE),
            may_request=caller is not None and self._tokens.may(caller, REQUEST),
            form_key=self._sessions.form_key(cookie) if caller is not None else "",
            said=request.query_params.get("said", ""),
        )
        return Response(text, status, _HEADERS, media_type="text/html")

    # -- forms -------------------------------------------------------------------------------------

    async def _sign_in(self, request: Request) -> Response:
        there = _inside(request.query_params.get("next", ""))
        if not self._tokens.needed:
            return _see_other(there)
        mistake, status = "", HTTPStatus.OK
        if request.method == "POST":
            form = await _form(request, _SIGN_BYTES)
            there = _inside(form.get("next", ""))
            try:
                cookie = self._sessions.open(form.get("token", "").strip(), client_of(request.client))
                if cookie:
                    response = _see_other(there)
                    self._set_cookie(request, response, cookie, SECONDS)
                    return response
                mistake = "This token is not one of this server's. The section http of adapter.yaml has them."
                status = HTTPStatus.UNAUTHORIZED
            except HttpProblem as problem:
                mistake, status = f"Not signed in: {problem.detail}.", problem.status
        view = {"next": there, "mistake": mistake}
        return self._render(request, None, "sign-in.html", view, title="Sign in", status=status)

    async def _sign_out(self, request: Request) -> Response:
        response = _see_other(f"{_HOME}/sign-in")
        cookie = request.cookies.get(COOKIE, "")
        form = await _form(request, _SIGN_BYTES)
        if self._sessions.is_form_key(cookie, form.get("form_key", "")):
            self._sessions.close(cookie)
            self._set_cookie(request, response, "", 0)
        return response

    def _set_cookie(self, request: Request, response: Response, cookie: str, seconds: int) -> None:
        """Gives a cookie to a browser, which sends the cookie by TLS only where TLS leads to this server.

        A proxy ends TLS. The page of the form says so, otherwise the proxy, otherwise the name of the host.
        """
        headers = request.headers
        page = headers.get("origin", "").partition(":")[0]
        proxy = headers.get("x-forwarded-proto", "").partition(",")[0].strip()
        host = "https" if request.url.hostname in self._hosts else "http"
        secure = next(filter(("http", "https").__contains__, (page, proxy, host))) == "https"
        response.set_cookie(
            COOKIE, cookie, seconds, path=_HOME, secure=secure, httponly=True, samesite="strict"
        )

    def _steers(self, name: str) -> Callable[[Request], Awaitable[Response]]:
        action = self._actions[name]

        async def steer(request: Request) -> Response:
            sent = await self._sent(request, _MOST_BYTES)
            if isinstance(sent, Response):
                return sent
            caller, form = sent
            if not self._tokens.may(caller, action.role):
                text = f"This needs a token with the role {action.role} (http.tokens)."
                log_action(action, caller.name, request, f"refused: {text}")
                return self._problem(request, caller, HTTPStatus.FORBIDDEN, text)
            return await self._steer(request, caller, action, form)

        return steer

    async def _sent(self, request: Request, most: int) -> tuple[Caller, dict[str, str]] | Response:
        """Returns who has sent a form of this session, and its fields. Otherwise the answer."""
        cookie = request.cookies.get(COOKIE, "")
        caller = self._sessions.caller(cookie)
        if caller is None:
            return _see_other(f"{_HOME}/sign-in")
        form = await _form(request, most)
        if not self._sessions.is_form_key(cookie, form.pop("form_key", "")):
            text = "This form is not of this session. Open the page again."
            return self._problem(request, caller, HTTPStatus.FORBIDDEN, text)
        return caller, form

    async def _request(self, request: Request) -> Response:
        sent = await self._sent(request, self._requests.most_bytes)
        if isinstance(sent, Response):
            return sent
        caller, form = sent
        try:
            status, view = await self._requests.send(caller, form)
        except HttpProblem as problem:
            return self._problem(request, caller, problem.status, problem.detail)
        return self._render(request, caller, "requests.html", view, title="Requests", status=status)

    async def _steer(
        self, request: Request, caller: Caller, action: Action, form: dict[str, str]
    ) -> Response:
        there = _inside(form.pop("next", ""))
        name = action.path.rpartition("/")[2]
        if name not in _PREVIEWED and "sure" not in form:
            view = {"name": name, "form": form, "what": _QUESTIONS[name], "next": there}
            return self._render(request, caller, "confirm.html", view, title=f"{name.capitalize()}?")
        call = ControlCall(caller.name, {}, {}, _values(form), self._observer)
        try:
            document = await run_in_threadpool(do, action, call)
        except HttpProblem as problem:
            log_action(action, caller.name, request, f"refused: {problem.detail}")
            return self._problem(request, caller, HTTPStatus.UNPROCESSABLE_ENTITY, problem.detail)
        log_action(action, caller.name, request, "done")
        self._observer.look_again()
        if "matched" in document and "yes" not in form:
            view = {"name": name, "form": form, "document": document, "next": there}
            return self._render(request, caller, "preview.html", view, title=f"{name.capitalize()}?")
        mark = "&" if "?" in there else "?"
        return _see_other(f"{there}{mark}{urlencode({'said': _said(name, document)})}")


def _values(form: Mapping[str, str]) -> dict[str, Any]:
    """Returns the values of a form as the calls below ``/control`` have them."""
    values: dict[str, Any] = {name: value for name, value in form.items() if value and name != "sure"}
    for name in ("yes", "all"):
        if name in values:
            values[name] = True
    for name in ("expect", "limit"):
        if values.get(name, "").isdecimal():
            values[name] = int(values[name][:18])
    if values.pop("line_end", "") != "crlf" and "body" in values:  # a text area always sends CR LF
        values["body"] = values["body"].replace("\r\n", "\n")
    if "ids" in values:
        values["ids"] = [values["ids"]]
    return values


def _prose(text: str) -> list[str]:
    """Returns the parts of a description of the reference. Every other part is code. Links are texts."""
    return _LINK.sub(r"\1", text).split("`")


def _said(name: str, document: Mapping[str, Any]) -> str:
    """Returns what an action has done, in words."""
    if "matched" in document:
        left = [f"; {number:,} not: {reason}" for reason, number in document.get("left", {}).items()]
        return f"{name}: {document['moved']:,} of {document['matched']:,} messages{''.join(left)}"
    if name == "send":
        return f"{document['id']} was sent"
    if name == "correct":
        return f"the corrected message is in {document['to']}, and the old one in the archive"
    if "changed" in document:
        changed = ", ".join(document["changed"]) or "nothing"
        return f"{name}: {changed}"
    return f"{name}: done"


def _inside(text: str) -> str:
    """Returns a path of the console. Anything else, which may lead to another server, is the overview."""
    is_ours = text == _HOME or text.startswith((f"{_HOME}/", f"{_HOME}?"))
    is_plain = len(text) <= _MOST_NEXT and "\\" not in text and text.isprintable()
    return text if is_ours and is_plain else _HOME


def _see_other(path: str) -> Response:
    return RedirectResponse(path, HTTPStatus.SEE_OTHER)


async def _form(request: Request, most: int = _MOST_BYTES) -> dict[str, str]:
    """Returns the fields of a form. The first of several fields of a name counts."""
    try:
        data = await read_body(request, most, _BODY_SECONDS)
    except ClientDisconnect:
        return {}
    found: dict[str, str] = {}
    with contextlib.suppress(ValueError):
        pairs = parse_qsl(data.decode("utf-8", "replace"), keep_blank_values=True, max_num_fields=50)
        for name, value in pairs:
            found.setdefault(name, value)
    return found


def _static(name: str, media_type: str) -> Callable[[Request], Awaitable[Response]]:
    return constant_page((files("connector.http.console") / "static" / name).read_bytes(), media_type)
