"""Messages in the memory of one process: for tests of those who build on us, and honest about it."""
