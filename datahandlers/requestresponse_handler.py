"""Request-Response: two data handlers in one (WBI Data Handler Guide, Request-Response)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from connector.businessobjects.app_specific_info import tags
from connector.businessobjects.definition import Attribute, Definition, Definitions
from connector.businessobjects.instance import BusinessObject
from connector.businessobjects.name_handlers import NameHandler
from connector.errors import MalformedData, UnknownBusinessObject
from connector.formats.datahandler import DataHandler, HandlerUser, Hint, Option


class _Role(NamedTuple):
    """A child of the outermost object, and the handler of its bodies."""

    attribute: Attribute
    handler: DataHandler


class RequestResponseHandler(HandlerUser):
    """A business object with a child for the request and a child for the response.

    The tag ``role=request`` or ``role=response`` in the application-specific information of a child says its
    role. Without tags the first child is the request, and the second the response.

    A body is the request or the response. The name handler (NameHandlerClass) names the object in the body.
    Without a name handler the inner data handlers do. The child of that type gets the object. If nothing
    names the object, the body is a request. Without a rule, the outermost object is named by BOPrefix, ``_``
    and the name of the inner object, or is the only object that has such a child.

    The response is written if it is set, else the request.
    """

    mime_types = ("text/requestresponse",)
    options = (
        Option("RequestDataHandlerMimeType", str, "text/xml", "The format of requests."),
        Option("ResponseDataHandlerMimeType", str, "text/xml", "The format of responses."),
        Option(
            "BOPrefix", str, "", "Stands before the name of the inner object, and `_`, in the outer name."
        ),
    )

    def __init__(self, options: Mapping[str, Any], definitions: Definitions) -> None:
        self._definitions = definitions
        self._mime_types = (options["RequestDataHandlerMimeType"], options["ResponseDataHandlerMimeType"])
        self._prefix: str = options["BOPrefix"]
        self._handlers: tuple[DataHandler, DataHandler] | None = None
        self._name: NameHandler | None = None

    def use_handlers(self, find: Callable[[str], DataHandler], name: NameHandler | None) -> None:
        if any(mime_type in self.mime_types for mime_type in self._mime_types):
            raise ValueError("text/requestresponse cannot be a part of itself")
        self._handlers = find(self._mime_types[0]), find(self._mime_types[1])
        self._name = name

    def to_business_object(self, body: bytes | str, hint: Hint | None) -> BusinessObject:
        inner, read, reader = self._inner(body)
        if hint is None:
            if inner is None:
                raise UnknownBusinessObject(
                    "neither a rule, a name handler nor the body names a business object"
                )
            bo = BusinessObject(self._definitions, self._outermost(inner))
        else:
            bo = BusinessObject(self._definitions, hint.object, hint.verb)
        roles = self._roles(bo.definition)
        role = next((role for role in roles if role.attribute.type == inner), roles[0])
        child = read if read is not None and role.attribute.type == inner and role.handler is reader else None
        if child is None:
            is_of_body = self._name is not None
            child = role.handler.to_business_object(body, Hint(role.attribute.type, is_of_body=is_of_body))
        bo[role.attribute.name] = child
        bo.verb = bo.verb or child.verb
        child.verb = None  # the verb belongs to the outermost object
        return bo

    def to_body(self, bo: BusinessObject) -> bytes | str:
        for role in reversed(self._roles(bo.definition)):
            child = bo[role.attribute.name]
            if child is not None:
                before, child.verb = child.verb, child.verb or bo.verb
                try:
                    return role.handler.to_body(child)
                finally:
                    child.verb = before
        raise MalformedData(f"{bo.type}: neither the request nor the response is set")

    def _inner(self, body: bytes | str) -> tuple[str | None, BusinessObject | None, DataHandler | None]:
        """Returns the name of the object in a body, or None if nothing names the object.

        If a data handler has found the name, the result has the object and the data handler, too.
        """
        if self._name is not None:
            try:
                name = self._name(body)
            except UnknownBusinessObject:
                return None, None, None
            return name.removeprefix(f"{self._prefix}_") if self._prefix else name, None, None
        assert self._handlers is not None
        for handler in dict.fromkeys(self._handlers):
            try:
                found = handler.to_business_object(body, None)
            except MalformedData:
                continue  # the other format, or a body without a name; the reading that counts says why
            return found.type, found, handler
        return None, None, None

    def _outermost(self, inner: str) -> str:
        if self._prefix:
            return f"{self._prefix}_{inner}"
        found = [
            definition.name
            for definition in self._definitions.values()
            if any(
                attribute.type == inner and "role" in tags(attribute.app_specific_info)
                for attribute in definition.attributes.values()
            )
        ]
        if len(found) != 1:
            objects = "no business object has" if not found else f"{' and '.join(found)} have"
            raise UnknownBusinessObject(f"{objects} a child {inner} with role=request or role=response")
        return found[0]

    def _roles(self, definition: Definition) -> list[_Role]:
        """Returns the request, then the response.

        Raises:
            MalformedData: the object has no such children.
        """
        assert self._handlers is not None  # the connector has called use_handlers
        hidden = definition.metaobject_attributes
        children = [
            attribute
            for attribute in definition.attributes.values()
            if attribute.is_child and not attribute.is_many and attribute.name not in hidden
        ]
        by_role = {tags(one.app_specific_info).get("role"): one for one in children}
        if "request" in by_role or "response" in by_role:
            named = [(by_role.get("request"), 0), (by_role.get("response"), 1)]
        else:
            named = [(one, number) for number, one in enumerate(children[:2])]
        found = [_Role(one, self._handlers[number]) for one, number in named if one is not None]
        if not found:
            raise MalformedData(f"{definition.name} has no child for a request or a response")
        return found
