"""Git: repositories, working trees, branches and packs.

Every git command runs in a private view, where hooks, filters and settings of the repository have no effect.
"""
