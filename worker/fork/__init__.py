"""Workers forked from an interpreter that has everything loaded: keeper, child, preloading, warming, huge pages.

Without it each attempt starts a fresh interpreter: 290 ms from spawn to the first frame instead of 8, measured in
alternating runs on a busy machine, and seconds more where it imports a model's SDK. Of that, huge pages take a third
off the CPU of an attempt where both SDKs are loaded, and warming saves each worker what code does for the first time.
The zygote itself is ``worker.zygote``.

Measure: ``scripts/bench workers``, and the same with ``AGENT_WORKER_LAUNCHER=exec``, the plain way, in which only the
keeper and the child are used.
"""
