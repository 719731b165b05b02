"""Remote providers: one engine, and one client library each. No client knows another."""
