"""A provider that another package brings works like the shipped ones, and disturbs none of them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from connector.config.loading import check, load
from connector.config.reference import reference
from connector.config.resolved import as_document
from connector.config.schema import json_schema
from connector.declare.masking import MASK
from connector.errors import ConfigurationError, ConnectorError
from connector.messaging import connect
from connector.testing.deployment import Deployment
from tests import distribution
from tests.cli.in_process import call

REPOSITORY = Path(__file__).resolve().parents[2]

SHELVES = '''\
from pathlib import Path

from pydantic import Field

from connector.declare.value_types import Boolean, PathName, Text
from connector.declare.section import ProviderSection, Section
from connector.messaging.provider_kind import ProviderKind, SectionProblem
from connector.stores.dropbox.provider import DropboxProvider
from connector.stores.dropbox.root import Root


class Lamp(Section):
    """What lights a shelf."""

    watts: Text = Field(description="How bright.")
    watt: Text | None = Field(default=None, description="Of the spare one.")


class ShelfSection(ProviderSection):
    """A shelf: messages stand on boards."""

    boards: PathName = Field(description="Directory of the boards.")
    dusted: Boolean = Field(default=True, description="Whether they are clean.")
    key_password: Text | None = Field(default=None, description="Opens the glass door.")
    lamp: Lamp | None = Field(default=None, description="Its light.")


class ShelfProvider(DropboxProvider):
    """A directory is good enough for a test."""


def make(section, paths):
    record = paths.directory / ".connector" / "shelves"
    return ShelfProvider(Root(section.boards, create=True, record=record))


def open_shelf(location, *, dusted=True):
    return ShelfProvider(location, create=True)


def check(section, paths):
    if not section.dusted:
        yield SectionProblem(("dusted",), "dusty boards", "true")


KIND = ProviderKind(section=lambda: ShelfSection, make=make, open=open_shelf, check=check)
'''

ADAPTER = """\
provider:
  type: shelf
  boards: ./boards
connector:
  ApplicationName: demo
  InputDestination: queue://orders
  ArchiveDestination: queue://archive
  ErrorDestination: queue://error
  UnsubscribedDestination: queue://unsubscribed
  DataHandlerMimeType: application/json
subscriptions:
  - object: Order
    process: processes:book
