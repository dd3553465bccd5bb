"""Processes kept ready, so that a message does not wait for a fork: keepers that serve again, and a standby worker.

Without them each attempt forks a keeper and a worker first, and from message to reply takes 1.8 times as long (measured
in alternating runs; a fork costs some 2 ms of page copies). ``directory_pool`` beside this does the same for run
directories: on a file system that discards blocks at once, to remove one stops the kernel's loop for milliseconds.

Measure: ``scripts/bench replies workers``. The plain way is the exec launcher, which has none of it: run the same with
``AGENT_WORKER_LAUNCHER=exec``; ``tests/e2e/test_exec_launcher.py`` runs messages so.
"""
