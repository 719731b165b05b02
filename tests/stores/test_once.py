"""A client that dies while it sends once by key: the message is sent once, and keeps its first id."""

from __future__ import annotations

import pickle
import signal
import time
from pathlib import Path

import pytest

from connector.core.takeover import take_over
from connector.errors import ProviderError
from connector.messaging.destination import Destination, parse_destination
from connector.messaging.message import Message
from connector.messaging.once import OnceKey, SentOnce
from connector.messaging.provider import Connection, Provider
from connector.messaging.subscription import TopicSubscription
from connector.state import sent_keys
from connector.stores.dropbox.forgotten_state import remove_forgotten_state
from connector.stores.dropbox.provider import DropboxProvider
from connector.stores.sql.database import Settings
from connector.stores.sql.provider import SqlProvider
from tests.stores.conftest import Children
from tests.stores.dropbox.steps import Died, at, closed, die
from tests.stores.sql.conftest import program
from tests.tables import Table

ORDERS = parse_destination("queue://orders")
NOTES = parse_destination("queue://notes")
PRICES = parse_destination("topic://prices")
SUBSCRIBED = [TopicSubscription(PRICES, name, durable=True, shared=True) for name in ("one", "two")]
_Places = tuple[str, ...]
OPEN: _Places = ("once.noted", "settle.record")
"""Places in a root before the message is sent."""
SENT: _Places = ("settle.committing", "settle.move:1", "settle.move:2", "settle.finished", "once.committed")
"""Places in a root after that."""
OF_TOPICS: tuple[_Places, _Places] = ("fanout.link:1", "fanout.link:2", *OPEN), (*SENT, "settle.move:3")
OF_DATABASES: tuple[_Places, _Places] = ("once.uncommitted",), ("once.committed",)
SENDER = """
import pickle
from connector.messaging.once import OnceKey
provider, destination = pickle.loads(bytes.fromhex(sys.argv[1]))
connection = provider.connect()
connection.send_once(destination, Message(b"first"), OnceKey("suite", "k", 3600, "f1"))
"""


def send(connection: Connection, destination: Destination, body: bytes = b"again") -> SentOnce:
    return connection.send_once(destination, Message(body), OnceKey("suite", "k", 3600, "f2"))


def waiting(connection: Connection, destination: Destination) -> list[list[tuple[str, bytes]]]:
    """Returns id and body of the messages in a queue, or in each of the subscriptions. Takes them."""
    found = []
    for source in [destination] if destination.is_queue else SUBSCRIBED:
        poller = connection.poller(source)
        claims = poller.claim(1, range(10))
        access = connection.access().open()
        found.append([(one.message_id, access.load(one.reference, 100).body) for one in claims])
        poller.close()
    return found


@pytest.mark.parametrize(
    ("kind", "destination"),
    [("dropbox", ORDERS), ("dropbox", PRICES), ("sqlite", ORDERS), ("postgresql", ORDERS)],
)
def test_after_a_kill_the_message_is_sent_once(
    kind: str, destination: Destination, root: Path, children: Children, request: pytest.FixtureRequest
) -> None:
    before, after = OF_DATABASES
    if kind == "dropbox":
        before, after = (OPEN, SENT) if destination.is_queue else OF_TOPICS
    with Table() as table:
        for number, place in enumerate((*before, *after)):
            for takes_over in (True, False):
                with table.row(place, takes_over):
                    made = _new_provider(kind, root / f"{number}{takes_over}", request)
                    _check(made, destination, place, children, is_sent=place in after, takes_over=takes_over)


def _new_provider(kind: str, root: Path, request: pytest.FixtureRequest) -> Provider:
    root.mkdir()
    if kind == "dropbox":
        return DropboxProvider(root, create=True)
    if kind == "sqlite":
        return SqlProvider(Settings(f"sqlite:///{root}/m.db"))
    server = request.getfixturevalue("postgres")
    return SqlProvider(Settings(server.url(server.make_database())))


