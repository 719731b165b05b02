"""Which handlers there are, found without running them; and how a worker gets them."""

from __future__ import annotations

import pickle
import subprocess
import sys
from pathlib import Path

import pytest

from connector.errors import ConfigurationError
from connector.formats.catalogue import INSTALLED, PLUGIN, SHIPPED, discover, spec_for_class
from connector.formats.datahandler import Hint, Option, charset, message_body, option_problems
from connector.formats.handlers import Handlers, HandlerSpec
from connector.testing.datahandlers import sample_definitions
from tests.distribution import install
from tests.tables import rows

DEFINITIONS = sample_definitions()
NOTE = Hint("Note", "Create")
PLUGIN_SOURCE = '''
"""A plug-in."""
from typing import ClassVar
from connector.formats.datahandler import Option
from connector.businessobjects.instance import BusinessObject

class Upper:
    """Shouts.

    More about it.
    """
    mime_types = ("text/X-Upper", "text/x-loud")
    options: ClassVar = (
        Option("attribute", str, "Text", "Where it goes."),
        Option("times", int, default=1, doc="How often."),
    )

    def __init__(self, options, definitions):
        self.options_given = dict(options)
        self.definitions = definitions

    def to_business_object(self, body, hint):
        bo = BusinessObject(self.definitions, hint.object, hint.verb)
        bo[self.options_given["attribute"]] = body.decode().upper() * self.options_given["times"]
        return bo

    def to_body(self, bo):
        return bo[self.options_given["attribute"]]
'''
INHERITING = """
from connector.formats.datahandler import DataHandler

class Upper(DataHandler):
    mime_types = ("text/x-upper",)
    def to_business_object(self, body, hint): ...
"""
COMPUTED = """
class A:
    mime_types = tuple(["text/x-a"])
class B:
    mime_types = ("text/x-b",)
    options = A.options
"""
EXPLODING = 'raise RuntimeError("was run")\n' + PLUGIN_SOURCE


@pytest.fixture
def deployment(tmp_path: Path) -> Path:
    (tmp_path / "handlers").mkdir()
    (tmp_path / "handlers" / "upper.py").write_text(PLUGIN_SOURCE)
    return tmp_path


def test_the_shipped_handlers_are_found_by_their_entry_points(tmp_path: Path) -> None:
    catalogue = discover(tmp_path)
    found = {info.class_name.removesuffix("Handler"): set(info.mime_types) for info in catalogue.handlers}
    assert {info.origin for info in catalogue.handlers} == {SHIPPED}
    assert found == {
        "Json": {"application/json"},
        "JsonLines": {"application/jsonl", "application/x-ndjson"},
        "Binary": {"application/octet-stream"},
        "Soap": {"application/soap+xml", "xml/soap"},
        "Csv": {"text/csv"},
        "Delimited": {"text/delimited"},
        "FixedWidth": {"text/fixedwidth"},
        "NameValue": {"text/namevalue"},
        "RequestResponse": {"text/requestresponse"},
        "Template": {"text/template"},
        "Xml": {"text/xml", "application/xml"},
        "Text": {"text/plain"},
    }
    for name, mime_types in found.items():
        assert {catalogue.spec(one).class_name for one in mime_types} == {f"{name}Handler"}
    assert catalogue.mime_types == tuple(sorted(one for mime_types in found.values() for one in mime_types))


@pytest.mark.process
def test_listing_imports_no_handler_and_json_without_a_schema_no_library_of_schemas() -> None:
    program = """if True:
        import sys
        from pathlib import Path
        from connector.formats.catalogue import discover
        assert discover(Path('.')).mime_types
        assert not [n for n in sys.modules if n.startswith(('connector.datahandlers', 'lxml', 'orjson'))]
        from tests.datahandlers.definitions import kind_of, make
        make(kind_of('Json'))
        assert 'jsonschema_rs' not in sys.modules
    """
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


def test_a_plug_in_is_listed_with_its_options_and_not_run(deployment: Path) -> None:
    (deployment / "handlers" / "upper.py").write_text(EXPLODING)
    info = discover(deployment, Path("handlers")).find("text/x-upper; charset=utf-8")
    assert info is not None
    assert (info.origin, info.class_name, info.doc) == (PLUGIN, "Upper", "Shouts.")
    assert info.path == "handlers/upper.py"
    assert info.options == (
        Option("attribute", str, "Text", "Where it goes."),
        Option("times", int, 1, "How often."),
    )


@rows("plugins", ["handlers", "handlers/upper.py"])
def test_a_plug_in_works_from_a_directory_or_a_file(deployment: Path, plugins: str) -> None:
    spec = discover(deployment, Path(plugins)).spec("text/x-loud", {"times": "2"})
    handler = Handlers([pickle.loads(pickle.dumps(spec))], DEFINITIONS, deployment).get("text/x-loud")
    assert handler.to_business_object(b"ab", NOTE)["Text"] == "ABAB"


