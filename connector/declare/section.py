"""The base class of all sections of a configuration, and of the section ``provider``."""

from __future__ import annotations

from typing import Final

from pydantic import BaseModel, ConfigDict, Field

from connector.declare.value_types import Text

DEFAULT_PROVIDER: Final = "dropbox"
"""The provider of a section without ``type``, because it needs no server."""


class Section(BaseModel):
    """Base of all sections. Unknown keys are mistakes, and values do not change."""

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)


class ProviderSection(Section):
    """Base of the sections ``provider``. A provider adds its own keys (see ``ProviderKind.section``).

    A field is annotated with a type of :mod:`connector.declare.value_types`, and has a description. The
    docstring of a section is its introduction in the reference page.
    """

    type: Text = Field(default=DEFAULT_PROVIDER, description="Name of an installed provider.")

    @classmethod
    def adopts(cls, key: str) -> bool:
        """Whether the section takes a key that stands in the section ``connector``, as WBI Adapter has it."""
        return False
