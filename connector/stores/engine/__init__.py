"""The engine of all local providers: implements the provider contract once, on the contracts of a store."""
