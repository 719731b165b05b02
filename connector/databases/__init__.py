"""Databases: their URLs and errors, and the databases with the business data of processes."""
