"""The messaging core under the local providers: what a channel is, whatever it is stored in."""
