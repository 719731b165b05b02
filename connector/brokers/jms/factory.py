"""Recipes of connection factories: a constructor with the URL, a bean with setters, or a name in JNDI."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from connector.brokers.engine.silence import ANSWER, FIRST_ANSWER
from connector.brokers.engine.transaction_limits import DEFAULT_BATCH_BYTES
from connector.brokers.jms.beans import set_properties, url_setter
from connector.brokers.jms.naming import Naming
from connector.brokers.jms.reasons import artifact_of, reason_of
from connector.brokers.jms.urls import (
    URL_PROPERTIES,
    for_browsers,
    with_options,
    without_additions,
    without_secrets,
)
from connector.declare.masking import is_secret, mask
from connector.errors import ProviderMisconfigured


@dataclass(frozen=True, slots=True)
class Factory:
    """How a connection factory is made and used.

    Args:
        class_name: Java class of the factory. Empty = ``naming`` has the factory.
        url: of the broker. None = the properties say where the broker is.
        user, password: of the login. None = those of the URL or of the properties.
        messages: most messages that a consumer has fetched ahead.
        bytes_ahead: bytes of their bodies, about. Only Qpid JMS heeds them.
        properties: of the factory, set by its setters in this order.
        naming: None = there is no JNDI.
    """

    class_name: str = ""
    url: str | None = None
    user: str | None = None
    password: str | None = None
    messages: int = 10
    bytes_ahead: int = DEFAULT_BATCH_BYTES
    properties: Mapping[str, str] = field(default_factory=dict)
    naming: Naming | None = None

    def __repr__(self) -> str:
        return f"Factory({self.class_name or self.naming!r})"  # URL and properties may contain a password

    def make(self, jpype: Any, *, browses: float = 0.0) -> Any:
        """Returns a new connection factory.

        Args:
            browses: seconds in which browsers get an answer. 0 = its connections do not browse.

        Raises:
            ProviderMisconfigured: the class, the name, the URL or a property is wrong.
            ProviderError: JNDI is out of reach.
        """
        try:
            if self.naming is None:
                made = self._construct(jpype, self._url(browses=browses))
            else:
                made = self.naming.find_factory(jpype)
            if self.url is None:
                self._add_options(made, browses=browses)
            set_properties(jpype, made, self.properties)
            return made
        except ProviderMisconfigured as error:
            raise ProviderMisconfigured(self.safe(str(error))) from None

    def _url(self, *, browses: float) -> str | None:
        """Returns the URL with the options of the adapter."""
        if self.url is None:
            return None
        if browses:
            return for_browsers(self.class_name, self.url, browses)
        return with_options(self.class_name, self.url, self.messages)

    def _add_options(self, made: Any, *, browses: float) -> None:
        """Gives a factory without ``url`` the options of the adapter, which replace those of the factory."""
        name = str(made.getClass().getName())
        if (property_name := URL_PROPERTIES.get(name)) is None:
            return
        url = str(getattr(made, f"get{property_name}")())
        url = for_browsers(name, url, browses) if browses else with_options(name, url, self.messages)
        getattr(made, f"set{property_name}")(url)

    def _construct(self, jpype: Any, url: str | None) -> Any:
        name = self.class_name
        try:
            made = jpype.JClass(name)
        except TypeError:
            raise ProviderMisconfigured(
                f"factory: there is no Java class {name}: correct the name, or add {artifact_of(name)} to "
                "packages, or its jar to classpath"
            ) from None
        except jpype.JException as error:
            raise ProviderMisconfigured(f"factory: {name} cannot be loaded: {reason_of(error)}") from None
        try:
            if url is not None:
                with contextlib.suppress(TypeError):  # it has no constructor that takes a text
                    return made(url)
            found = made()
            if url is None:
                return found
            setter = url_setter(found)
            if setter is None:
                raise ProviderMisconfigured(
                    f"factory: {name} has neither a constructor nor a setter that takes a url: give its "
                    "properties instead"
                )
            set_properties(jpype, found, {setter: url})
            return found
        except TypeError:
            expected = "that takes a url" if url is not None else "without arguments: give the url"
            raise ProviderMisconfigured(f"factory: {name} has no constructor {expected}") from None
        except jpype.JException as error:
            raise ProviderMisconfigured(
                f"factory: {name} does not take the url: {reason_of(error)}"
            ) from None

    def safe(self, text: str) -> str:
        """Returns a text of the client library without passwords, and without options of the adapter."""
        for made in (self._url(browses=0.0), self._url(browses=FIRST_ANSWER), self._url(browses=ANSWER)):
            if made is not None and self.url is not None:
                text = without_additions(text, self.url, made).replace(self.url, mask(self.url))
        secrets = [value for name, value in self.properties.items() if is_secret(name)]
        text = without_secrets(text, self.password, *secrets)
        return text if self.naming is None else self.naming.safe(text)
