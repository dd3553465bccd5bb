"""The composition root: builds the house in order of dependency, and takes it down in reverse. No logic.

flock (boot) -> database and migrations -> the dead kernel's trees are proved gone -> its work is requeued ->
launcher -> HTTP and MCP -> dispatcher. Nothing is leased before all of it stands (promises.md 4.7).
"""

import os
import random
import signal
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import trio

from kernel.agents.catalog import Catalog
from kernel.api.context import Services
from kernel.api.serve import serve
from kernel.boot.arguments import Boot
from kernel.boot.doorstep import Doorstep
