"""The section ``provider`` with ``type: jms``."""

from __future__ import annotations

from typing import Annotated

from pydantic import BeforeValidator, Field

from connector.config.section import ProviderSection
from connector.config.value_types import Size, Text, integer, one_or_list

_Texts = Annotated[tuple[Text, ...], BeforeValidator(one_or_list)]


class JmsSection(ProviderSection):
    """A broker, through its own JMS client library in the adapter's process.

    The library comes from Maven (`packages`) or from jars of your own (`classpath`). `connector jars
    --resolve` fetches packages. Journals, published ids and instance locks lie in `state.directory`, which
    all instances of an application share, otherwise in `.connector/state` beside this file.
    """

    factory: Text = Field(
        description="Java class of the connection factory, with a constructor that takes the URL."
    )
    url: Text = Field(description="URL of the broker, as the factory reads URLs.")
    ApplicationUserName: Text | None = Field(default=None, description="User of the broker.")
    ApplicationPassword: Text | None = Field(
        default=None, description="Password of that user, as `${NAME}` from the environment."
    )
    packages: _Texts = Field(default=(), description="Maven coordinates of the client library.")
    classpath: _Texts = Field(default=(), description="Jars, `*` and `?` allowed, relative to this file.")
    java_options: _Texts = Field(default=(), description="Options of the Java virtual machine.")
    batch: Annotated[int | None, integer(1, "messages", maximum=250)] = Field(
        default=None,
        description="Most messages of one transaction. Default: `PollQuantity`, at most 250.",
    )
    batch_bytes: Size = Field(
        default=16 << 20, description="Bytes of bodies after which a transaction gets no more messages."
    )
