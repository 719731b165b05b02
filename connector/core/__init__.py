"""The messaging core: sessions and subscriptions over any provider."""