def test_a_package_is_a_plug_in_with_relative_imports(deployment: Path) -> None:
    package = deployment / "handlers" / "shout"
    package.mkdir()
    source = PLUGIN_SOURCE.replace("text/X-Upper", "text/x-shout").replace("text/x-loud", "text/x-shouting")
    (package / "__init__.py").write_text(f"from .words import TYPE\n{source}")
    (package / "words.py").write_text("TYPE = 1\n")
    spec = discover(deployment, Path("handlers")).spec("text/x-shout")
    handler = Handlers([spec], DEFINITIONS, deployment).get("text/x-shout")
    assert handler.to_business_object(b"a", NOTE)["Text"] == "A"


def test_a_plug_in_wins_over_a_shipped_handler(deployment: Path) -> None:
    (deployment / "handlers" / "upper.py").write_text(PLUGIN_SOURCE.replace("text/x-loud", "text/xml"))
    catalogue = discover(deployment, Path("handlers"))
    assert catalogue.spec("text/xml").class_name == "Upper"
    assert catalogue.spec("application/xml").class_name == "XmlHandler"


def test_two_plug_ins_for_one_mime_type_and_a_missing_directory_are_a_mistake(deployment: Path) -> None:
    (deployment / "handlers" / "again.py").write_text(PLUGIN_SOURCE)
    words = "again.py:Upper and handlers/upper.py:Upper both serve text/x-upper"
    with pytest.raises(ConfigurationError, match=words):
        discover(deployment, Path("handlers"))
    with pytest.raises(ConfigurationError, match="nowhere does not exist"):
        discover(deployment, Path("nowhere"))


def test_a_plug_in_that_cannot_be_read_is_a_mistake_and_a_computed_option_is_unknown(
    deployment: Path,
) -> None:
    (deployment / "handlers" / "broken.py").write_text("class :")
    (deployment / "handlers" / "binary.py").write_bytes(b"\0\xff")
    (deployment / "handlers" / "notes.txt").write_text("class :")
    (deployment / "handlers" / "computed.py").write_text(COMPUTED)
    catalogue = discover(deployment, Path("handlers"))
    files = [f"handlers/{name}.py" for name in ("binary", "broken", "computed")]
    assert [text.split(" ")[0] for text in catalogue.mistakes] == files
    assert "mime_types is no literal" in catalogue.mistakes[-1]
    assert catalogue.find("text/x-upper") is not None
    assert catalogue.find("text/x-a") is None
    computed = catalogue.find("text/x-b")
    assert computed is not None
    assert computed.options is None


@rows(
    "entry_point, mime_types",
    [("text/x-theirs", ("text/x-theirs",)), ("their-handler", ("text/x-upper", "text/x-loud"))],
)
def test_an_installed_handler_is_found_by_its_entry_point_and_not_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, entry_point: str, mime_types: tuple[str, ...]
) -> None:
    site = tmp_path / "site"
    plug_ins = {entry_point: "their_handlers.upper:Upper"}
    install(site, monkeypatch, "their-handlers", plug_ins, {}, group="connector.datahandlers")
    package = site / "their_handlers"
    package.mkdir()
    (package / "__init__.py").write_text('raise RuntimeError("was run")')
    (package / "upper.py").write_text(EXPLODING)
    info = discover(tmp_path).find(mime_types[0])
    assert info is not None
    assert (info.origin, info.module, info.class_name) == (INSTALLED, "their_handlers.upper", "Upper")
    assert info.mime_types == mime_types
    assert info.options is not None


TWO_WRONG = {"BOPrefx": "a", "IgnoreUndefinedAttributes": "perhaps"}


@rows(
    "mime_type, options, words",
    [
        ("text/xnl", {}, "no data handler for 'text/xnl', expected one of .*, did you mean 'text/xml'"),
        ("text/xml", TWO_WRONG, "did you mean 'BOPrefix'"),
        ("text/xml", TWO_WRONG, "expected true or false"),
        ("text/plain", {"charset": "latin-99"}, "found the text 'latin-99', expected the name of a char"),
    ],
)
def test_a_wrong_type_and_every_mistake_in_options_are_found_before_the_handler_is_made(
    mime_type: str, options: dict[str, str], words: str
) -> None:
    with pytest.raises(ConfigurationError, match=words) as mistake:
        discover(Path()).spec(mime_type, options, "MO_DH")
    assert not options or [problem.path for problem in mistake.value.problems] == [*options]


