"""The provider ``memory``: messages in the memory of one process. For tests of users' own code."""
