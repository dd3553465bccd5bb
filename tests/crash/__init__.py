"""The kernel dies at every point that has a name; what it told its clients is compared with what is there afterwards.

``scripts/soak crash`` runs every point; the tests here run a sample of them, and prove that the judge can say no.
"""
