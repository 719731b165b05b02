"""The document ``map``."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from connector.config.metaobject_model import MetaObjectName
from connector.declare.expression_type import JMESPATH
from connector.declare.section import Section
from connector.declare.value_types import Text


class MapDocument(Section):
    """A map: makes an object of one type from an object of another."""

    map: MetaObjectName = Field(description="The name.")
    source: Text = Field(alias="from", description="The business object that the map takes.")
    target: Text = Field(alias="to", description="The business object that the map makes.")
    verb: Text | None = Field(
        default=None, description="The verb of the object that is made. Left out: the verb of the other one."
    )
    attributes: dict[str, Annotated[str, JMESPATH]] = Field(
        default={}, description="Attribute: an expression on the object that the map takes."
    )
