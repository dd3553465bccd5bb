"""Gateway between attempts and model providers.

Attempts send model requests here with a placeholder, and only the kernel process has the providers' keys.
"""
