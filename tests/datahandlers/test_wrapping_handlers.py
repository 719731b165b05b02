"""Bodies that are one attribute (text, binary data), templates, and two handlers in one."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from connector.businessobjects.instance import BusinessObject
from connector.datahandlers.binary_handler import BinaryHandler
from connector.datahandlers.template_handler import TemplateHandler
from connector.datahandlers.text_handler import TextHandler
from connector.errors import ConfigurationError, MalformedData, UnknownBusinessObject
from connector.formats.catalogue import discover
from connector.formats.datahandler import DataHandler, Hint
from connector.formats.handlers import Handlers
from connector.testing.datahandlers import Sample
from tests.datahandlers.definitions import SAMPLES, Suite, define, known, make, refusal
from tests.tables import rows, texts

NOTE = Hint("Note", "Create")


def note(text: str) -> BusinessObject:
    return BusinessObject(SAMPLES, "Note", "Create", {"Text": text})


# --- text -------------------------------------------------------------------------------------


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_the_whole_body_is_the_attribute_as_it_stands(text: str) -> None:
    assert make(TextHandler).to_business_object(text.encode(), NOTE) == note(text)
    assert make(TextHandler).to_body(note(text)) == text.encode()


@rows("charset, text", [("ISO-8859-1", "Zoë"), ("utf-16", "Zoë"), ("cp1252", "Zoë"), ("Shift_JIS", "Zoe")])
def test_the_character_set_is_an_option(charset: str, text: str) -> None:
    handler = make(TextHandler, charset=charset)
    assert handler.to_business_object(text.encode(charset), NOTE) == note(text)
    assert handler.to_body(note(text)) == text.encode(charset)


def test_a_character_that_is_not_in_the_character_set_is_named() -> None:
    assert "the body is not utf-8: byte 2" in refusal(make(TextHandler).to_business_object, b"Zo\xeb!", NOTE)
    latin = make(TextHandler, charset="ISO-8859-1")
    assert "Text: the character '\\u20ac' does not exist in ISO-8859-1" in refusal(latin.to_body, note("5 €"))


@rows(
    "kind, attribute, object_name, reason",
    [
        (TextHandler, "Text", "Customer", "Customer has no attribute 'Text' to hold a plain text"),
        (TextHandler, "Meta", "Note", "Note has no attribute 'Meta' to hold a plain text"),
        (TextHandler, "Home", "Customer", "Home is a Address, expected an attribute of a simple type"),
        (TextHandler, "Rating", "Customer", "Customer: Rating: found the text 'text', expected an integer"),
        (BinaryHandler, "Data", "Note", "no attribute 'Data' to hold bytes"),
        (BinaryHandler, "Rating", "Customer", "Rating is a Integer, expected a LongText"),
    ],
)
def test_an_attribute_that_cannot_hold_the_body_is_named(
    kind: type[Any], attribute: str, object_name: str, reason: str
) -> None:
    handler = make(kind, attribute=attribute)
    assert reason in refusal(handler.to_business_object, b"text", Hint(object_name, "Create"))


# --- binary -----------------------------------------------------------------------------------


def test_bytes_may_be_hexadecimal_text() -> None:
    handler = make(BinaryHandler, attribute="Text", encoding="HEX")
    assert handler.to_business_object(b"\0\xff", NOTE)["Text"] == "00ff"
    assert handler.to_body(note("00FF")) == b"\0\xff"


@rows(
    "encoding, text, words",
    [
        ("base64", "AP*=", "Note: Text: character 3 is '\\*', expected base64 text"),
        *(("base64", text, "Note: Text is no base64 text") for text in ("AP8", "YWI", "YQ")),
        *(("base64", text, "Note: Text is no base64 text") for text in ("YR==", "YWJ=")),  # bits of no byte
        ("hex", "0g", "character 2 is 'g', expected hex text"),
        ("hex", "0", "Note: Text is no hex text"),
    ],
)
def test_a_text_that_is_no_such_text_is_told(encoding: str, text: str, words: str) -> None:
    with pytest.raises(MalformedData, match=words):
        make(BinaryHandler, attribute="Text", encoding=encoding).to_body(note(text))


# --- templates --------------------------------------------------------------------------------

CUSTOMER = {
    "CustomerId": "C1",
    "Name": "Zoë {{ 7 * 7 }} <b>",
    "Active": False,
    "Address": [{"City": "Oslo"}, {"City": "Rom"}],
}


def written(text: str, **options: Any) -> str:
    bo = BusinessObject(SAMPLES, "Customer", "Update", CUSTOMER)
    body = make(TemplateHandler, text=text, **options).to_body(bo)
    assert isinstance(body, bytes)
    return body.decode(str(options.get("charset", "utf-8")))


def test_a_template_writes_any_text() -> None:
    template = (
        "{{ BusinessObject }}.{{ Verb }} {{ CustomerId }} {{ Name }}\n"
        "{% for a in Address %}{{ loop.index }}={{ a.City }}{{ a.AddressID }};{% endfor %}\n"
        "{{ Active }} {{ Rating }}{% if Rating is none %}no rating{% endif %}\n"
    )
    assert written(template) == "Customer.Update C1 Zoë {{ 7 * 7 }} <b>\n1=Oslo;2=Rom;\nfalse no rating\n"
    assert written("{{ Name }}", autoescape="xml") == "Zoë {{ 7 * 7 }} &lt;b&gt;"
    assert written("é", charset="ISO-8859-1") == "é"


def test_a_template_is_a_file_and_may_include_files_beside_it(tmp_path: Path) -> None:
    (tmp_path / "templates").mkdir()
    (tmp_path / "templates/main.txt").write_text("a{% include 'part.txt' %}")
    (tmp_path / "templates/part.txt").write_text("{{ Text }}")
    handler = make(TemplateHandler, SAMPLES, tmp_path, template="templates/main.txt")
    assert handler.to_body(note("b")) == b"ab"


ATTACKS = """
    {{ ''.__class__.__mro__[1].__subclasses__() }}   {{ BusinessObject.__init__.__globals__ }}
    {{ self.__init__.__globals__.__builtins__ }}   {{ cycler.__init__.__globals__.os.popen('id').read() }}
    {{ ''|attr('__class__') }}   {{ '{0.__class__}'.format(Name) }}   {{ Address.append(1) }}
    {% include '/etc/passwd' %}   {% include '../secret.txt' %}   {% import 'os' as os %}
    {{ range(10000000000)|list }}   {{ 'a' * 10000000000 }}   {{ [1] * 10000000000 }}   {{ 9 ** (9 ** 9) }}
    {% macro m() %}{{ m() }}{% endmacro %}{{ m() }}   {{ Nothing }}   {{ 1 / 0 }}
