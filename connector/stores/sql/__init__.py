"""The provider ``sql``: queues and topics in the tables of a database, SQLite or PostgreSQL."""
