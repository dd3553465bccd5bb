"""The first hundred milliseconds: arguments, lock, listener, discovery record. Standard library only, no trio.

What comes after (kernel.app) takes the best part of a second to import; a client that asks meanwhile
already gets an answer and proof that this is its kernel.
"""
