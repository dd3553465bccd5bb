"""Numbered migrations, forward only. Each ends by setting ``user_version`` to its own number."""
