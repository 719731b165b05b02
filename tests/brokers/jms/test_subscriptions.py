"""The records of durable subscriptions at a broker, and the names of those of inputs. No broker is there."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from pathlib import Path

import pytest

from connector.brokers.jms.subscriptions import SubscriptionRecords, name_at_broker
from connector.errors import ProviderError, SubscriptionError
from connector.messaging.destination import own_destination, parse_destination
from connector.messaging.subscription import TopicSubscription
from tests.tables import rows

PRICES, RATES = map(parse_destination, ("topic://eu.prices", "topic://eu.rates"))
BILLS = TopicSubscription(PRICES, "bills", durable=True, shared=True, selector="k = 1")
ALONE = replace(BILLS, client_id="shop", shared=False, no_local=True)
NAME = "shop.eu.prices.bills"


@pytest.fixture
def records(tmp_path: Path) -> SubscriptionRecords:
    return SubscriptionRecords(str(tmp_path))


def start(
    records: SubscriptionRecords, wanted: TopicSubscription = BILLS, application: str = "shop"
) -> TopicSubscription:
    """Makes or uses the subscription of an input. Returns it as the broker gets it."""
    made = records.of_input(application, wanted.client_id, wanted)
    with records.record(wanted.client_id, made, application, wanted.name):
        return made


def subscribe(records: SubscriptionRecords, wanted: TopicSubscription) -> None:
    """A program makes a subscription, or ``connector subscribe``."""
    with records.record(wanted.client_id, wanted):
        pass


def of_version_0_3_0(root: Path, client_id: str, name: str, *, shared: bool) -> None:
    key = json.dumps([client_id, name]).encode()
    (root / "subscriptions").mkdir(exist_ok=True)
    path = root / "subscriptions" / hashlib.sha256(key).hexdigest()[:40]
    path.write_text(json.dumps({"client_id": client_id, "subscription": name, "shared": shared}))


def test_no_two_inputs_have_one_name() -> None:
    parts = ["a", "a.b", "b", "a%2Eb", "a/b", "ä", "a" * 200, "a" * 201]
    wanted = [(one, two, three) for one in parts for two in parts for three in parts]
    names = {
        name_at_broker(one, replace(BILLS, topic=own_destination("topic", two), name=three))
        for one, two, three in wanted
    }
    assert len(names) == len(wanted)
    assert max(map(len, names)) == 128
    assert name_at_broker("shop", BILLS) == NAME


@rows("wanted", [BILLS, ALONE])
def test_a_subscription_keeps_its_name_and_no_other_application_gets_it(
    tmp_path: Path, wanted: TopicSubscription
) -> None:
    records = SubscriptionRecords(str(tmp_path))
    for _ in range(2):
        assert start(records, wanted) == replace(wanted, name=NAME)
    others = {
        start(records, one, app).name for one, app in ((wanted, "bank"), (replace(wanted, name="x"), "shop"))
    }
    assert others == {"bank.eu.prices.bills", "shop.eu.prices.x"}
    records.remove(wanted.client_id, NAME)
    assert start(records, replace(wanted, selector="")).selector == ""


CHANGED = {
    "selector 'k = 1', not 'k = 2'": replace(BILLS, selector="k = 2"),
    "selector 'k = 1', not ''": replace(BILLS, selector=""),
    "topic 'topic://eu.prices', not 'topic://eu.rates'": replace(BILLS, topic=RATES),
    "no_local False, not True and shared True, not False and client_id '', not 'shop'": ALONE,
}


@rows("said, wanted", CHANGED.items())
def test_a_changed_subscription_is_refused_with_what_keeps_or_drops_its_messages(
    tmp_path: Path, said: str, wanted: TopicSubscription
) -> None:
    records = SubscriptionRecords(str(tmp_path))
    start(records)
    with pytest.raises(SubscriptionError) as refused:
        start(records, wanted)
    text = str(refused.value)
    assert said in text
    assert "does not tell how many wait" in text
    assert text.endswith(f"connector unsubscribe --subscription {NAME}")
    (finding,) = records.survey("shop", [wanted])
    assert (finding.able, finding.needed, finding.text) == (False, True, text)
    (finding,) = records.survey("shop", [BILLS])
    assert (finding.able, finding.name) == (True, "subscription bills of topic://eu.prices")
    assert start(records).name == NAME, "the old details go on"


def test_a_client_id_for_another_input_is_a_change(records: SubscriptionRecords) -> None:
    """A connection has one. A shared subscription of a client id is another one than that without."""
    start(records)
    with pytest.raises(SubscriptionError, match="client_id '', not 'shop'"):
        records.of_input("shop", "shop", BILLS)
    *_, finding = records.survey("shop", [replace(ALONE, name="other"), BILLS])
    assert not finding.able


@rows("wanted", [BILLS, ALONE])
def test_a_name_of_version_0_3_0_stays(tmp_path: Path, wanted: TopicSubscription) -> None:
    of_version_0_3_0(tmp_path, wanted.client_id, "bills", shared=wanted.shared)
    records = SubscriptionRecords(str(tmp_path))
    for _ in range(2):
        assert start(records, wanted).name == "bills"
    with pytest.raises(SubscriptionError, match="connector unsubscribe --subscription bills"):
        start(records, replace(wanted, selector=""))
    assert start(records, wanted, "bank").name == "bank.eu.prices.bills", "the first one has it"


def test_another_kind_than_that_of_version_0_3_0_is_a_change(tmp_path: Path) -> None:
    of_version_0_3_0(tmp_path, "", "bills", shared=True)
    with pytest.raises(SubscriptionError, match="shared True, not False"):
        start(SubscriptionRecords(str(tmp_path)), ALONE)


@rows("name", ["bills", NAME])
def test_a_subscription_that_was_made_before_is_taken(tmp_path: Path, name: str) -> None:
    records = SubscriptionRecords(str(tmp_path))
    subscribe(records, replace(BILLS, name=name))
    with pytest.raises(SubscriptionError, match="selector 'k = 1', not 'k = 2'"):
        start(records, replace(BILLS, selector="k = 2"))
    assert start(records).name == name


@rows("other", [replace(BILLS, topic=RATES), replace(ALONE, topic=PRICES), replace(BILLS, name="shop")])
def test_a_namesake_of_a_program_is_not_taken(tmp_path: Path, other: TopicSubscription) -> None:
    records = SubscriptionRecords(str(tmp_path))
    subscribe(records, other)
    assert start(records).name == NAME


def test_a_program_makes_its_own_anew_and_not_that_of_an_input(records: SubscriptionRecords) -> None:
    subscribe(records, BILLS)
    subscribe(records, replace(BILLS, topic=RATES, selector=""))
    assert start(records).name == NAME
    subscribe(records, replace(BILLS, name=NAME))
    with pytest.raises(SubscriptionError, match="that of the input 'bills' of the adapter 'shop'"):
        subscribe(records, replace(BILLS, name=NAME, selector=""))
    assert start(records).name == NAME
    assert "connector unsubscribe --subscription shop.eu.prices.bills" in records.hint("bills")
    assert records.hint("other") == ""


def test_without_success_the_record_is_as_before(tmp_path: Path, records: SubscriptionRecords) -> None:
    def files() -> list[dict[str, object]]:
        found = [json.loads(one.read_text()) for one in tmp_path.rglob("*") if one.is_file()]
        return [{key: value for key, value in one.items() if value} for one in found]

    for _ in range(2):
        before = files()
        made = records.of_input("shop", "", BILLS)
        with pytest.raises(ZeroDivisionError), records.record("", made, "shop", "bills"):
            raise ZeroDivisionError
        assert files() == before
        of_version_0_3_0(tmp_path, "", "bills", shared=True)


def test_a_record_that_cannot_be_read_is_an_error(tmp_path: Path, records: SubscriptionRecords) -> None:
    of_version_0_3_0(tmp_path, "", "bills", shared=True)
    (path,) = (tmp_path / "subscriptions").iterdir()
    for text in ("", "5", '{"client": 1}'):
        path.write_text(text)
        with pytest.raises(ProviderError, match="subscriptions"):
            start(records)
