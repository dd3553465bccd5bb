"""Models that answer a conversation: one adapter for each API dialect, and the scripted mock.

An adapter translates one provider's API. It runs no tools, does not retry, and does not interpret stop reasons.
``anthropic`` and ``openai`` import their SDK, so only a worker (or a zygote) that needs them imports them.
"""
