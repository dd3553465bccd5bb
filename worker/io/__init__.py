"""The waits of a worker in two ways: on Trio's event loop, and by a blocking poll without any.

Scripts (the mock backend without tools) use the poll: after a fork each page that is touched is copied, and Trio alone
touches 500. It took a mock worker from 1115 page faults and 6.5 ms of CPU to 485 and 2.4, in alternating runs. Trio is
the plain way, which every other worker goes: ``tests/e2e/test_reuse.py`` runs a script on it.

Measure: ``scripts/bench replies``; and a script with and without ``tools: [files]``, which puts it on Trio.
"""
