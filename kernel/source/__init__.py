"""Reads files that users wrote: bounded bytes, a tree with places, typed Structs or located errors.

It knows YAML and msgspec types, not what an agent or a workflow is.
"""
