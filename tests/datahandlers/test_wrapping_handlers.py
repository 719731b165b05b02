"""Binary data, templates, and two handlers in one."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from connector.businessobjects.instance import BusinessObject
from connector.datahandlers.binary_handler import BinaryHandler
from connector.datahandlers.template_handler import TemplateHandler
from connector.errors import ConfigurationError, MalformedData, UnknownBusinessObject
from connector.formats.catalogue import discover
from connector.formats.datahandler import DataHandler, Hint
from connector.formats.handlers import Handlers
from connector.testing.datahandlers import DataHandlerSuite, Sample
from tests.datahandlers.definitions import SAMPLES, define, known, make
from tests.tables import rows

NOTE = Hint("Note", "Create")


def note(text: str) -> BusinessObject:
    return BusinessObject(SAMPLES, "Note", "Create", {"Text": text})


# --- binary -----------------------------------------------------------------------------------


class TestBinary(DataHandlerSuite):
    is_exact = False  # the body of an object without bytes is empty, and base64 has several forms
    # Any bytes are a right body.
    test_a_malformed_body_is_refused_with_a_reason = None  # type: ignore[assignment]
    test_nothing_of_a_refused_body_is_left_for_the_next = None  # type: ignore[assignment]

    @pytest.fixture
    def handler(self) -> DataHandler:
        return make(BinaryHandler, attribute="Text")

    @pytest.fixture
    def objects(self) -> Sequence[BusinessObject]:
        return [note("AP8="), note("")]

    @pytest.fixture
    def samples(self) -> Sequence[Sample]:
        return [Sample(b"\0\xff", NOTE, {"Text": "AP8="}), Sample(b"", NOTE, {"Text": ""})]

    def test_a_big_text_arrives_whole(self, handler: DataHandler) -> None:  # type: ignore[override]
        body = bytes(range(256)) * 4096
        assert handler.to_body(handler.to_business_object(body, NOTE)) == body


def test_bytes_may_be_hexadecimal_text() -> None:
    handler = make(BinaryHandler, attribute="Text", encoding="HEX")
    assert handler.to_business_object(b"\0\xff", NOTE)["Text"] == "00ff"
    assert handler.to_body(note("00FF")) == b"\0\xff"


@rows(
    "encoding, text, words",
    [
        ("base64", "AP*=", "Note: Text: character 3 is '\\*', expected base64 text"),
        ("base64", "AP8", "Note: Text is no base64 text"),
        ("hex", "0g", "character 2 is 'g', expected hex text"),
        ("hex", "0", "Note: Text is no hex text"),
    ],
)
def test_a_text_that_is_no_such_text_is_told(encoding: str, text: str, words: str) -> None:
    with pytest.raises(MalformedData, match=words):
        make(BinaryHandler, attribute="Text", encoding=encoding).to_body(note(text))


def test_an_attribute_that_cannot_hold_bytes_is_told() -> None:
    with pytest.raises(MalformedData, match="no attribute 'Data' to hold bytes"):
        make(BinaryHandler).to_business_object(b"x", NOTE)
    with pytest.raises(MalformedData, match="Rating is a Integer, expected a LongText"):
        make(BinaryHandler, attribute="Rating").to_business_object(b"x", Hint("Customer", "Create"))


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


def test_a_template_reads_nothing() -> None:
    with pytest.raises(MalformedData, match="text/template only writes"):
        make(TemplateHandler, text="x").to_business_object(b"x", NOTE)


@rows(
    "attack",
    [
        "{{ ''.__class__.__mro__[1].__subclasses__() }}",
        "{{ BusinessObject.__init__.__globals__ }}",
        "{{ self.__init__.__globals__.__builtins__ }}",
        "{{ cycler.__init__.__globals__.os.popen('id').read() }}",
        "{{ ''|attr('__class__') }}",
        "{{ '{0.__class__}'.format(Name) }}",
        "{{ Address.append(1) }}",
        "{% include '/etc/passwd' %}",
        "{% include '../secret.txt' %}",
        "{% import 'os' as os %}",
        "{{ range(10000000000)|list }}",
        "{{ 'a' * 10000000000 }}",
        "{{ [1] * 10000000000 }}",
        "{{ 9 ** (9 ** 9) }}",
        "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}",
        "{{ Nothing }}",
        "{{ 1 / 0 }}",
    ],
)
def test_a_template_cannot_reach_the_process(tmp_path: Path, attack: str) -> None:
    (tmp_path / "secret.txt").write_text("secret")
    (tmp_path / "inside").mkdir()
    (tmp_path / "inside/t.txt").write_text(f"first\n{attack}")
    begun = time.process_time()
    for handler in (
        make(TemplateHandler, text=f"first\n{attack}"),
        make(TemplateHandler, SAMPLES, tmp_path, template="inside/t.txt"),
    ):
        with pytest.raises(MalformedData) as refused:
            handler.to_body(BusinessObject(SAMPLES, "Customer", "Update", CUSTOMER))
        assert "secret" not in str(refused.value).replace("secret.txt", "")
    assert "t.txt" in str(refused.value)
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


def test_an_error_names_the_line_of_the_template(tmp_path: Path) -> None:
    (tmp_path / "t.txt").write_text("one\ntwo\n{{ Nothing }}")
    with pytest.raises(MalformedData, match=r"t\.txt:3: 'Nothing' is undefined"):
        make(TemplateHandler, SAMPLES, tmp_path, template="t.txt").to_body(note("x"))


# --- two in one -------------------------------------------------------------------------------


EXCHANGE = known(
    define("Ask", Id="String"),
    define("Tell", Id="String"),
    define("X_Ask", First="Ask", Second="Tell"),
    define("Tagged", Answer="Tell role=response", Question="Ask role=request"),
    define("Childless", Id="String"),
)
FORMATS = {"RequestDataHandlerMimeType": "text/xml", "ResponseDataHandlerMimeType": "application/json"}


def exchanging(tmp_path: Path, **options: Any) -> DataHandler:
    catalogue = discover(tmp_path)
    specs = [
        catalogue.spec("text/requestresponse", {**FORMATS, **options}),
        catalogue.spec("text/xml"),
        catalogue.spec("application/json"),
    ]
    return Handlers(specs, EXCHANGE, tmp_path).get("text/requestresponse")


class TestRequestResponse(DataHandlerSuite):
    is_exact = False  # of two children that are set, the response is written

    @pytest.fixture
    def handler(self, tmp_path: Path) -> DataHandler:
        return exchanging(tmp_path)

    @pytest.fixture
    def objects(self) -> Sequence[BusinessObject]:
        return [
            BusinessObject(EXCHANGE, "Tagged", "Create", {"Question": {"Id": "1"}}),
            BusinessObject(EXCHANGE, "Tagged", "Create", {"Answer": {"Id": ""}}),
        ]

    @pytest.fixture
    def samples(self) -> Sequence[Sample]:
        hint = Hint("Tagged", "Create")
        return [
            Sample(b"<Ask><Id>1</Id></Ask>", hint, {"Question": {"Id": "1"}}),
            Sample(b'{"BusinessObject": "Tell", "Id": "2"}', hint, {"Answer": {"Id": "2"}}),
            Sample(b'<Ask verb="Create"/>', None, {"Question": {}}, "Tagged", "Create"),
        ]

    @pytest.fixture
    def malformed(self) -> Sequence[bytes]:
        return [b"", b"<Ask><No/></Ask>", b"text"]


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
    assert handler.to_business_object(b'{"Id": "2"}', Hint("X_Ask", "Create")).as_dict() == {
        "First": {"Id": "2"}
    }
    with pytest.raises(UnknownBusinessObject, match="neither a rule, a name handler nor the body"):
        handler.to_business_object(b'{"Id": "2"}', None)


def test_what_is_no_exchange_is_told(tmp_path: Path) -> None:
    handler = exchanging(tmp_path)
    with pytest.raises(MalformedData, match="neither the request nor the response is set"):
        handler.to_body(BusinessObject(EXCHANGE, "X_Ask", "Create"))
    with pytest.raises(MalformedData, match="Childless has no child for a request or a response"):
        handler.to_business_object(b"<Ask/>", Hint("Childless", "Create"))
    with pytest.raises(ConfigurationError, match="cannot be a part of itself"):
        exchanging(tmp_path, RequestDataHandlerMimeType="text/requestresponse")
    with pytest.raises(ConfigurationError, match="no data handler for 'text/nothing'"):
        exchanging(tmp_path, RequestDataHandlerMimeType="text/nothing")
