"""The commands under ``awk tool``, one module each."""
