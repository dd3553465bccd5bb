"""``python -m tests.wire [NAME...]``: make recordings, all of them unless some are named."""

import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.wire.recording import FOLDER, RECORDINGS, make

FOLDER.mkdir(exist_ok=True)
for name in sys.argv[1:] or RECORDINGS:
    with TemporaryDirectory() as root:
        (FOLDER / name).write_text(make(name, Path(root)), "utf-8")
for file in FOLDER.iterdir():
    if file.name not in RECORDINGS:
        file.unlink()
