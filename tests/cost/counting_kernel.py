"""Kernel that counts its calls, and answers each line of its input with the counts."""

import json
import os
import sys
import threading
from types import CodeType, FrameType
from typing import TextIO

from kernel.source import files

STATS = frozenset({os.stat, os.lstat, os.fstat})
_calls: dict[CodeType, int] = {}
_others = {"stats": 0}


def _count(frame: FrameType, event: str, argument: object) -> None:
    if event == "call":
        _calls[frame.f_code] = _calls.get(frame.f_code, 0) + 1
    elif event == "c_call" and argument in STATS:
        _others["stats"] += 1


def _report(answers: TextIO) -> None:
    for _ in sys.stdin:
        named: dict[str, int] = {}
        for code, count in list(_calls.items()):
            name = f"{'/'.join(code.co_filename.split('/')[-2:])} {code.co_qualname}"
            named[name] = named.get(name, 0) + count
        with open("/proc/self/io", encoding="ascii") as io:
            written = next(int(line.split()[1]) for line in io if line.startswith("wchar"))
        print(json.dumps({"functions": named, "bytes": written, **_others}), file=answers, flush=True)


if __name__ == "__main__":
    from kernel.__main__ import main

    files.SETTLED_SECONDS = 0.0  # type: ignore[misc]  # as if the files were written a while ago
    threading.Thread(target=_report, args=[os.fdopen(os.dup(1), "w")], daemon=True).start()
    sys.setprofile(_count)  # of this thread only
    os._exit(main())
