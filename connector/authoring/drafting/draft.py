"""The draft of a business object and its children, with what a person has to look at."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from connector.authoring.metaobject_text import DocumentText, Entries
from connector.businessobjects.definition import SIMPLE_TYPES
from connector.config.metaobject_model import is_name
from connector.formats.datahandler import DataHandler, SplittingHandler
from connector.formats.xml_plan import XSI
from connector.formats.xml_schema_documents import XML_NAMESPACE
from connector.text.names import one_line, shown

VERBS: Final = ("Create", "Update", "Delete", "Retrieve")
ELEMENT_TAG: Final = "elem_name"
"""The tag of members that are XML elements."""
ATTRIBUTE_TAG: Final = "attr_name"
"""The tag of members that are XML attributes."""
_MAX_NAME: Final = 80
_TAGGED: Final = re.compile(r"[^\s;](?:[^;]*[^\s;])?")
_ID: Final = re.compile(r".*(?:Id|ID|[_-]id|[_-]ID)")


class BodyPart(NamedTuple):
    """A named part of a body.

    Args:
        tag: the tag of the application-specific information that gives the name to a data handler, where the
            attribute has to have another name. Empty = the part has no name in the body.
        info: tags that the attribute has in any case.
        namespace: the namespace of an element or XML attribute. None = the part has none, as in JSON.
    """

    name: str
    tag: str
    info: str = ""
    namespace: str | None = None


def key(name: str) -> BodyPart:
    """Returns a member of a JSON object, or a column of a table."""
    return BodyPart(name, "name")


def element(name: str, namespace: str = "") -> BodyPart:
    """Returns an XML element."""
    return BodyPart(name, ELEMENT_TAG, namespace=namespace)


def attribute(name: str, namespace: str = "") -> BodyPart:
    """Returns an XML attribute."""
    return BodyPart(name, ATTRIBUTE_TAG, "type=attribute", namespace)


NO_MEMBER: Final = BodyPart("", "")
TEXT: Final = BodyPart("Value", "", "type=pcdata;notag")
"""The text of an element that has XML attributes."""

XSI_TYPE: Final = BodyPart("XsiType", "", "type=xsitype")
"""The type that an element has in the place of the type of its declaration."""

SCHEMA_LOCATION: Final = BodyPart("schemaLocation", "", "type=xsischemalocation")
NO_NAMESPACE_LOCATION: Final = BodyPart("noNamespaceSchemaLocation", "", "type=xsinoNSlocation")

_NO_KEYS: Final = (XSI_TYPE, SCHEMA_LOCATION, NO_NAMESPACE_LOCATION)
_RESERVED: Final = ("", XML_NAMESPACE, XSI)


@dataclass(slots=True)
class DraftAttribute:
    """An attribute of a draft, as :class:`connector.businessobjects.definition.Attribute` has them.

    Attributes:
        comment: what a person should know of the attribute.
        facets: further entries: ``values``, ``minimum``, ``maximum``, ``pattern`` and ``min_length``.
        allows_blank: whether a schema allows an empty text.
        may_be_blank: whether the attribute may be blank in any case.
    """

    name: str
    type: str
    many: bool = False
    required: bool = False
    max_length: int = 0
    app_specific_info: str = ""
    comment: str = ""
    is_key: bool = False
    member: BodyPart = NO_MEMBER
    digits: int = 0
    scale: int | None = None
    allows_blank: bool = False
    may_be_blank: bool = False
    facets: dict[str, str] = field(default_factory=dict)

    def add_tag(self, tag: str) -> None:
        """Adds a tag to the application-specific information."""
        self.app_specific_info = ";".join(filter(None, (self.app_specific_info, tag)))

    def entries(self) -> Entries:
        found: Entries = {"type": self.type}
        if self.is_key:
            found["key"] = "true"
        if self.required:
            found["required"] = "true"
        can_be_blank = self.required or (self.is_key and not _ID.fullmatch(self.name))
        if self.may_be_blank or (self.allows_blank and can_be_blank):
            found["blank"] = "true"
        found.update(self.facets)
        if self.max_length:
            found["max_length"] = str(self.max_length)
        if self.digits:
            found["digits"] = str(self.digits)
        if self.scale is not None:
            found["scale"] = str(self.scale)
        if self.many:
            found["cardinality"] = "n"
        if self.app_specific_info:
            found["app_specific_info"] = self.app_specific_info
        return found


@dataclass(slots=True)
class DraftObject:
    """A business object of a draft.

    Attributes:
        of: the names that its key may begin with, such as ``Line`` of ``Order_Line``.
        attributes: by name, in order.
        left_out: comments for parts that no attribute can hold.
        members: from the parts of a body to their attributes.
        tags: the application-specific information.
        namespace: the namespace of the element. None = as most of the elements within.
    """

    name: str
    of: tuple[str, ...] = ()
    attributes: dict[str, DraftAttribute] = field(default_factory=dict)
    left_out: list[str] = field(default_factory=list)
    members: dict[BodyPart, DraftAttribute] = field(default_factory=dict)
    tags: list[str] = field(default_factory=list)
    namespace: str | None = None


class Draft:
    """A business object and its children.

    Args:
        taken: the names of other definitions, which no child can have.

    Attributes:
        objects: the business object, then its children.
        left_out: the parts of the sample that no attribute can hold, with the reasons.
        checks: what a person has to look at.
        handler: the data handler that reads the samples. None = the draft is of a schema.
        options: of that data handler, where they differ from the defaults.
    """

    def __init__(self, name: str, taken: Collection[str] = ()) -> None:
        self._taken = {*taken, *SIMPLE_TYPES, name}
        self.left_out: list[str] = []
        self.checks: list[str] = []
        self.handler: type[SplittingHandler | DataHandler] | None = None
        self.options: dict[str, Any] = {}
        self.objects = [DraftObject(name, (name,))]
        self.is_of_sample = False
        """Whether samples say what there is. Then nothing but its type can make a value malformed."""
        self.has_sample_verb = False
        self._verbs = dict.fromkeys(VERBS)
        self._prefixes: Mapping[str, str] = {}
        self._has_root_prefix = False

    @property
    def top(self) -> DraftObject:
        return self.objects[0]

    def add_verb(self, verb: str) -> None:
        """Adds the verb that a sample names. Empty = the sample names none."""
        self.has_sample_verb |= bool(verb)
        if is_name(verb):
            self._verbs[verb] = None

    def name_in_sample(self, name: str) -> None:
        """Notes the object that a sample names."""
        if name and name != self.top.name:
            self.check_once(f"the sample says {shown(name)}: a rule has to name {self.top.name}")

    def check_once(self, text: str) -> None:
        """Notes what a person has to look at, once."""
        self.checks += [] if text in self.checks else [text]

    def need(self, option: str, value: bool | str, reason: str) -> None:
        """Notes an option that the data handler needs, once."""
        self.options[option] = value
        written = str(value).lower() if isinstance(value, bool) else value
        self.check_once(f"{reason}: the data handler needs {option}: {written}")

    def root_element(self, name: str, namespace: str) -> None:
        """Notes the root element of XML documents."""
        self.top.namespace = namespace
        if name != self.top.name:
            self.top.tags.append(f"elem_name={name}")
            self.checks.append(f"the tag elem_name says that the root element {name} is a {self.top.name}")

    def add_schema_location(self, namespace: str) -> None:
        """Adds the attribute that says where the schema of a document is.

        Args:
            namespace: the target namespace of the schema. Empty = none.
        """
        if namespace:
            self.add(self.top, SCHEMA_LOCATION, "String")
        else:
            self.add(self.top, NO_NAMESPACE_LOCATION, "String")

    def name_prefixes(self, prefixes: Mapping[str, str], *, has_root_prefix: bool = False) -> None:
        """Notes the prefixes of namespaces.

        Args:
            has_root_prefix: the root element has a prefix, too.
        """
        self._prefixes, self._has_root_prefix = prefixes, has_root_prefix

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
        self,
        holder: DraftObject,
        member: BodyPart,
        type_name: str,
        *,
        many: bool = False,
        comment: str = "",
    ) -> DraftAttribute | None:
        """Adds an attribute. Returns None if no attribute can hold a member of this name."""
        name = _free(clean(member.name), holder.attributes)
        made = DraftAttribute(
            name, type_name, many, app_specific_info=member.info, comment=comment, member=member
        )
        if name != member.name and member.tag:
            if not _TAGGED.fullmatch(member.name) or not member.name.isprintable():
                self.leave_out(holder, member.name, "no tag can carry this name")
                return None
            made.add_tag(f"{member.tag}={member.name}")
            if any(one.member.name == member.name for one in holder.attributes.values()):
                made.add_tag(f"name={name}")  # two members of a JSON object cannot have one name
        holder.attributes[name] = made
        holder.members[member] = made
        return made

    def tell(self, holder: DraftObject, made: DraftAttribute, guess: str) -> None:
        """Notes what was guessed of an attribute."""
        place = "" if holder is self.top else f"{holder.name}."
        self.checks.append(f"{place}{made.name}: {guess}")

    def leave_out(self, holder: DraftObject, member: str, reason: str) -> None:
        """Notes a part that no attribute can hold."""
        part = member if member.isprintable() and len(member) <= _MAX_NAME else shown(member)
        holder.left_out.append(one_line(f"{part}: {reason}"))
        self.left_out.append(one_line(f"{holder.name}.{part}: {reason}"))

    def finish(self) -> None:
        """Guesses the keys, and notes what was guessed. Children that require each other are not required."""
        self._break_circles()
        self._name_namespaces()
        for made in self.objects:
            guess = _key_of(made)
            if guess is None:
                self.checks.append(f"{made.name}: it has no attribute that can be its key")
            else:
                guess.is_key = True
                guess.may_be_blank = self.is_of_sample
                self.checks.append(f"{made.name}: is {guess.name} its key?")

    def _name_namespaces(self) -> None:
        """Adds the tags ``ns``: to each object for most of its elements, and to the other attributes."""
        for made in self.objects:
            found = Counter(
                one.member.namespace for one in made.attributes.values() if one.member.tag == ELEMENT_TAG
            )
            usual = made.namespace
            if usual is None:
                usual = max(found, key=found.__getitem__, default=None) or ""
            if usual and self._can_tag(usual):
                made.tags.insert(0, f"ns={usual}")
            for one in made.attributes.values():
                namespace = one.member.namespace
                if namespace is None or namespace == (usual if one.member.tag == ELEMENT_TAG else ""):
                    continue
                if self._can_tag(namespace):
                    one.add_tag(f"ns={namespace}")
        self._tag_prefixes()

    def _tag_prefixes(self) -> None:
        """Adds the tags ``xmlns:PREFIX`` of the namespaces to the business object."""
        members = [one.member for made in self.objects for one in made.attributes.values()]
        used = dict.fromkeys([self.top.namespace, *(one.namespace for one in members)])
        if not self._has_root_prefix and not any(
            one.namespace == "" and one.tag == ELEMENT_TAG for one in members
        ):
            used.pop(self.top.namespace)  # the default namespace
        for namespace in used:
            prefix = self._prefixes.get(namespace or "")
            if namespace and prefix and namespace not in _RESERVED and self._can_tag(namespace):
                self.top.tags.append(f"xmlns:{prefix}={namespace}")

    def _can_tag(self, namespace: str) -> bool:
        if not namespace or (_TAGGED.fullmatch(namespace) and namespace.isprintable()):
            return True
        text = one_line(f"the namespace {shown(namespace)}: no tag can carry this name")
        self.left_out += [] if text in self.left_out else [text]
        return False

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
        if made.tags:
            document.entries["app_specific_info"] = ";".join(made.tags)
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
    simple = [one for one in made.attributes.values() if one.type in SIMPLE_TYPES and not one.many]
    simple = [one for one in simple if one.member not in _NO_KEYS]
    own = {_fold(name) + "id" for name in made.of}
    for likely in (
        lambda one: _fold(one.name) in own,
        lambda one: _fold(one.name) == "id",
        lambda one: _ID.fullmatch(one.name) is not None,
    ):
        found = next(filter(likely, simple), None)
        if found is not None:
            return found
    return next(iter(simple), None)


def _fold(name: str) -> str:
    return re.sub(r"[_-]", "", name).lower()