"""


@rows("attack", texts(ATTACKS))
def test_a_template_cannot_reach_the_process(tmp_path: Path, attack: str) -> None:
    (tmp_path / "secret.txt").write_text("secret")
    (tmp_path / "inside").mkdir()
    (tmp_path / "inside/t.txt").write_text(f"first\n{attack}")
    begun = time.process_time()
    for handler in (
        make(TemplateHandler, text=f"first\n{attack}"),
        make(TemplateHandler, SAMPLES, tmp_path, template="inside/t.txt"),
    ):
        reason = refusal(handler.to_body, BusinessObject(SAMPLES, "Customer", "Update", CUSTOMER))
        assert "secret" not in reason.replace("secret.txt", "")
    assert "t.txt:2: " in reason
    assert time.process_time() - begun < 5


def test_a_text_of_endless_length_is_refused() -> None:
    loop = "{% for a in range(99999) %}" * 2 + "{{ Name }}" * 10 + "{% endfor %}" * 2
    with pytest.raises(MalformedData, match="longer than 67108864 characters"):
        written(loop)


@rows(
    "options, words",
    [
        ({}, "one of the options template and text"),
        ({"text": "a", "template": "b"}, "one of the options template and text"),
        ({"text": "a\n{% if %}"}, "the option text:2: "),
        ({"template": "missing.txt"}, "missing.txt"),
    ],
)
def test_a_wrong_template_is_told_at_the_start(tmp_path: Path, options: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        make(TemplateHandler, SAMPLES, tmp_path, **options)


# --- two in one -------------------------------------------------------------------------------


EXCHANGE = known(
    define("Ask", Id="String"),
    define("Tell", Id="String"),
    define("X_Ask", First="Ask", Second="Tell"),
    define("Tagged", Answer="Tell role=response", Question="Ask role=request"),
    define("Childless", Id="String"),
)
TAGGED = Hint("Tagged", "Create")
FORMATS = {"RequestDataHandlerMimeType": "text/xml", "ResponseDataHandlerMimeType": "application/json"}


def exchanging(tmp_path: Path, **options: Any) -> DataHandler:
    catalogue = discover(tmp_path)
    specs = [
        catalogue.spec("text/requestresponse", {**FORMATS, **options}),
        catalogue.spec("text/xml"),
        catalogue.spec("application/json"),
    ]
    return Handlers(specs, EXCHANGE, tmp_path).get("text/requestresponse")


class TestRequestResponse(Suite):
    is_exact = False  # of two children that are set, the response is written
    DEFINITIONS = EXCHANGE
    OBJECTS = (("Tagged", "Create", {"Question": {"Id": "1"}}), ("Tagged", "Create", {"Answer": {"Id": ""}}))
    BODIES = (
        Sample(b"<Ask><Id>1</Id></Ask>", TAGGED, {"Question": {"Id": "1"}}),
        Sample(b'{"BusinessObject": "Tell", "Id": "2"}', TAGGED, {"Answer": {"Id": "2"}}),
        Sample(b'<Ask verb="Create"/>', None, {"Question": {}}, "Tagged", "Create"),
    )
    MALFORMED = (b"", b"<Ask><No/></Ask>", b"text")

    @pytest.fixture
    def handler(self, tmp_path: Path) -> DataHandler:
        return exchanging(tmp_path)


def test_the_request_and_the_response_are_children(tmp_path: Path) -> None:
    handler = exchanging(tmp_path, BOPrefix="X")
    request = handler.to_business_object(b"<Ask><Id>1</Id></Ask>", None)
    assert (request.type, request.as_dict()) == ("X_Ask", {"First": {"Id": "1"}})
    request["Second"] = {"Id": "2"}
    assert handler.to_body(request) == b'{"BusinessObject":"Tell","Id":"2"}'


def test_a_name_handler_picks_the_child(tmp_path: Path) -> None:
    handler = exchanging(tmp_path, NameHandlerClass="key:Kind", BOPrefix="X")
    hint = Hint("X_Ask", "Create")
    with pytest.raises(MalformedData, match="Kind"):  # picked, then read strictly
        handler.to_business_object(b'{"Kind": "Tell", "Id": "2"}', hint)
    named = exchanging(tmp_path, NameHandlerClass="jmespath:BusinessObject")
    bo = named.to_business_object(b'{"BusinessObject": "Tell", "Id": "2"}', hint)
    assert bo.as_dict() == {"Second": {"Id": "2"}}


def test_a_body_that_nothing_names_is_a_request_of_the_rule(tmp_path: Path) -> None:
    handler = exchanging(tmp_path, RequestDataHandlerMimeType="application/json")
    bo = handler.to_business_object(b'{"Id": "2"}', Hint("X_Ask", "Create"))
    assert bo.as_dict() == {"First": {"Id": "2"}}
    with pytest.raises(UnknownBusinessObject, match="neither a rule, a name handler nor the body"):
        handler.to_business_object(b'{"Id": "2"}', None)


def test_what_is_no_exchange_is_told(tmp_path: Path) -> None:
    handler = exchanging(tmp_path)
    with pytest.raises(MalformedData, match="neither the request nor the response is set"):
        handler.to_body(BusinessObject(EXCHANGE, "X_Ask", "Create"))
    with pytest.raises(MalformedData, match="Childless has no child for a request or a response"):
        handler.to_business_object(b"<Ask/>", Hint("Childless", "Create"))
    for part, words in (
        ("text/requestresponse", "cannot be a part of itself"),
        ("text/nothing", "no data handler for 'text/nothing'"),
    ):
        with pytest.raises(ConfigurationError, match=words):
            exchanging(tmp_path, RequestDataHandlerMimeType=part)
