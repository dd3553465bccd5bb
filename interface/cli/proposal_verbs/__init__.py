"""The commands under ``awk proposal``, one module each."""