def _check(
    provider: Provider,
    destination: Destination,
    place: str,
    children: Children,
    *,
    is_sent: bool,
    takes_over: bool,
) -> None:
    heir = provider.connect()
    for source in [] if destination.is_queue else SUBSCRIBED:
        heir.poller(source).close()
    picked = pickle.dumps((provider, destination)).hex()
    status, _, err = children.run(SENDER, picked, fault=f"{place}=kill")
    assert status == -signal.SIGKILL, err
    if takes_over:
        take_over(heir, at_start=True)
    found = heir.find_sent("suite", "k")
    assert (found is not None) is is_sent
    answer = send(heir, destination)
    assert answer.is_new is not is_sent
    assert answer.fingerprint == ("f1" if is_sent else "f2")
    assert found in (None, answer)
    body = b"first" if is_sent else b"again"
    each = waiting(heir, destination)
    assert each == [[(answer.message_id, body)]] * (1 if destination.is_queue else 2)
    assert send(heir, destination) == answer._replace(is_new=False)
    take_over(heir, at_start=True)
    assert waiting(heir, destination) == [[]] * len(each)
    heir.close()


def test_a_queue_that_cannot_be_written_holds_up_its_own_key_only(root: Path) -> None:
    provider = DropboxProvider(root, create=True, durable=False)
    folder = provider.folders(ORDERS).target
    dead, heir = provider.connect(), provider.connect()
    heir.send(NOTES, [Message()])
    with pytest.raises(Died), at("settle.committing", die):
        send(dead, ORDERS, b"first")
    dead.abandon()
    with closed(folder):
        assert heir.send_once(NOTES, Message(), OnceKey("suite", "another", 3600)).is_new
        with pytest.raises(ProviderError, match="Permission denied"):
            send(heir, ORDERS)
    answer = send(heir, ORDERS)
    assert not answer.is_new
    assert waiting(heir, ORDERS) == [[(answer.message_id, b"first")]]
    heir.close()


# -- keys whose time is over -----------------------------------------------------------------------


def use_new_keys(connection: Connection, number: int, keep: float) -> None:
    for key in range(number):
        connection.send_once(ORDERS, Message(), OnceKey("suite", f"{keep}/{key}", keep))


def test_each_new_key_removes_some_files_of_old_keys(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    provider = DropboxProvider(root, create=True, durable=False)
    connection = provider.connect()
    monkeypatch.setattr(sent_keys, "_MOST_REMOVED", 3)
    use_new_keys(connection, 10, keep=0.001)
    use_new_keys(connection, 2, keep=86400)
    now = time.time()
    monkeypatch.setattr(time, "time", lambda: now + 7200)
    keys = sent_keys.SentKeyFiles(provider.layout.application("suite"), durable=False)
    left = [len(_files(keys))]
    for number in range(6):
        connection.send_once(ORDERS, Message(), OnceKey("suite", f"new/{number}", 10))
        left.append(len(_files(keys)))
    assert left == [12, 10, 8, 6, 6, 7, 8]
    assert connection.find_sent("suite", "86400/1") is not None
    connection.close()


def _files(keys: sent_keys.SentKeyFiles) -> list[Path]:
    return list(Path(keys.path("")).parent.glob("sent.*d/*"))


def test_each_new_key_removes_some_rows_of_old_keys(tmp_path: Path) -> None:
    settings = Settings(f"sqlite:///{tmp_path}/m.db", durable=False)
    connection = SqlProvider(settings).connect()
    use_new_keys(connection, 30, keep=0.001)
    time.sleep(0.01)
    use_new_keys(connection, 3, keep=86400)
    with program(settings.url) as other:
        assert other.exec_driver_sql("SELECT count(*) FROM sent_once").scalar() == 3
    connection.close()


def test_what_tidies_a_root_leaves_the_keys(root: Path) -> None:
    provider = DropboxProvider(root, create=True, durable=False)
    connection = provider.connect()
    answer = send(connection, ORDERS)
    remove_forgotten_state(provider.layout)
    assert connection.find_sent("suite", "k") == answer._replace(is_new=False)
    connection.close()


def test_a_key_that_cannot_be_read_sends_nothing_and_names_its_file(root: Path) -> None:
    provider = DropboxProvider(root, create=True, durable=False)
    connection = provider.connect()
    send(connection, ORDERS)
    keys = sent_keys.SentKeyFiles(provider.layout.application("suite"), durable=False)
    (path,) = _files(keys)
    path.write_bytes(b"")
    with pytest.raises(ProviderError, match=f"cannot read {path}.*remove the file"):
        send(connection, ORDERS)
    path.unlink()
    assert send(connection, ORDERS).is_new
    connection.close()
