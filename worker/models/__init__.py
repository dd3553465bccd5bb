"""Models: what answers a conversation. One adapter per dialect, and the scripted mock.

An adapter speaks one provider's language and nothing else: it starts no tool, retries nothing and decides
nothing about what a stop means. ``anthropic`` and ``openai`` import their SDK, so nobody imports them but a
worker (or a zygote) that needs them.
"""
