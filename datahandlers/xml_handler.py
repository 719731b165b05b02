"""XML 1.0: a business object is an element, and each attribute is an element of the same name."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from lxml import etree

from connector.businessobjects.definition import Definitions
from connector.businessobjects.instance import BusinessObject
from connector.errors import MalformedData
from connector.formats.datahandler import Hint, Option, SplittingHandler, charset
from connector.formats.splitting import in_record, write_each
from connector.formats.xml_places import ElementError
from connector.formats.xml_plan import XmlPlans
from connector.formats.xml_reader import XmlReader, refuse_text_within
from connector.formats.xml_validation import DtdValidator, SchemaValidator
from connector.formats.xml_writer import XmlWriter
from connector.limits import stages
from connector.text.xml_parser import parse_xml

_ADVICE: Final = ", or set doctype: ignore, or Validation and DTDPath"


class XmlHandler(SplittingHandler):
    """XML elements.

    The root element names the type: ``Customer``, or with ``BOPrefix: MyApp`` the object
    ``MyApp_Customer``. Its attribute ``verb`` names the verb, unless a rule does. The root element has to
    be that of the object, by its name and by the namespace that the tag ``ns`` gives.
    Elements are attributes by name, in any order. An n-cardinality child is a repeated element. An
    empty element is blank, an element with ``xsi:nil="true"`` is not set. Elements are written in the order
    of the definition. Tags in the application-specific information say what else an attribute is in XML
    (:mod:`connector.formats.xml_plan`).

    Names are compared without their namespace, unless a tag gives one. XML attributes of the namespaces
    ``xml`` and ``xsi``, comments and processing instructions are passed over. The option gives the character
    set, else the byte order mark, else the XML declaration. A document type declaration is refused, unless
    the body is validated against a DTD or the option ``doctype`` says ``ignore``. So are all entities but the
    five of XML itself. These are errors: nesting deeper than 200, text between elements, elements or
    attributes that are not defined. A document needs some ten times its size in memory.
    """

    mime_types = ("text/xml", "application/xml")
    options = (
        Option(
            "BOPrefix", str, "", "Stands before the name of the root element, and `_`, in the object's name."
        ),
        Option("IgnoreUndefinedAttributes", bool, False, "Pass over elements that the definition lacks."),
        Option(
            "null",
            str,
            "ignore",
            "`value`: xsi:nil is null, and is written again. `ignore`: not set.",
            choices=("ignore", "value"),
        ),
        Option("DefaultEscapeBehavior", bool, True, "Escape & < > and quotes where no tag `escape` says so."),
        Option("Validation", bool, False, "Validate against `schema`, else against a DTD in DTDPath."),
        Option("schema", Path, "", "An XML Schema."),
        Option(
            "schema_directory",
            Path,
            ".",
            "Files that the schema includes or imports lie in this directory or below. Left out: the "
            "directory of adapter.yaml.",
        ),
        Option("DTDPath", Path, "", "The directory with DTDs."),
        Option(
            "doctype",
            str,
            "refuse",
            "`ignore`: a document type declaration without an internal subset is passed over.",
            choices=("refuse", "ignore"),
        ),
        Option("EntityResolver", str, "", "In settings of WBI Adapter for JMS. Without effect."),
        Option("Parser", str, "", "In settings of WBI Adapter for JMS. Without effect."),
        Option("split", bool, False, "Each element within the root element is an object of its own."),
        Option(
            "container", str, "Objects", "The root element around the objects that are written by `split`."
        ),
        Option("charset", str, "", "The character set. Empty: as the body says. UTF-8 on writing.", charset),
    )

    def __init__(self, options: Mapping[str, Any], definitions: Definitions) -> None:
        self._definitions = definitions
        self._charset: str = options["charset"]
        self._container: str = options["container"]
        self.splits: bool = options["split"]
        plans = XmlPlans(definitions, options["BOPrefix"], options["DefaultEscapeBehavior"])
        self._plans = plans
        keeps_null = options.get("null") == "value"
        ignores = options["IgnoreUndefinedAttributes"]
        self._reader = XmlReader(plans, ignore_undefined=ignores, keeps_null=keeps_null)
        self._writer = XmlWriter(plans, keeps_null=keeps_null)
        self._schema = self._dtds = None
        self._ignores_doctype = options["doctype"] == "ignore"
        self._at_schema = stages.Stage("schema", os.path.basename(options["schema"] or options["DTDPath"]))
        if options["Validation"]:
            if options["schema"]:
                self._schema = SchemaValidator(options["schema"], options["schema_directory"])
            elif options["DTDPath"]:
                self._dtds = DtdValidator(options["DTDPath"])
            else:
                raise ValueError("Validation needs schema or DTDPath")

    def to_business_object(self, body: bytes | str, hint: Hint | None) -> BusinessObject:
        root = self._parse(body, hint)
        try:
            return self._object(root, hint)
        except ElementError as error:
            raise error.placed(body, self._charset) from None

    def _parse(self, body: bytes | str, hint: Hint | None) -> etree._Element:
        may_have_doctype = self._ignores_doctype or self._dtds is not None
        root = parse_xml(body, self._charset, may_have_doctype=may_have_doctype, advice=_ADVICE)
        name = self._object_name(root, hint)
        if not self.splits and self._plans.has_specials(name):  # few objects have
            root = parse_xml(body, self._charset, keeps_specials=True, may_have_doctype=may_have_doctype)
        if self._schema is not None:
            with self._at_schema:
                self._schema.check(root)
        if self._dtds is not None:
            with self._at_schema:
                self._dtds.check(root)
        return root

    def _object_name(self, root: etree._Element, hint: Hint | None) -> str:
        return hint.object if hint is not None else self._plans.object_of(str(root.tag))

    def _object(self, root: etree._Element, hint: Hint | None) -> BusinessObject:
        name = self._object_name(root, hint)
        bo = self._reader.read(self._definitions.schema(name), root, is_named=not (hint and hint.is_of_body))
        if hint is not None and hint.verb:
            bo.verb = hint.verb
        return bo

    def to_body(self, bo: BusinessObject) -> bytes:
        return self._validate(self._writer.document(bo, self._charset))

    def _validate(self, body: bytes) -> bytes:
        if self._schema is not None:
            with self._at_schema:
                self._schema.check(parse_xml(body))
        return body

    # --- many objects -------------------------------------------------------------------------

    def to_business_objects(self, body: bytes | str, hint: Hint | None) -> Iterator[BusinessObject]:
        container = self._parse(body, hint)
        try:
            refuse_text_within(container)
        except ElementError as error:
            raise error.placed(body, self._charset) from None
        for number, element in enumerate(container, 1):
            try:
                yield self._object(element, hint)
            except ElementError as error:
                raise in_record(number, error.placed(body, self._charset)) from None
            except MalformedData as error:
                raise in_record(number, error) from None

    def to_joint_body(self, bos: Sequence[BusinessObject]) -> bytes:
        name = self._charset or "UTF-8"
        parts = write_each(bos, self._writer.element)
        container = self._container
        text = f"<?xml version='1.0' encoding='{name}'?>\n<{container}>{''.join(parts)}</{container}>"
        return self._validate(self._writer.encode(bos[0], text, self._charset))
