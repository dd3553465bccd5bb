"""Virtual environments that hold this program under another version, sound or broken, without installing anything."""

import shutil
import sys
import sysconfig
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]
PACKAGES: Final = ("protocol", "kernel", "worker", "interface", "osfiles")


def make_version(folder: Path, version: str, **appended: str) -> Path:
    """Make one in ``folder``: a copy of our packages, and the libraries of this environment.

    ``appended``: text at the end of a module, which is named with ``__`` in place of dots (``kernel__app``).
    """
    tree = folder / "tree"
    for package in PACKAGES:
        shutil.copytree(ROOT / package, tree / package, ignore=shutil.ignore_patterns("node_modules"))
    for name, text in {"protocol__discovery": f'VERSION = "{version}"', **appended}.items():
        append(folder, name, text)
    (folder / "bin").mkdir()
    (folder / "bin" / "python").symlink_to(Path(sys.executable).resolve())
    home = Path(sysconfig.get_config_var("BINDIR"))
    (folder / "pyvenv.cfg").write_text(f"home = {home}\ninclude-system-site-packages = false\n")
    site = folder / "lib" / f"python{sys.version_info[0]}.{sys.version_info[1]}" / "site-packages"
    site.mkdir(parents=True)
    (site / "version.pth").write_text(f"{tree}\n{sysconfig.get_paths()['purelib']}\n")
    return folder


def append(folder: Path, module: str, text: str) -> None:
    """Change what ``make_version`` made, as somebody does who installs something else over it."""
    file = folder / "tree" / f"{module.replace('__', '/')}.py"
    file.write_text(f"{file.read_text('utf-8')}\n{text}\n", "utf-8")
