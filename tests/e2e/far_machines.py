"""Programs that lead to other machines, run here for real: an sshd and a SLURM of a test's own, on loopback."""

import getpass
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Generator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from tests.e2e.processes import wait_until

AGENT_WORKER: Final = Path(sys.executable).parent / "agent-worker"
SBIN: Final = f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"
START_SECONDS: Final = 60.0


def program(name: str) -> str | None:
    """The path of a program, also of those that only administrators have on PATH."""
    return shutil.which(name, path=SBIN)


def free_port() -> int:
    with closing(socket.socket()) as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def answers(port: int) -> bool:
    with suppress(OSError), closing(socket.create_connection(("127.0.0.1", port), timeout=1)):
        return True
    return False


def end(process: "subprocess.Popen[bytes]") -> None:
    if process.poll() is None:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(10)


def end_node_processes(folder: Path) -> None:
    """End the node processes below ``folder``: each has its pid in its lock."""
    for lock in folder.rglob("node.lock"):
        with suppress(OSError, ValueError):
            os.kill(int(lock.read_text("ascii")), signal.SIGTERM)


@dataclass(frozen=True)
class Sshd:
    """A server that lets this user in with one key, and the words by which ssh finds it."""

    args: tuple[str, ...]

    @staticmethod
    @contextmanager
    def running(folder: Path, setenv: str = "") -> Generator["Sshd"]:
        """An sshd with keys of its own, while the block lasts. ``setenv``: what who comes in has in his environment."""
        folder.mkdir()
        for name in ("host", "user"):
            subprocess.run(
                ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / name)], check=True, timeout=60
            )
        (folder / "authorized").write_text((folder / "user.pub").read_text())
        port = free_port()
        (folder / "config").write_text(
            f"Port {port}\nListenAddress 127.0.0.1\nHostKey {folder}/host\nPidFile none\nUsePAM no\nStrictModes no\n"
            f"AuthorizedKeysFile {folder}/authorized\nPasswordAuthentication no\nKbdInteractiveAuthentication no\n"
            + (f"SetEnv {setenv}\n" if setenv else "")
        )
        host_key = (folder / "host.pub").read_text().split()[:2]
        (folder / "known").write_text(f"[127.0.0.1]:{port} {' '.join(host_key)}\n")
        if os.geteuid() == 0:
            Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)
        sshd = program("sshd")
        assert sshd is not None
        with (folder / "log").open("wb") as log:
            server = subprocess.Popen([sshd, "-D", "-e", "-f", str(folder / "config")], stdout=log, stderr=log)
        try:
            wait_until(lambda: answers(port) or server.poll() is not None, START_SECONDS)
            assert server.poll() is None, (folder / "log").read_text()
            known = f"UserKnownHostsFile={folder}/known"
            yield Sshd(
                ("-F", "none", "-p", str(port), "-i", str(folder / "user"), "-o", "IdentitiesOnly=yes", "-o", known)
            )
        finally:
            end(server)


@dataclass(frozen=True)
class Ray:
    """A Ray of one machine."""

    python: str
    address: str

    @staticmethod
    @contextmanager
    def running(python: str) -> Generator["Ray"]:
        """A head with four CPUs, while the block lasts. ``python`` has the package ray."""
        with TemporaryDirectory(prefix="ray") as short:  # the paths of its sockets are long already
            folder = Path(short)
            with Ray._head(folder, python) as head:
                yield head

    @staticmethod
    @contextmanager
    def _head(folder: Path, python: str) -> Generator["Ray"]:
        port = free_port()
        address = f"127.0.0.1:{port}"
        words = [str(Path(python).parent / "ray"), "start", "--head", "--block", f"--port={port}", "--num-cpus=4"]
        words += ["--node-ip-address=127.0.0.1", "--include-dashboard=false", "--disable-usage-stats"]
        environ = {
            "PATH": f"{Path(python).parent}:{AGENT_WORKER.parent}:{SBIN}",
            "HOME": str(folder),
            "RAY_TMPDIR": str(folder),
        }
        with (folder / "log").open("wb") as log:
            head = subprocess.Popen([*words, f"--temp-dir={folder}"], stdout=log, stderr=log, env=environ, cwd=folder)
        try:
            said = folder / "log"
            wait_until(lambda: "runtime started" in said.read_text() or head.poll() is not None, START_SECONDS)
            found = re.search(r"--address='([0-9.]+:[0-9]+)'", said.read_text())
            assert head.poll() is None, said.read_text()
            yield Ray(python, address if found is None else found[1])
        finally:
            end(head)


