"""The messaging core: channels, sessions and subscriptions over any provider."""
