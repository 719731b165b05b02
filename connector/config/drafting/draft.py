"""The draft of a business object and its children, with what a person has to look at."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from connector.businessobjects.definition import SIMPLE_TYPES
from connector.config.metaobject_model import is_name
from connector.config.metaobject_text import DocumentText, Entries
from connector.config.problems import one_line, shown

VERBS: Final = ("Create", "Update", "Delete", "Retrieve")
_MAX_NAME: Final = 80
_TAGGED: Final = re.compile(r"[^\s;](?:[^;]*[^\s;])?")
_ID: Final = re.compile(r".*(?:Id|ID|[_-]id|[_-]ID)")


class Member(NamedTuple):
    """A named part of a body.

    Args:
        name: the name in the body.
        tag: the tag of the application-specific information that gives the name to a data handler, where the
            attribute has to have another name.
        info: tags that the attribute has in any case.
    """

    name: str
    tag: str
    info: str = ""


def key(name: str) -> Member:
    """Returns a member of a JSON object, or a column of a table."""
    return Member(name, "name")


def element(name: str) -> Member:
    """Returns an XML element."""
    return Member(name, "elem_name")


def attribute(name: str) -> Member:
    """Returns an XML attribute."""
    return Member(name, "attr_name", "type=attribute")


@dataclass(slots=True)
class DraftAttribute:
    """An attribute of a draft, as :class:`connector.businessobjects.definition.Attribute` has them."""

    name: str
    type: str
    many: bool = False
    required: bool = False
    max_length: int = 0
    app_specific_info: str = ""
    comment: str = ""
    is_key: bool = False

    def entries(self) -> Entries:
        found: Entries = {"type": self.type}
        if self.is_key:
            found["key"] = "true"
        if self.required:
            found["required"] = "true"
        if self.max_length:
            found["max_length"] = str(self.max_length)
        if self.many:
            found["cardinality"] = "n"
        if self.app_specific_info:
            found["app_specific_info"] = self.app_specific_info
        return found


@dataclass(slots=True)
class DraftObject:
    """A business object of a draft.

    Attributes:
        name: the name.
        of: the names that its key may begin with, such as ``Line`` of ``Order_Line``.
        attributes: by name, in order.
        left_out: comments for parts that no attribute can hold.
        members: from the parts of a body to their attributes.
    """

    name: str
    of: tuple[str, ...] = ()
    attributes: dict[str, DraftAttribute] = field(default_factory=dict)
    left_out: list[str] = field(default_factory=list)
    members: dict[Member, DraftAttribute] = field(default_factory=dict)


class Draft:
    """A business object and its children.

    Args:
        name: of the business object.
        taken: the names of other definitions, which no child can have.

    Attributes:
        objects: the business object, then its children.
        left_out: the parts of the sample that no attribute can hold, with the reasons.
        checks: what a person has to look at.
    """

    def __init__(self, name: str, taken: Collection[str] = ()) -> None:
        self._taken = {*taken, *SIMPLE_TYPES, name}
        self.left_out: list[str] = []
        self.checks: list[str] = []
        self.objects = [DraftObject(name, (name,))]
        self._verbs = dict.fromkeys(VERBS)

    @property
    def top(self) -> DraftObject:
        return self.objects[0]

    def add_verb(self, verb: str) -> None:
        """Adds the verb that a sample names."""
        if is_name(verb):
            self._verbs[verb] = None

    def name_in_sample(self, name: str) -> None:
        """Notes the object that a sample names."""
        text = f"the sample says {shown(name)}: a rule has to name {self.top.name}"
        if name and name != self.top.name and text not in self.checks:
            self.checks.append(text)

    def child(self, holder: DraftObject, name: str, in_sample: str = "") -> DraftObject:
        """Adds a definition for a child of an object.

        Args:
            holder: the object. The name of the child begins with the name of the object.
            name: the attribute, or the type in a schema.
            in_sample: the name that bodies give to the child. Empty = none. The definition has this name, if
                no other definition has it.
        """
        stem = clean(name)
        free = in_sample
        if not is_name(in_sample) or in_sample in self._taken:
            free = _free(f"{holder.name}_{stem}", self._taken)
            if in_sample:
                self.checks.append(f"the sample says {shown(in_sample)}, expected {free}: change one of them")
        self._taken.add(free)
        made = DraftObject(free, (free, stem))
        self.objects.append(made)
        return made

    def add(
        self, holder: DraftObject, member: Member, type_name: str, *, comment: str = ""
    ) -> DraftAttribute | None:
        """Adds an attribute. Returns None if no attribute can hold a member of this name."""
        name = _free(clean(member.name), holder.attributes)
        info = member.info
        if name != member.name:
            if not _TAGGED.fullmatch(member.name) or not member.name.isprintable():
                self.leave_out(holder, member.name, "no tag can carry this name")
                return None
            info = ";".join(filter(None, (info, f"{member.tag}={member.name}")))
        made = DraftAttribute(name, type_name, app_specific_info=info, comment=comment)
        holder.attributes[name] = made
        holder.members[member] = made
        return made

    def leave_out(self, holder: DraftObject, member: str, reason: str) -> None:
        """Notes a part that no attribute can hold."""
        part = member if member.isprintable() and len(member) <= _MAX_NAME else shown(member)
        holder.left_out.append(one_line(f"{part}: {reason}"))
        self.left_out.append(one_line(f"{holder.name}.{part}: {reason}"))

    def finish(self) -> None:
        """Guesses the keys, and notes what was guessed. Children that require each other are not required."""
        self._break_circles()
        for made in self.objects:
            guess = _key_of(made)
            if guess is None:
                self.checks.append(f"{made.name}: it has no attribute that can be its key")
            else:
                guess.is_key = True
                self.checks.append(f"{made.name}: is {guess.name} its key?")

    def _break_circles(self) -> None:
        """Makes children optional that could never be complete, as ``connector check`` demands."""
        by_name = {made.name: made for made in self.objects}

        def required(name: str) -> Iterator[DraftAttribute]:
            return (one for one in by_name[name].attributes.values() if one.required and one.type in by_name)

        finished: set[str] = set()
        for start in by_name:
            path, waiting = {start: None}, [required(start)]
            while waiting:  # depth first without recursion: a schema may be a long chain
                child = next(waiting[-1], None)
                if child is None:
                    waiting.pop()
                    finished.add(path.popitem()[0])
                elif child.type in path:
                    child.required = False
                elif child.type not in finished:
                    path[child.type] = None
                    waiting.append(required(child.type))

    def documents(self) -> list[DocumentText]:
        """Returns the documents of the definitions."""
        return [self._document(made) for made in self.objects]

    def _document(self, made: DraftObject) -> DocumentText:
        document = DocumentText("business_object", made.name)
        if made is self.top:
            document.entries["version"] = "1.0.0"
            document.entries["verbs"] = {verb: {} for verb in self._verbs}
        if made.left_out:
            document.head = ["Left out:", *(f"  {text}" for text in made.left_out)]
        document.entries["attributes"] = {one.name: one.entries() for one in made.attributes.values()}
        for one in made.attributes.values():
            if one.comment:
                document.comments["attributes", one.name] = one.comment
        return document


def clean(name: str) -> str:
    """Returns the nearest name that an attribute can have."""
    if re.fullmatch(rf"[A-Za-z0-9_]{{1,{_MAX_NAME}}}", name):
        return name
    plain = unicodedata.normalize("NFKD", name[: 4 * _MAX_NAME])
    plain = "".join(character for character in plain if not unicodedata.combining(character))
    return re.sub(r"[^A-Za-z0-9_]+", "_", plain).strip("_")[:_MAX_NAME] or "Attribute"


def _free(name: str, taken: Collection[str]) -> str:
    """Returns a name that is not taken: the name, or the name with a number."""
    name, number = name[:_MAX_NAME], 1
    free = name
    while free in taken:
        number += 1
        ending = f"_{number}"
        free = name[: _MAX_NAME - len(ending)] + ending
    return free


def _key_of(made: DraftObject) -> DraftAttribute | None:
    """Returns the most likely key: OrderId of an Order, else Id, else any ...Id, else the first attribute."""
    simple = [one for one in made.attributes.values() if one.type in SIMPLE_TYPES]
    own = {_folded(name) + "id" for name in made.of}
    for likely in (
        lambda one: _folded(one.name) in own,
        lambda one: _folded(one.name) == "id",
        lambda one: _ID.fullmatch(one.name) is not None,
    ):
        found = next(filter(likely, simple), None)
        if found is not None:
            return found
    return next(iter(simple), None)


def _folded(name: str) -> str:
    return re.sub(r"[_-]", "", name).lower()
