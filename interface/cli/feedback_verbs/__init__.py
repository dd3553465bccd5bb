"""The commands under ``awk feedback``, one module each."""
