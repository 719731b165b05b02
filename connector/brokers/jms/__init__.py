"""The provider ``jms``: the messages of a broker, through the broker's own JMS client in this process."""
