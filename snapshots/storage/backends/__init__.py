"""Where a storage keeps its rows: memory, a file of SQLite, a database of PostgreSQL."""
