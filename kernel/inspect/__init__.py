"""Says what files mean, in a process of its own: no kernel, no event loop, no network, one JSON document on stdout.

It knows the loader. What runs is not known here.
"""
