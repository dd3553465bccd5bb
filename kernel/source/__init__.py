"""Read files that users wrote: bounded bytes, a tree with locations, typed Structs or located errors.

This package knows YAML and msgspec types, not what an agent or a workflow is.
"""