@dataclass(frozen=True)
class Slurm:
    """A cluster of one machine with two nodes, as SLURM sees it."""

    conf: Path

    def jobs(self) -> list[str]:
        environ = {"PATH": SBIN, "SLURM_CONF": str(self.conf)}
        asked = subprocess.run(
            ["squeue", "-h", "-o", "%i"], env=environ, capture_output=True, text=True, timeout=30, check=True
        )
        return asked.stdout.split()

    @staticmethod
    @contextmanager
    def running(folder: Path) -> Generator["Slurm"]:
        """munged, slurmctld and two slurmd, while the block lasts. Needs root."""
        folder.mkdir()
        host = socket.gethostname().split(".")[0]
        (folder / "key").write_bytes(os.urandom(1024))
        (folder / "key").chmod(0o400)
        for name in ("state", "spool-n1", "spool-n2", "munge"):
            (folder / name).mkdir(mode=0o755)
        ports = {name: free_port() for name in ("ctld", "n1", "n2")}
        conf = folder / "slurm.conf"
        conf.write_text(
            f"ClusterName=test\nSlurmctldHost={host}(127.0.0.1)\nSlurmUser={getpass.getuser()}\n"
            f"SlurmdUser={getpass.getuser()}\nAuthType=auth/munge\nAuthInfo=socket={folder}/munge/socket\n"
            f"SlurmctldPort={ports['ctld']}\nStateSaveLocation={folder}/state\nSlurmdSpoolDir={folder}/spool-%n\n"
            f"SlurmctldPidFile={folder}/ctld.pid\nSlurmdPidFile={folder}/%n.pid\nSlurmctldLogFile={folder}/ctld.log\n"
            f"SlurmdLogFile={folder}/%n.log\nProctrackType=proctrack/linuxproc\nTaskPlugin=task/none\n"
            "SelectType=select/cons_tres\nSelectTypeParameters=CR_Core\nReturnToService=2\nMpiDefault=none\n"
            "SlurmdParameters=config_overrides\nSwitchType=switch/none\nJobAcctGatherType=jobacct_gather/none\n"
            "AccountingStorageType=accounting_storage/none\nJobCompType=jobcomp/none\nSlurmctldTimeout=30\n"
            f"NodeName=n1 NodeHostname={host} NodeAddr=127.0.0.1 Port={ports['n1']} CPUs=4 RealMemory=2000\n"
            f"NodeName=n2 NodeHostname={host} NodeAddr=127.0.0.1 Port={ports['n2']} CPUs=4 RealMemory=2000\n"
            "PartitionName=all Nodes=n1,n2 Default=YES MaxTime=INFINITE State=UP OverSubscribe=YES\n"
        )
        environ = {"PATH": SBIN, "SLURM_CONF": str(conf), "HOME": str(folder)}
        commands = [
            ["munged", "-F", "--force", "--key-file", str(folder / "key"), "--socket", str(folder / "munge" / "socket"),
             "--pid-file", str(folder / "munge.pid"), "--log-file", str(folder / "munge.log"),
             "--seed-file", str(folder / "munge.seed")],
            ["slurmctld", "-D", "-f", str(conf)],
            ["slurmd", "-D", "-f", str(conf), "-N", "n1"],
            ["slurmd", "-D", "-f", str(conf), "-N", "n2"],
        ]  # fmt: skip
        started: list[subprocess.Popen[bytes]] = []
        with (folder / "daemons.log").open("wb") as log:
            try:
                for words in commands:
                    found = program(words[0])
                    assert found is not None
                    started.append(
                        subprocess.Popen([found, *words[1:]], stdout=log, stderr=log, env=environ, cwd=folder)
                    )
                    if words[0] == "munged":
                        wait_until((folder / "munge" / "socket").exists, START_SECONDS)

                def up() -> bool:
                    words = ["sinfo", "-h", "-o", "%T"]
                    asked = subprocess.run(words, env=environ, capture_output=True, text=True, timeout=30, check=False)
                    return asked.stdout.split() == ["idle"]

                wait_until(up, START_SECONDS)
                yield Slurm(conf)
            finally:
                for process in reversed(started):
                    end(process)
