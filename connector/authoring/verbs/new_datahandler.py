"""``connector new datahandler``: writes a data handler that works, with its test."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from connector.authoring.metaobject_files import surroundings
from connector.authoring.verbs.plug_in_files import Words, test_steps, write_plug_in
from connector.cli.common import answer, answer_json

_HANDLER: Final = '''\
"""A data handler for {name}: a line for each attribute, its name and its value as a JSON string."""

import json

from connector.formats.datahandler import Option, charset
from connector.text.encoding import decode, encode
from connector.businessobjects.instance import BusinessObject
from connector.businessobjects.types import text_of
from connector.errors import MalformedData, UnknownBusinessObject


class {class_name}:
    """Lines of names and values."""

    mime_types = ("{mime_type}",)
    options = (
        Option("separator", str, ":", "Stands between name and value."),
        Option("charset", str, "", "The character set. Empty: by the byte order mark, else UTF-8.", charset),
    )

    def __init__(self, options, definitions):
        self._separator = options["separator"]
        self._charset = options["charset"]
        self._definitions = definitions
        if not self._separator:
            raise ValueError("separator: found an empty text, expected one that no name contains")

    def to_business_object(self, body, hint):
        if hint is None:  # the format does not say which object it is
            raise UnknownBusinessObject("no rule says which business object this is")
        bo = BusinessObject(self._definitions, hint.object, hint.verb)
        names = _names(bo)
        for number, line in enumerate(decode(body, self._charset).split("\\n"), 1):
            if not line.strip():
                continue
            name, separator, text = line.partition(self._separator)
            name = name.strip()
            try:
                value = json.loads(text)
            except (ValueError, RecursionError):
                value = None
            if not separator or not isinstance(value, str):
                expected = f"a name, {{self._separator}} and a text in quotes"
                raise MalformedData(f"line {{number}}: expected {{expected}}")
            if name not in names:
                raise MalformedData(f"line {{number}}: {{bo.type}} has no attribute {{name[:80]!r}}")
            if name in bo:
                raise MalformedData(f"line {{number}}: {{name}} stands twice")
            try:
                bo.set_text(name, value)
            except MalformedData as error:
                raise MalformedData(f"line {{number}}: {{error}}") from None
        if not bo.as_dict():
            raise MalformedData("the body is empty, expected a line for each attribute")
        return bo

    def to_body(self, bo):
        lines = []
        for name in _names(bo):
            value = bo.value(name)  # a blank is ""
            if value is not None:
                lines.append(f"{{name}}{{self._separator}} {{json.dumps(text_of(value))}}\\n")
        if not lines:
            raise MalformedData(f"{{bo.type}}: no attribute is set, and a body needs one")
        return encode("".join(lines), self._charset)


def _names(bo):
    """Returns the attributes that a body has: those with a single value of a simple type."""
    definition = bo.definition
    names = []
    for name, attribute in definition.attributes.items():
        is_held = not (attribute.is_child or attribute.is_many)
        if not is_held and bo[name] and name not in definition.metaobject_attributes:
            raise MalformedData(f"{{bo.type}}: {{name}} is a child or a list, which a line cannot hold")
        if is_held:
            names.append(name)
    return names
'''

_TEST: Final = '''\
"""The data handler of {name} passes the suite of data handlers."""

import sys
from pathlib import Path

import pytest

from connector.formats.datahandler import Hint
from connector.businessobjects.instance import BusinessObject
from connector.testing.datahandlers import DataHandlerSuite, Sample, sample_definitions

sys.path.append(str(Path(__file__).parent))
from {module} import {class_name}  # noqa: E402


class Test{class_name}(DataHandlerSuite):
    @pytest.fixture
    def handler(self):
        return {class_name}({{"separator": ":", "charset": ""}}, sample_definitions())

    @pytest.fixture
    def objects(self):
        return [
            BusinessObject(sample_definitions(), "Note", "Create", {{"Text": 'two\\nlines, "quoted"'}}),
            BusinessObject(sample_definitions(), "Customer", "Update", {{"CustomerId": "C1", "Rating": 7}}),
        ]

    @pytest.fixture
    def samples(self):
        body = b'CustomerId: "C1"\\nRating: "7"\\n'
        return [Sample(body, Hint("Customer", "Create"), {{"CustomerId": "C1", "Rating": 7}})]

    @pytest.fixture
    def malformed(self):
        return [b"", b"CustomerId", b'Rating: "x"', b"CustomerId: 7", b'Nothing: "7"', b"\\xff"]
'''


def new_datahandler(name: str, config: str, into: Path | None, *, force: bool, as_json: bool) -> None:
    """Writes the data handler and its test. Prints the next steps.

    Args:
        config: path of ``adapter.yaml``. Need not exist.
        into: the directory. None = ``datahandlers:`` of the configuration, else ``datahandlers`` beside it.

    Raises:
        BadArgument: the name cannot be used, or a file exists, or cannot be written.
    """
    words = Words(name)
    configured = surroundings(config).datahandlers  # need not exist yet
    home = Path(config).parent
    directory = into or (Path(os.path.relpath(configured)) if configured else home / "datahandlers")
    module = f"{words.module}_handler"
    class_name = f"{words.class_name}Handler"
    mime_type = f"text/x-{words.module.replace('_', '-')}"
    facts = {"name": name, "module": module, "class_name": class_name, "mime_type": mime_type}
    texts = {f"{module}.py": _HANDLER.format(**facts), f"test_{module}.py": _TEST.format(**facts)}
    handler, test = write_plug_in(directory, texts, force=force)
    if as_json:
        answer_json({"files": [str(handler), str(test)], "mime_type": facts["mime_type"]})
        return
    answer(f"wrote {handler} and {test}")
    answer("Next:")
    for step in test_steps(test):
        answer(f"  {step}")
    if configured is None or configured.resolve() != directory.resolve():
        done = "add to" if configured is None else "change in"
        answer(f"  {done} adapter.yaml: datahandlers: ./{os.path.relpath(directory, home)}")
    answer("  connector datahandlers")
    answer(f"  use it: DataHandlerMimeType: {facts['mime_type']}")
