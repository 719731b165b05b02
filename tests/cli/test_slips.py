"""What users type by mistake on their first day, and what they are told."""

from __future__ import annotations

from pathlib import Path

import pytest

from connector.cli.verbs import GROUPS, find_verbs
from tests.cli.in_process import Commands
from tests.tables import rows

BODY = '{"OrderId": "O-2", "Total": 5, "See": "http://shop//x/"}'


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The deployment of ``connector init``, with a topic that the configuration names."""
    directory = tmp_path_factory.mktemp("slips")
    assert Commands(directory)("init", "shop").returncode == 0
    path = directory / "shop/adapter.yaml"
    text = path.read_text().replace(
        "InputDestination: queue://orders",
        "InputDestination: [queue://orders, {destination: topic://prices, subscription: own}]",
    )
    path.write_text(text)
    return path.parent


@pytest.fixture
def call(made: Path) -> Commands:
    return Commands(made).again()


@rows("body", [BODY, f"\n {BODY}", "[1]", "<Order/>"])
def test_a_body_may_be_typed_in_the_place_of_its_file(call: Commands, body: str) -> None:
    assert call("send", "orders", "--body", body).returncode == 0
    assert call("receive", "orders", "--json").bodies == [body]


def test_a_file_comes_before_a_text_and_a_missing_one_is_explained(call: Commands) -> None:
    call.write("{}", "from the file")
    assert call("send", "orders", "--body", "{}").returncode == 0
    assert call("receive", "orders", "--json").bodies == ["from the file"]
    said = call("send", "orders", "--body", "O-2").refusal()
    assert said.startswith("connector: --body O-2: No such file or directory; --body names a file, or is a ")


def test_a_request_takes_the_option_of_send(call: Commands) -> None:
    for option in ("--data", "--body"):
        assert "--data: the body is no JSON" in call("request", "Order.Create", option, "{").refusal()
        assert f"{option[:2]}data nix" in call("request", "Order.Create", option, "nix").refusal()


@rows(
    "arguments, right",
    [
        (("send", "order"), "queue://orders"),
        (("receive", "ordres"), "queue://orders"),
        (("send", "topic://price"), "topic://prices"),
        (("subscribe", "topic://price", "--subscription", "s", "--shared"), "topic://prices"),
    ],
)
def test_a_name_like_a_configured_one_is_refused_unless_it_is_new(
    call: Commands, arguments: tuple[str, ...], right: str
) -> None:
    verb, wrong, *options = arguments
    assert f"did you mean {right}?" in call(*arguments, data="x").refusal()
    assert wrong.rpartition("/")[2] not in call("queues").stdout.replace(right, "")
    assert call(verb, wrong, *options, "--new", data="x").returncode == 0
    if verb != "send" or "topic" not in wrong:  # a topic without a subscription keeps nothing
        assert call(*arguments, data="x").returncode == 0, "it is there now"


def test_any_other_new_topic_of_a_subscription_is_made_with_a_warning(call: Commands) -> None:
    done = call("subscribe", "topic://weather", "--subscription", "s", "--shared")
    assert done.returncode == 0
    assert "connector: topic://weather is new, and the configuration does not name it\n" in done.stderr


@rows("name", ["adapter.yml", "adaptor.yaml"])
def test_a_file_of_a_like_name_is_proposed(call: Commands, name: str) -> None:
    for verb in ("check", "run"):
        done = call(verb, "-c", name)
        assert done.returncode == 2
        assert "did you mean adapter.yaml?" in done.stderr + done.stdout


@rows("text, place", [("a:\n\tb: 1\n", "2:1"), ("a:\n  b: x\n  \tc: y\n", "3:3"), ("a: {\n\tb: [}\n", "2:1")])
def test_a_tab_is_named(call: Commands, text: str, place: str) -> None:
    call.write("tab.yaml", text)
    done = call("check", "-c", "tab.yaml")
    assert f"tab.yaml:{place}: no YAML: a tab, expected spaces" in done.stdout + done.stderr


def test_all_is_no_name(call: Commands) -> None:
    for verb in ("replay", "errors"):
        assert "left out, DEST is every error destination" in call(verb, "all").refusal()
    for verb in ("pause", "resume"):
        assert "--all means all" in call(verb, "all").refusal()


def test_the_help_shows_the_verbs_in_groups(call: Commands) -> None:
    text = call("--help").stdout
    places = [text.index(f"\n{group}:\n") for group in GROUPS]
    assert places == sorted(places)
    assert list(GROUPS) == ["Begin", "Run", "Look", "Repair", "Operate", "Build"]
    for name, verb in find_verbs().items():
        below = text[: text.index(f"\n  {name} ")].splitlines()
        assert [line for line in below if line.endswith(":")][-1] == f"{verb.group}:"


def test_a_container_of_a_draft_is_no_warning(call: Commands) -> None:
    lines = "<Lines><Line><Article>Bolt</Article></Line><Line><Article>Nut</Article></Line></Lines>"
    call.write("po.xml", f"<PurchaseOrder><Id>O-1</Id>{lines}</PurchaseOrder>")
    assert call("new", "businessobject", "PurchaseOrder", "--from-sample", "po.xml").returncode == 0
    done = call("check")
    assert "has no key" not in (done.stdout + done.stderr).replace("PurchaseOrder has no key", "")