@rows(
    "kind, value, read",
    [
        *((str, "on", "on"), (bool, "TRUE", True), (bool, False, False), (int, " 7 ", 7), (int, 7, 7)),
        *((float, "0.5", 0.5), (float, 2, 2.0)),
        *((str, 1, None), (bool, "yes", None), (bool, 1, None), (int, 1.0, None), (int, True, None)),
        *((int, "x", None), (float, [], None)),
    ],
)
def test_an_option_is_read_from_its_type_or_from_text(kind: type, value: object, read: object) -> None:
    option = Option("o", kind, "", "doc")
    assert len(option_problems([option], {"o": value})) == (read is None)
    if read is not None:
        assert (option.read(value), type(option.read(value))) == (read, kind)


@rows("name, known", [("utf-8", True), ("cp1252", True), ("base64", False), ("\0", False), ("", False)])
def test_a_character_set_is_one_that_text_can_be_written_in(name: str, known: bool) -> None:
    assert (charset(name) is None) is known


def test_one_handler_is_made_for_each_data_handler_meta_object(tmp_path: Path) -> None:
    catalogue = discover(tmp_path)
    specs = [catalogue.spec("text/plain"), catalogue.spec("text/plain", {"attribute": "Name"}, "MO_Other")]
    handlers = Handlers(specs, DEFINITIONS, tmp_path)
    assert handlers.get("text/plain").to_business_object(b"a", NOTE).as_dict() == {"Text": "a"}
    assert handlers.get("text/plain") is handlers.get("Text/PLAIN; charset=utf-8")
    other = handlers.get("text/plain", "MO_Other").to_business_object(b"a", Hint("Customer"))
    assert other.as_dict() == {"Name": "a"}


# --- by class ---------------------------------------------------------------------------------


def test_a_class_beside_the_configuration_or_installed_is_found_without_running_it(deployment: Path) -> None:
    (deployment / "mine.py").write_text(EXPLODING)
    spec = spec_for_class("mine:Upper", deployment)
    assert (spec.mime_type, spec.path, spec.options) == ("mine:Upper", "mine.py", {})
    (deployment / "mine.py").write_text(PLUGIN_SOURCE)
    installed = spec_for_class("connector.datahandlers.text_handler:TextHandler", deployment)
    handlers = Handlers([spec, installed], DEFINITIONS, deployment)
    for name, text in (("mine:Upper", "A"), (installed.mime_type, "a")):
        assert handlers.get(name).to_business_object(b"a", NOTE)["Text"] == text


@rows(
    "reference, reason",
    [
        ("mine", "no reference to a class, expected module:Class"),
        ("mine:", "no reference to a class"),
        ("../mine:Upper", "no reference to a class"),
        ("no_such_module:Upper", "no module 'no_such_module'"),
    ],
)
def test_a_class_that_is_not_there_is_a_mistake(deployment: Path, reference: str, reason: str) -> None:
    (deployment / "mine.py").write_text(PLUGIN_SOURCE)
    with pytest.raises(ConfigurationError) as mistake:
        spec_for_class(reference, deployment)
    assert reason in str(mistake.value)


@rows(
    "source, reason",
    [
        ('raise RuntimeError("was run")', "cannot be loaded: RuntimeError: was run"),
        ("import sys; sys.exit(3)", "cannot be loaded: SystemExit: 3"),
        ("x = 1", "has no Upper"),
        ("Upper = 1", "Upper is no class"),
        ("class Upper:\n    def to_body(self, bo): ...", "Upper has no method to_business_object"),
        (f"{INHERITING}    options = ()", "Upper has no method to_body"),
        (INHERITING, "Upper inherits from DataHandler, and has no options"),
        (PLUGIN_SOURCE.replace("self.definitions =", "1 / 0 #"), "cannot be made: ZeroDivisionError"),
    ],
)
def test_a_plug_in_that_cannot_be_used_is_a_mistake_at_the_start(
    tmp_path: Path, source: str, reason: str
) -> None:
    (tmp_path / "bad.py").write_text(source)
    handlers = Handlers([HandlerSpec("a/b", "Upper", path="bad.py")], DEFINITIONS, tmp_path)
    with pytest.raises(ConfigurationError) as mistake:
        handlers.load_all()
    assert reason in str(mistake.value)
    assert "bad.py:Upper" in str(mistake.value)


@rows(
    "body, message",
    [
        ("é", ("T", "é".encode())),
        (b"", ("T", b"")),
        (b"ascii", ("T", b"ascii")),
        ("é".encode(), ("T", "é".encode())),
        (b"\xff", ("B", b"\xff")),
    ],
)
def test_a_body_is_sent_as_text_whenever_it_is_utf_8(body: bytes | str, message: tuple[str, bytes]) -> None:
    assert message_body(body) == message
