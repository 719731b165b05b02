"""``connector new namehandler``: writes a name handler that works, with its test."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from connector.authoring.verbs.plug_in_files import Words, test_steps, write_plug_in
from connector.cli.common import answer, answer_json

_HANDLER: Final = '''\
"""Finds the business object of a body of {name}: the word before the first colon."""

from connector.errors import MalformedData


def name_of(body):
    """Returns the name of the business object. None = the body names none."""
    try:
        text = body if isinstance(body, str) else body.decode("utf-8")
    except UnicodeDecodeError as error:
        raise MalformedData(f"the body is not UTF-8: byte {{error.start}}") from None
    name, separator, _ = text.partition(":")
    return name.strip() if separator and name.strip() else None
'''

_TEST: Final = '''\
"""The name handler of {name} names an object, or none, or refuses the body."""

import sys
from pathlib import Path

import pytest

from connector.businessobjects.name_handlers import make_name_handler
from connector.errors import MalformedData, UnknownBusinessObject

sys.path.append(str(Path(__file__).parent))


@pytest.fixture
def name_of():
    return make_name_handler("{module}:name_of", "", Path(__file__).parent)


@pytest.mark.parametrize("body", ["Order: 1", b"Order: 1", b"Order:"])
def test_a_body_names_its_object(name_of, body):
    assert name_of(body) == "Order"


@pytest.mark.parametrize("body", ["", "Order", b": 1"])
def test_a_body_without_a_name_is_of_no_object(name_of, body):
    with pytest.raises(UnknownBusinessObject):
        name_of(body)


def test_a_body_that_cannot_be_read_is_malformed(name_of):
    with pytest.raises(MalformedData):
        name_of(b"\\xff")
'''


def new_namehandler(name: str, config: str, into: Path | None, *, force: bool, as_json: bool) -> None:
    """Writes the name handler and its test. Prints the next steps.

    Args:
        config: path of ``adapter.yaml``. Need not exist.
        into: the directory. None = that of ``config``, where a name handler is looked for.

    Raises:
        BadArgument: the name cannot be used, or a file exists, or cannot be written.
    """
    words = Words(name)
    module = f"{words.module}_names"
    facts = {"name": name, "module": module}
    directory = into or Path(config).parent
    texts = {f"{module}.py": _HANDLER.format(**facts), f"test_{module}.py": _TEST.format(**facts)}
    handler, test = write_plug_in(directory, texts, force=force)
    if as_json:
        answer_json({"files": [str(handler), str(test)], "reference": f"{module}:name_of"})
        return
    answer(f"wrote {handler} and {test}")
    answer("Next:")
    for step in test_steps(test):
        answer(f"  {step}")
    answer(f"  use it, in handlers: of a datahandler_metaobject: NameHandlerClass: {module}:name_of")
