"""Local providers: one engine, and one store each. No store knows another."""
