"""What every local provider shares: the provider contract, implemented once on the contracts of a store."""
