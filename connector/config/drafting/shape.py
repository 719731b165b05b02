"""The shape of a sample: what was found under each name, over all occurrences of the name."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, field

from connector.config.drafting.draft import Draft, DraftObject, Member

TypeOf = Callable[[Collection[str]], tuple[str, str] | None]
"""Returns the attribute type for kinds of values, and a comment, or None if no type fits."""


@dataclass(slots=True)
class Shape:
    """What stands under one name.

    Attributes:
        kinds: the kinds of single values.
        members: the parts of the objects.
        is_object: an object was found.
        is_list: a list, or an element that is repeated, was found.
        is_single: a value or object was found that is not in a list.
        misfit: why no attribute can hold this. Empty = nothing found so far.
        object_name: the name that the sample gives to the object. Empty = none. Objects of one name have the
            same ``members``.
    """

    kinds: set[str] = field(default_factory=set)
    members: dict[Member, Shape] = field(default_factory=dict)
    is_object: bool = False
    is_list: bool = False
    is_single: bool = False
    misfit: str = ""
    object_name: str = ""

    def member(self, member: Member) -> Shape:
        """Returns the shape of a part, which is new at its first occurrence."""
        return self.members.setdefault(member, Shape())

    @property
    def reason(self) -> str:
        """Why no attribute can hold this. Empty = an attribute can."""
        if self.misfit:
            return self.misfit
        if self.is_object and self.kinds:
            return f"an object in one place, {next(iter(sorted(self.kinds)))} in another"
        if self.is_list and self.kinds:
            return "a list of single values; only a list of objects can be an attribute"
        return ""


def draft_shape(draft: Draft, holder: DraftObject, shape: Shape, type_of: TypeOf) -> None:
    """Adds the parts of an object to a definition, and the definitions of children to the draft."""
    waiting = [(holder, shape)]
    named = {shape.object_name: holder}
    for owner, described in waiting:  # grows: first all parts of an object, then those of its children
        for member, part in described.members.items():
            if part.reason:
                draft.leave_out(owner, member.name, part.reason)
            elif not part.is_object and not part.is_list:
                _add_value(draft, owner, member, part, type_of)
            elif child := draft.add(owner, member, "", comment="" if part.members else "empty in the sample"):
                made = named.get(part.object_name) if part.object_name else None
                if made is None:
                    made = named[part.object_name] = draft.child(owner, child.name, part.object_name)
                    waiting.append((made, part))
                child.type, child.many = made.name, part.is_list


def _add_value(draft: Draft, owner: DraftObject, member: Member, part: Shape, type_of: TypeOf) -> None:
    if not part.kinds:
        draft.add(owner, member, "String", comment="without a value in the sample")
        return
    found = type_of(part.kinds)
    if found is None:
        draft.leave_out(owner, member.name, f"no type fits {' and '.join(sorted(part.kinds))}")
        return
    type_name, comment = found
    draft.add(owner, member, type_name, comment=comment)
