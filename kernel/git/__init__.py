"""Git: repositories, working trees, branches and packs.

Every git command runs in a private view, which excludes hooks, filters and settings of the repository.
"""
