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

For a provider with a redelivery limit, also define a fixture ``limited``: an empty provider with a limit of
two.

Every test checks one sentence of :mod:`connector.messaging.provider` and begins with an empty provider. For
an ability that is missing in its ``capabilities``, the suite expects a refusal. The suite needs the ``dev``
extra (pytest).
"""

from __future__ import annotations

from connector.testing.provider_suite.browsing import Browsing
from connector.testing.provider_suite.claiming import Claiming
from connector.testing.provider_suite.duplicates import Duplicates
from connector.testing.provider_suite.fencing import Fencing
from connector.testing.provider_suite.groups import Groups
from connector.testing.provider_suite.in_progress import InProgress, InProgressRefused
from connector.testing.provider_suite.keeping import Keeping
from connector.testing.provider_suite.lasting import Lasting
from connector.testing.provider_suite.lending import Lending
from connector.testing.provider_suite.limits import Limits
from connector.testing.provider_suite.message_groups import MessageGroups, MessageGroupsIgnored
from connector.testing.provider_suite.recovery import Recovery
from connector.testing.provider_suite.replies import SentIds, Waking
from connector.testing.provider_suite.returning import Returning
from connector.testing.provider_suite.selectors import Selectors, SelectorsRefused
from connector.testing.provider_suite.sending import Sending
from connector.testing.provider_suite.sessions import Sessions
from connector.testing.provider_suite.settling import Settling
from connector.testing.provider_suite.subscription_names import SubscriptionNames
from connector.testing.provider_suite.subscription_rules import SubscriptionRules
from connector.testing.provider_suite.subscriptions import Subscriptions
from connector.testing.provider_suite.taking import Taking
from connector.testing.provider_suite.tasks import Tasks
from connector.testing.provider_suite.temporary import Temporary, TemporaryRefused
from connector.testing.provider_suite.topics import Topics, TopicsRefused
from connector.testing.provider_suite.transactions import Transactions
from connector.testing.provider_suite.virtual import Virtual, VirtualRefused
from connector.testing.provider_suite.waiting import Waiting


class ProviderSuite(
    Sending,
    Taking,
    Claiming,
    Browsing,
    Returning,
    Settling,
    Groups,
    MessageGroupsIgnored,
    MessageGroups,
    Keeping,
    Fencing,
    Transactions,
    Sessions,
    Tasks,
    Waking,
    Waiting,
    SentIds,
    Duplicates,
    Recovery,
    Lending,
    InProgressRefused,
    InProgress,
    Lasting,
    Limits,
    SelectorsRefused,
    Selectors,
    TopicsRefused,
    Topics,
    Subscriptions,
    SubscriptionRules,
    SubscriptionNames,
    TemporaryRefused,
    Temporary,
    VirtualRefused,
    Virtual,
):
    """The tests of a provider. Override the fixtures ``provider``, ``unwritable`` and ``limited``."""
