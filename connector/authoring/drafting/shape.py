"""The shape of a sample: what was found under each name, over all occurrences of the name."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from connector.authoring.drafting.draft import ATTRIBUTE_TAG, BodyPart, Draft, DraftObject
from connector.authoring.drafting.kinds import Guess, Values

TypeOf = Callable[[Values], Guess | None]
"""Returns the attribute type for values, or None if no type fits."""

ORDER: Final = "the order among each other and the elements between; they are written name by name"
"""The reason why the order of elements is left out."""

BESIDE_NIL: Final = 'XML attributes beside xsi:nil="true"'
"""What no object can keep."""

_SHOWN: Final = 3


@dataclass(slots=True)
class SampleCount:
    """Which sample is read. The shapes of one draft share it."""

    number: int = 0


@dataclass(slots=True)
class SampleShape:
    """What stands under one name, in all samples.

    Attributes:
        values: the single values.
        members: the parts of the objects.
        is_object: an object was found.
        is_list: a list, or an element that is repeated, was found.
        is_single: a value or object was found that is not in a list.
        misfit: why no attribute can hold this. Empty = nothing found so far.
        is_markup: an XML element with text beside its elements.
        is_nil: an XML element without a value was found.
        unordered: the parts that stood in several places, with others between them.
        object_name: the name that the sample gives to the object. Empty = none. Objects of one name have the
            same ``members``.
    """

    values: Values = field(default_factory=Values)
    members: dict[BodyPart, SampleShape] = field(default_factory=dict)
    is_object: bool = False
    is_list: bool = False
    is_single: bool = False
    misfit: str = ""
    is_markup: bool = False
    is_nil: bool = False
    unordered: list[str] = field(default_factory=list)
    object_name: str = ""
    count: SampleCount = field(default_factory=SampleCount)

    def member(self, member: BodyPart) -> SampleShape:
        """Returns the shape of a part, which is new at its first occurrence."""
        found = self.members.get(member)
        if found is None:
            found = self.members[member] = SampleShape(count=self.count)
        return found

    def add(self, kind: str, text: str = "") -> None:
        """Adds a single value of the sample that is read."""
        self.values.add(kind, text, self.count.number)

    @property
    def kinds(self) -> set[str]:
        """The kinds of the single values."""
        return self.values.kinds

    @property
    def reason(self) -> str:
        """Why no attribute can hold this. Empty = an attribute can."""
        if self.misfit:
            return self.misfit
        if self.is_object and self.kinds:
            return f"an object in one place, {next(iter(sorted(self.kinds)))} in another"
        return ""


def draft_shape(draft: Draft, holder: DraftObject, shape: SampleShape, type_of: TypeOf) -> None:
    """Adds the parts of an object to a definition, and the definitions of children to the draft."""
    waiting = [(holder, shape)]
    named = {shape.object_name: holder}
    for owner, described in waiting:  # grows: first all parts of an object, then those of its children
        if described.unordered:
            draft.leave_out(owner, ", ".join(described.unordered[:_SHOWN]), ORDER)
        for member, part in described.members.items():
            if part.reason:
                draft.leave_out(owner, member.name, part.reason)
            elif not part.is_object and (part.kinds or part.is_single or not part.is_list):
                _add_value(draft, owner, member, part, type_of)
            elif child := draft.add(owner, member, "", comment="" if part.members else "empty in the sample"):
                made = named.get(part.object_name) if part.object_name else None
                if made is None:
                    made = named[part.object_name] = draft.child(owner, child.name, part.object_name)
                    waiting.append((made, part))
                child.type, child.many = made.name, part.is_list
                if part.is_nil and not part.is_list:
                    child.add_tag("nil=unset")
                if part.is_nil and any(one.tag == ATTRIBUTE_TAG for one in part.members):
                    draft.leave_out(owner, member.name, BESIDE_NIL)


def _add_value(
    draft: Draft, owner: DraftObject, member: BodyPart, part: SampleShape, type_of: TypeOf
) -> None:
    comment = "an element as XML" if part.is_markup else "without a value in the sample"
    guess = Guess("String")
    if part.kinds:
        found = type_of(part.values)
        if found is None:
            draft.leave_out(owner, member.name, f"no type fits {' and '.join(sorted(part.kinds))}")
            return
        comment, guess = "", found
    made = draft.add(owner, member, guess.type, many=part.is_list, comment=comment)
    if made is not None and guess.told:
        draft.tell(owner, made, guess.told)
    if made is not None and part.is_markup:
        made.add_tag("type=xml")
    elif made is not None and part.is_nil:
        made.add_tag("nil=blank" if part.is_list else "nil=unset")
