"""Git: repositories, working trees, branches and packs.

Every git runs in a view of our own, so that nothing which a repository brings along is run.
"""
