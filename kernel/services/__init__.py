"""Long-running services of the kernel: dispatcher, attempts, runs and others; no other package waits.

Services read rows, query a pure policy, act, and commit the result.
"""
