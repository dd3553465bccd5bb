"""What waits: the dispatcher, the attempts it runs, the runs it ends. Nothing else in the kernel waits.

Services decide nothing themselves: they read rows, ask a pure policy, act, and commit what came of it.
"""
