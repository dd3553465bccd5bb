"""The one durable log and the tables beside it: the only SQL. It does not know HTTP, processes or files."""
