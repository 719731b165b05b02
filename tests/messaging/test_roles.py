"""Who implements a role implements all of it, and who has only some roles answers for no other."""

from __future__ import annotations

import inspect

import pytest

from connector.brokers.engine.session_connection import SessionConnection
from connector.messaging import roles
from connector.messaging.lot import LotTaking
from connector.messaging.once import SendingOnce
from connector.messaging.provider import Connection, SessionClient
from connector.stores.engine.connection import LocalConnection
from connector.stores.engine.task_store import TaskStore

ROLES = (
    roles.Taking,
    roles.Settling,
    SendingOnce,
    roles.Looking,
    roles.Subscribing,
    roles.Recovering,
)


def methods(contract: type) -> set[str]:
    return {name for name, _ in inspect.getmembers(contract, callable) if not name.startswith("_")}


@pytest.mark.parametrize("contract", [*ROLES, LotTaking])
def test_a_role_answers_nothing_by_itself(contract: type) -> None:
    assert methods(contract) <= getattr(contract, "__abstractmethods__", frozenset())


def test_a_connection_is_its_six_roles() -> None:
    assert methods(Connection) == set().union(*map(methods, ROLES))


def test_a_session_of_a_broker_has_no_method_of_a_role_that_it_does_not_have() -> None:
    others = methods(Connection) - methods(SessionClient)
    assert others >= {
        "leftovers",
        "find_unowned",
        "adopt",
        "leave_unowned",
        "prune",
        "waiter",
        "picker",
        "send_once",
    }
    assert others & methods(SessionConnection) == set()


@pytest.mark.parametrize("missing", ["owners", "picker"])
def test_a_provider_that_lacks_a_method_fails_at_its_first_connection_and_names_the_method(
    missing: str,
) -> None:
    found = {name: getattr(LocalConnection, name) for name in methods(LocalConnection) - {missing}}
    properties = {name: property(lambda self: "") for name in ("sent_ids", "lots")}
    lacking = type("Shelf", (Connection,), {**found, **properties})
    with pytest.raises(TypeError, match=f"Shelf .*{missing}'?$"):
        lacking()


def test_a_task_store_of_an_earlier_version_fails_at_its_first_use_and_names_the_methods() -> None:
    earlier = type("Shelf", (TaskStore,), {"read": None, "discard": None, "prepare": None})
    with pytest.raises(TypeError, match=r"Shelf .*is_there.*keep.*load.*remove"):
        earlier()
