"""The commands under ``awk skills``, one module each."""
