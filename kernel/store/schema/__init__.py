"""The schema, and numbered migrations from it, forward only. Each script sets ``user_version`` to its own number."""
