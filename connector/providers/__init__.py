"""Where messages live. One folder a provider; none knows another."""
