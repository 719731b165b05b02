"""The messaging core under the local providers: channels, sessions and subscriptions over any of them."""
