"""The channels of JBoss Messaging Core, on the sessions of :mod:`connector.core`. Off the way of an event."""
