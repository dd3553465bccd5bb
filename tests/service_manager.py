"""A service manager of the tests' own: it reads a unit as systemd.service(5) says, and runs what that names."""

import os
import re
import signal
import socket
import subprocess
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

_ESCAPED: Final = {"n": "\n", "t": "\t", "\\": "\\", '"': '"'}


def settings(unit: str) -> dict[str, list[str]]:
    """The settings of a unit, each with all that were given."""
    found: dict[str, list[str]] = {}
    for line in unit.splitlines():
        if line and line[0] not in "#[":
            name, _, value = line.partition("=")
            found.setdefault(name, []).append(value.strip())
    return found


def words(line: str, *, variables: bool) -> list[str]:
    """The words of a line: quotes and escapes are taken off, then specifiers and variables have their turn."""
    found: list[str] = []
    for bare, inner in re.findall(r'\s*(?:([^\s"]\S*)|"((?:[^"\\]|\\.)*)")', line):
        text = bare or re.sub(r"\\(x[0-9a-f]{2}|.)", lambda one: _unescaped(one[1]), inner)
        assert not re.search(r"%(?!%)", text.replace("%%", "")), f"a specifier: {text}"
        text = text.replace("%%", "%")
        if variables and found:
            assert not re.search(r"\$", text.replace("$$", "")), f"a variable: {text}"
            text = text.replace("$$", "$")
        found.append(text)
    return found


def _unescaped(escape: str) -> str:
    return chr(int(escape[1:], 16)) if escape[0] == "x" and len(escape) == 3 else _ESCAPED[escape]


class Manager:
    """Runs the service of one unit: once, until it is ready, and tells it apart by its exit whether it starts again."""

    def __init__(self, unit: str, folder: Path, environ: dict[str, str]) -> None:
        self._unit = settings(unit)
        assert self._unit["Type"] == ["notify"]
        self._folder = folder
        self._environ = environ

    def spawn(self, notify: str) -> "subprocess.Popen[bytes]":
        """Run what the unit runs, in the environment that it says."""
        environ = {name: value for name, value in self._environ.items() if name in ("HOME", "TMPDIR")}
        for line in self._unit["Environment"]:
            name, _, value = words(line, variables=False)[0].partition("=")
            environ[name] = value
        environ |= {"NOTIFY_SOCKET": notify, "WATCHDOG_USEC": "60000000"}
        log = self._unit["StandardError"][0].removeprefix("append:").replace("%%", "%")
        argv = words(self._unit["ExecStart"][0], variables=True)
        with open(log, "ab") as output:
            return subprocess.Popen(
                argv, cwd="/", env=environ, stdin=subprocess.DEVNULL, stdout=output, stderr=output, umask=0o077
            )

    @contextmanager
    def started(self) -> Generator["subprocess.Popen[bytes]"]:
        """Start it, wait for READY=1, and kill what is left of it in the end."""
        address = self._folder / "notify"
        address.unlink(missing_ok=True)
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as end:
            end.bind(str(address))
            end.settimeout(60)
            with self.spawn(str(address)) as process:
                try:
                    while not end.recv(4096).startswith(b"READY=1"):
                        pass
                    yield process
                finally:
                    process.kill()

    def ended(self, code: int) -> bool:
        """Run what is to be run after the end. Returns whether it is to be started again, by ``Restart=on-failure``."""
        killed = code < 0
        result = "success" if code == 0 else "signal" if killed else "exit-code"
        status = signal.Signals(-code).name.removeprefix("SIG") if killed else str(code)
        told = {"SERVICE_RESULT": result, "EXIT_CODE": "killed" if killed else "exited", "EXIT_STATUS": status}
        for line in self._unit["ExecStopPost"]:
            argv = words(line.removeprefix("-"), variables=True)
            subprocess.run(argv, env={"PATH": os.defpath, **told}, check=True, timeout=30)
        assert self._unit["Restart"] == ["on-failure"]
        return code != 0 and str(code) not in self._unit["RestartPreventExitStatus"][0].split()
