"""Descendants: found, spared, signalled, adopted. In a process of its own, since a subreaper adopts for good."""

import subprocess
import sys

import pytest

PRELUDE = """
import atexit, os, signal, subprocess, sys
from worker import process_tree as tree
from worker.process_tree import reap

tree.become_subreaper()
atexit.register(tree.signal_descendants, signal.SIGKILL)

def start(script):
    child = subprocess.Popen(["sh", "-c", script], stdout=subprocess.PIPE)
    return child, int(child.stdout.readline())

def reap_all():
    ended, childless = {}, False
    while not childless:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOWAIT)
        more, childless = reap()
        ended |= more
    return ended
"""


def run(script: str) -> str:
    command = [sys.executable, "-I", "-c", PRELUDE + script]
    done = subprocess.run(command, capture_output=True, text=True, timeout=20, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.promise("P7")
def test_a_subreaper_adopts_and_can_end_what_left_its_parent() -> None:
    out = run("""
child, orphan = start("(setsid sh -c 'trap \\"\\" TERM; echo $$; exec sleep 1000' &)")
child.wait()
assert tree.stat(orphan).parent == os.getpid()
assert tree.signal_descendants(signal.SIGKILL) == 1
print(reap_all() == {orphan: signal.SIGKILL})
""")
    assert out == "True\n"


def test_who_is_spared_keeps_all_below_it() -> None:
    out = run("""
spared, below = start("sh -c 'echo $$; exec sleep 1000'; exit 2")
other, deeper = start("sh -c 'echo $$; exec sleep 1000'; exit 3")
print(tree.signal_descendants(signal.SIGKILL, spare={spared.pid}))
print(other.wait(), tree.stat(below) is not None, spared.poll())
""")
    assert out == "2\n-9 True None\n"


def test_both_ways_of_listing_children_agree() -> None:
    out = run("""
child, _ = start("echo $$; exec sleep 1000")
print(tree._listed_children(os.getpid()) == tree._scanned_children(os.getpid()) == [child.pid])
""")
    assert out == "True\n"


def test_a_process_that_is_gone_has_no_stat_and_no_children() -> None:
    assert (
        run("""
child = subprocess.Popen(["true"])
child.wait()
print(tree.stat(child.pid), tree.children(child.pid))
""")
        == "None []\n"
    )