metaobjects: ./metaobjects
"""
BOARDS = "  boards: ./boards\n"
KINDS = "amqp | dropbox | jms | memory | shelf | sql"
OBJECTS = "business_object: Order\nverbs: {Create: }\nattributes:\n  Id: {type: String, key: true}\n"
PROCESSES = "def book(order, event):\n    pass\n"

Install = Callable[..., Path]
Write = Callable[..., Path]


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Install:
    """Installs a package ``shelves`` that registers the provider ``shelf``; returns its directory."""

    def make(source: str = SHELVES, *, package: str = "shelves", value: str = "") -> Path:
        site = tmp_path / f"site-{package}"
        known = {"shelf": value or f"{package}:KIND"}
        kind = {"group": "connector.providers", "version": "2.1"}
        distribution.install(site, monkeypatch, package, known, {package: source}, **kind)
        monkeypatch.delitem(sys.modules, package, raising=False)
        return site

    return make


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Write:
    """Writes a deployment, with texts replaced in its ``adapter.yaml``; returns that file."""
    directory = tmp_path / "deployment"
    (directory / "metaobjects").mkdir(parents=True)
    (directory / "metaobjects/objects.yaml").write_text(OBJECTS)
    (directory / "processes.py").write_text(PROCESSES)
    monkeypatch.chdir(directory)

    def make(old: str = "", new: str = "") -> Path:
        assert old in ADAPTER
        (directory / "adapter.yaml").write_text(ADAPTER.replace(old, new))
        return directory / "adapter.yaml"

    return make


@pytest.mark.parametrize(
    ("old", "new", "mistake"),
    [
        ("boards: ./boards", "bords: ./boards", "3:3: provider.bords: unknown key, expected a key"),
        (BOARDS, f"{BOARDS}  dusted: perhaps\n", "4:11: provider.dusted: 'perhaps', expected true or false"),
        (BOARDS, f"{BOARDS}  dusted: false\n", "4:11: provider.dusted: dusty boards, expected true"),
        (BOARDS, f"{BOARDS}  root: ./data\n", "4:3: provider.root: unknown key"),
        (BOARDS, f"{BOARDS}  lamp: {{}}\n", "4:9: provider.lamp: watts is missing"),
        (BOARDS, f"{BOARDS}  lamp: {{watt: 7}}\n", "4:9: provider.lamp: watts is missing"),
        ("type: shelf", "type: shelv", f"2:9: provider.type: 'shelv', expected {KINDS}"),
        ("type: shelf", "type: [shelf]", f"2:9: provider.type: a list, expected {KINDS}"),
    ],
)
def test_check_finds_a_mistake_in_its_section(
    install: Install, write: Write, old: str, new: str, mistake: str
) -> None:
    install()
    write(old, new)
    (problem,) = check("adapter.yaml")
    assert str(problem).startswith(f"adapter.yaml:{mistake}")


def test_a_rule_needs_a_provider_that_delays(install: Install, write: Write) -> None:
    bare = "class ShelfProvider(DropboxProvider):\n    capabilities = Capabilities()"
    lines = "from connector.messaging.provider import Capabilities\n" + SHELVES
    install(lines.replace("class ShelfProvider(DropboxProvider):", bare))
    rules = "static_metaobject: MO\nrules:\n  Order_Create: {DeliveryDelay: 5}\n"
    write("  DataHandler", "  ConfigurationMetaObject: MO\n  DataHandler")
    Path("metaobjects/rules.yaml").write_text(rules)
    (problem,) = check("adapter.yaml")
    place = "metaobjects/rules.yaml:3:33: MO.rules.Order_Create.DeliveryDelay"
    assert str(problem).startswith(f"{place}: the provider shelf cannot delay a message")
    Path("metaobjects/rules.yaml").write_text(rules.replace("5", "0"))
    assert check("adapter.yaml") == []


def test_a_mistake_in_its_section_hides_no_mistake_in_another(install: Install, write: Write) -> None:
    install()
    write("  boards: ./boards\nconnector:\n", "connector:\n  PollQuantity: 0\n")
    missing, other = check("adapter.yaml")
    assert str(missing).startswith("adapter.yaml:1:1: provider.boards: boards is missing, expected boards: ")
    assert other.path == "connector.PollQuantity"


def test_its_section_is_read_with_paths_and_defaults_and_its_secrets_are_hidden(
    install: Install, write: Write
) -> None:
    install()
    write("boards: ./boards", "boards: ./boards\n  key_password: sesame")
    shown = as_document(load("adapter.yaml"))["provider"]
    boards = f"{Path.cwd()}/boards"
    assert shown == {"type": "shelf", "boards": boards, "dusted": True, "key_password": MASK}
    assert yaml.safe_load(call(Path(), "config").stdout)["provider"] == shown


def test_the_schema_and_the_reference_page_have_its_section(install: Install) -> None:
    install()
    schema = json_schema()
    assert {"$ref": "#/$defs/shelf"} in schema["properties"]["provider"]["anyOf"]
    section = schema["$defs"]["shelf"]
    assert list(section["properties"]) == ["type", "boards", "dusted", "key_password", "lamp"]
    assert (section["properties"]["type"]["const"], section["required"]) == ("shelf", ["type", "boards"])
    assert "watts" in schema["$defs"]["shelf.Lamp"]["properties"]
    assert "#/$defs/shelf.Lamp" in json.dumps(section)
    page = reference()
    described = page.partition("### `provider` with `type: shelf`")[2].partition("###")[0]
    assert "A shelf: messages stand on boards." in described
    assert "| `type` | shelf | needed |" in described
    assert "| `boards` | path | needed | Directory of the boards. |" in described
    assert page.index("type: dropbox") < page.index("type: memory") < page.index("type: shelf")


def test_a_program_connects_by_its_url(install: Install, tmp_path: Path) -> None:
    install()
    with connect(f"shelf:{tmp_path}/boards", dusted=False) as connection, connection.session() as session:
        session.send("orders", "1")
        message = session.consumer("orders").receive(5)
        assert message is not None
        assert message.value == "1"
    with pytest.raises(TypeError, match="dust"):
        connect(f"shelf:{tmp_path}/boards", dust=True)


@pytest.mark.process
def test_the_commands_use_it(install: Install, write: Write) -> None:
    site = install()
    write()
    call(Path(), "send", "orders", data='{"BusinessObject": "Order", "Verb": "Create", "Id": "1"}')
    done = subprocess.run(
        [sys.executable, "-m", "tests.without_java", "run", "--drain", "--json"],
        env={**os.environ, "PYTHONPATH": f"{site}:{REPOSITORY}"},
        capture_output=True,
        timeout=240,
        check=True,
    )
    summary = json.loads(done.stdout)
    assert (summary["claimed"], summary["published"]) == (1, 1)
    (copy,) = call(Path(), "browse", "archive", "--json").documents
    assert copy["properties"]["connector_outcome"] == "published"


BROKEN = "import no_such_library_of_shelves\n" + SHELVES
UNUSABLE = [
    (BROKEN, "", "cannot be used: ModuleNotFoundError: No module named 'no_such_library_of_shelves'"),
    ("1 / 0", "", "cannot be used: ZeroDivisionError"),
    (SHELVES.replace("lambda: Shelf", "lambda: 1 / Shelf"), "", "cannot be used: TypeError"),
    (SHELVES.replace("not section.dusted", "not section.dust"), "", "cannot be used: AttributeError"),
    (SHELVES.replace("(ProviderSection)", "(Section)"), "", "TypeError: ShelfSection is no ProviderSection"),
    (SHELVES, "shelves:open_shelf", "shelves:open_shelf is no ProviderKind"),
]


@pytest.mark.parametrize(("source", "value", "words"), UNUSABLE)
def test_a_package_that_cannot_be_used_is_named_where_its_provider_is_asked_for(
    install: Install, write: Write, source: str, value: str, words: str
) -> None:
    install(source, value=value)
    write()
    (problem,) = check("adapter.yaml")
    assert problem.line
    assert problem.path.startswith("provider")
    assert "the provider 'shelf' of the package shelves 2.1 cannot be used: " in problem.found
    assert words in problem.found
    assert "repair or remove that package" in problem.found


def test_a_package_that_cannot_be_imported_leaves_the_other_providers_usable(
    install: Install, write: Write, caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    install(BROKEN)
    write("type: shelf\n  boards: ./boards", "type: dropbox\n  root: ./data")
    assert check("adapter.yaml") == []
    connect(f"dropbox:{tmp_path}/mq?create=true").close()
    with pytest.raises(
        ConnectorError, match=r"package shelves 2\.1 .*: No module named 'no_such_library_of_"
    ):
        connect("shelf:boards")
    assert "shelf" not in json.dumps(json_schema())
    assert {record.getMessage() for record in caplog.records} == {"an installed provider cannot be imported"}
    assert "type: shelf" not in reference()


def test_a_library_that_is_missing_when_the_provider_is_made_names_the_package_too(
    install: Install, write: Write
) -> None:
    begin = "def make(section, paths):\n"
    install(SHELVES.replace(begin, f"{begin}    import no_such_library\n"))
    deployment = Deployment(write().parent)
    with pytest.raises(ConnectorError, match=r"package shelves 2\.1 .* No module named 'no_such_library'"):
        deployment.running()


def test_a_name_of_two_packages_is_an_error_where_it_is_used(install: Install, write: Write) -> None:
    install()
    install(package="racks")
    write()
    with pytest.raises(ConfigurationError, match=r"several packages .* 'shelf': racks 2\.1, shelves 2\.1"):
        load("adapter.yaml")
    write("type: shelf\n  boards: ./boards", "type: dropbox\n  root: ./data")
    assert check("adapter.yaml") == []
