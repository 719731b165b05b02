"""The suite that every provider passes.

Subclass it in a test module. Define fixtures for the provider and for a destination that cannot be written::

    class TestShelf(ProviderSuite):
        able = ShelfProvider.capabilities

        @pytest.fixture
        def provider(self, tmp_path):
            return ShelfProvider(tmp_path)

        @pytest.fixture
        def unwritable(self, provider):
            provider.refuse("blocked")
            return parse_destination("queue://blocked")

For a provider whose messages other programs can spoil, say ``can_spoil = True``, and define a fixture
``spoil``.
For a provider with a redelivery limit, also define a fixture ``limited``: an empty provider with a limit of
two.

Every test checks one sentence of :mod:`connector.messaging.provider` and begins with an empty provider. For
an ability that is missing in its ``capabilities``, the suite expects a refusal. The suite needs the ``dev``
extra (pytest).
"""

from __future__ import annotations

from tests.provider_suite.bad_messages import BadMessageTests
from tests.provider_suite.broker_transactions import BrokerTransactionTests
from tests.provider_suite.browsing import BrowsingTests
from tests.provider_suite.claiming import ClaimingTests
from tests.provider_suite.delaying import DelayingTests
from tests.provider_suite.duplicates import DuplicateTests
from tests.provider_suite.fencing import FencingTests
from tests.provider_suite.groups import GroupTests
from tests.provider_suite.in_progress import InProgressRefusedTests, InProgressTests
from tests.provider_suite.keeping import KeepingTests
from tests.provider_suite.lasting import LastingTests
from tests.provider_suite.lending import LendingTests
from tests.provider_suite.limits import LimitTests
from tests.provider_suite.lots import LotsRefusedTests, LotTests
from tests.provider_suite.message_groups import MessageGroupsIgnoredTests, MessageGroupTests
from tests.provider_suite.once import OnceRefusedTests, OnceTests
from tests.provider_suite.owning import OwningTests
from tests.provider_suite.picking import PickingTests
from tests.provider_suite.recovery import RecoveryTests
from tests.provider_suite.replies import SentIdTests, WakingTests
from tests.provider_suite.returning import ReturningTests
from tests.provider_suite.selectors import SelectorsRefusedTests, SelectorTests
from tests.provider_suite.sending import SendingTests
from tests.provider_suite.sessions import SessionTests
from tests.provider_suite.settling import SettlingTests
from tests.provider_suite.subscription_names import SubscriptionNameTests
from tests.provider_suite.subscription_rules import SubscriptionRuleTests
from tests.provider_suite.subscriptions import SubscriptionTests
from tests.provider_suite.taking import TakingTests
from tests.provider_suite.tasks import TaskTests
from tests.provider_suite.temporary import TemporaryRefusedTests, TemporaryTests
from tests.provider_suite.topics import TopicsRefusedTests, TopicTests
from tests.provider_suite.transactions import TransactionTests
from tests.provider_suite.virtual import VirtualRefusedTests, VirtualTests
from tests.provider_suite.waiting import WaitingTests


class ProviderSuite(
    SendingTests,
    TakingTests,
    ClaimingTests,
    BrowsingTests,
    BadMessageTests,
    ReturningTests,
    DelayingTests,
    SettlingTests,
    GroupTests,
    MessageGroupsIgnoredTests,
    MessageGroupTests,
    KeepingTests,
    FencingTests,
    TransactionTests,
    SessionTests,
    OnceRefusedTests,
    OnceTests,
    TaskTests,
    WakingTests,
    WaitingTests,
    SentIdTests,
    DuplicateTests,
    RecoveryTests,
    PickingTests,
    LotsRefusedTests,
    LotTests,
    LendingTests,
    BrokerTransactionTests,
    InProgressRefusedTests,
    InProgressTests,
    OwningTests,
    LastingTests,
    LimitTests,
    SelectorsRefusedTests,
    SelectorTests,
    TopicsRefusedTests,
    TopicTests,
    SubscriptionTests,
    SubscriptionRuleTests,
    SubscriptionNameTests,
    TemporaryRefusedTests,
    TemporaryTests,
    VirtualRefusedTests,
    VirtualTests,
):
    """The tests of a provider. Override the fixtures ``provider``, ``unwritable`` and ``limited``."""
