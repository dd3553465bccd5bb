"""The first hundred milliseconds: arguments, lock, listener, discovery record. Standard library only, no trio.

Importing the rest (kernel.app) takes almost a second. Meanwhile clients already get an answer and a proof that this is
their kernel.
"""
