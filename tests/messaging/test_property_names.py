"""Which names a program may give a property (JMS 2.0, 3.5.1)."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from connector.errors import SelectorError
from connector.messaging.message import Message
from connector.messaging.selector import compile_selector
from connector.messaging.selectors.identifiers import KEYWORDS, check_property_name, is_providers_own
from tests.tables import rows

NAMES = st.one_of(
    st.text(min_size=1, max_size=8),
    st.from_regex(r"\A(JMSX?_?)?[A-Za-z_$][\w$]{0,6}\Z"),
    st.sampled_from(sorted(KEYWORDS)).map(str.lower),
)


def is_allowed(name: str) -> bool:
    try:
        check_property_name(name)
    except ValueError:
        return False
    return True


def is_found(name: str) -> bool:
    """Whether a selector finds a property by its name, and nothing else."""
    message = Message()
    message.set_property(name, "there")
    try:
        return compile_selector(f"{name} = 'there'").matches(message)
    except SelectorError:
        return False


@given(NAMES)
@example("JMSXGroupID")
@example("größe")
@example("\ud800")
@example("a\u200db")
@example("a b")
@example("JMSPriority")
def test_a_name_is_allowed_exactly_when_a_selector_finds_it_and_no_provider_sets_it(name: str) -> None:
    assert is_allowed(name) == (is_found(name) and not is_providers_own(name))


@rows(
    "name, why",
    [
        ("", "needs a name"),
        ("a b", "it has ' '"),
        ("1a", "it has '1', expected a letter"),
        ("a-b", "it has '-'"),
        ("Null", "word of the selectors"),
        ("between", "word of the selectors"),
        ("JMSXDeliveryCount", "counts deliveries"),
        ("JMS_dropboxmq_hdr", "begin with JMS_"),
        ("JMSPriority", "are headers"),
        ("JMSFoo", "are headers"),
    ],
)
def test_a_name_that_is_not_allowed_is_refused_with_the_reason(name: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        check_property_name(name)
