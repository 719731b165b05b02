"""Properties of messages to which a broker or its client library gives a meaning."""

from __future__ import annotations

import re
from typing import Final

NOT_COPIED: Final = re.compile(
    r"_AMQ_.*"  # Artemis: duplicate detection, last value, group, scheduled delivery, routing
    r"|_HQ_.*"  # HornetQ, the same
    r"|AMQ_SCHEDULED_.*"  # ActiveMQ Classic: delay, period, repeat, cron
    r"|JMS_AMQP_TTL"  # Qpid JMS: a time to live that overrides that of the sender
    r"|JMS_AMQP_TYPED_ENCODING"  # Qpid JMS: how the body of an object message is encoded
    r"|JMS_IBM_Report_.*"  # IBM MQ: asks for a report about the message
    r"|JMS_TIBCO_PRESERVE_UNDELIVERED"  # TIBCO EMS: a queue for what is not delivered
    r"|JMS_Solace_(DeliverToOne|DeadMsgQueueEligible|ElidingEligible)",  # Solace: how to deliver
    re.DOTALL,
)
"""Names of properties that tell a broker what to do with a message, each with its broker.

The sender meant the first message with them. A broker that sees them again delivers the copy late, twice or
never, or refuses it as a duplicate.
"""
