"""Reads samples by their draft, so that a person sees at once whether the draft is right."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final, NamedTuple, cast

from connector.authoring.drafting.draft import VERBS, Draft
from connector.authoring.drafting.sample_files import Samples
from connector.authoring.drafting.shape import SampleCount
from connector.businessobjects.definition import Definitions
from connector.businessobjects.dump import masked_values
from connector.businessobjects.instance import BusinessObject, check, finish
from connector.declare.masking import mask
from connector.errors import MalformedData
from connector.formats.datahandler import DataHandler, Hint, Option, SplittingHandler, resolve_options
from connector.text.json_text import to_json_text

MAX_OBJECTS: Final = 20
"""The objects of the first sample that are shown."""
_MAX_LINES: Final = 60
_MAX_LINE: Final = 400


class SampleReading(NamedTuple):
    """What a draft makes of its samples.

    Args:
        objects: documents of the first objects in the first sample, without secrets.
        more: further objects in that sample.
        mistakes: why samples cannot be read, each with the name of its file.
        handler: the MIME type of the data handler, with the options that differ from the defaults.
    """

    objects: list[dict[str, Any]]
    more: int
    mistakes: list[str]
    handler: str

    def lines(self) -> list[str]:
        """Returns the objects as ``connector convert`` prints them, shortened."""
        is_list = len(self.objects) + self.more > 1
        texts = [to_json_text(one, indent=None if is_list else 2) for one in self.objects]
        lines = [line for text in texts for line in text.split("\n")]
        cut = [line if len(line) <= _MAX_LINE else f"{line[:_MAX_LINE]}..." for line in lines[:_MAX_LINES]]
        rest = len(lines) - len(cut) + (self.more if is_list else 0)
        return [*cut, f"... and {rest} more lines"] if rest else cut


def read_samples(draft: Draft, samples: Samples, definitions: Definitions) -> SampleReading:
    """Reads the samples with the data handler and the options that the draft names.

    Args:
        definitions: those of the draft among them.
    """
    assert draft.handler is not None  # the draft is of samples
    given = {**draft.options, **({"charset": samples.charset} if samples.charset else {})}
    declared = cast(Sequence[Option], draft.handler.options)
    handler = draft.handler(resolve_options(declared, given, "the draft"), definitions)
    shown: list[dict[str, Any]] = []
    more, mistakes = 0, []
    count = SampleCount()
    for body in samples.contents(count):
        try:
            for bo in _objects(handler, body, draft.top.name):
                if count.number == 0 and len(shown) < MAX_OBJECTS:
                    shown.append({"BusinessObject": bo.type, "Verb": bo.verb, **mask(masked_values(bo))})
                elif count.number == 0:
                    more += 1
        except MalformedData as error:
            mistakes.append(f"{samples.current.name} cannot be read with this draft: {error}")
    options = ", ".join(f"{name}: {_written(value)}" for name, value in given.items())
    mime_type = handler.mime_types[0]
    return SampleReading(shown, more, mistakes, f"{mime_type} with {options}" if options else mime_type)


def _written(value: bool | str) -> str:
    """Returns the value of an option as a configuration has it."""
    return value if isinstance(value, str) and re.fullmatch(r"[\w-]+", value) else to_json_text(value)


def _objects(handler: DataHandler, body: bytes, name: str) -> Iterator[BusinessObject]:
    """Iterates over the complete objects of a body."""
    found: Iterable[BusinessObject]
    if getattr(handler, "splits", False):
        found = cast(SplittingHandler, handler).to_business_objects(body, Hint(name))
    else:
        found = [handler.to_business_object(body, Hint(name))]
    for bo in found:
        finish(bo, default_verb=VERBS[0])
        check(bo)
        yield bo
