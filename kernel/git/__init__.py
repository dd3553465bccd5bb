"""Git: repositories, working trees, branches and packs.

Every git command runs in a view: a temporary git directory without the repository's hooks, filters and settings.
"""
