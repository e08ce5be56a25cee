"""What a process runs on."""

import os
import platform
from pathlib import Path

CPU_INFO = Path("/proc/cpuinfo")


def cpu() -> str:
    """The processor's name, as far as the system tells it."""
    lines = CPU_INFO.read_text(encoding="utf-8").splitlines() if CPU_INFO.exists() else []
    named = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(named, platform.processor() or platform.machine())


def cpus() -> int:
    """CPUs that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
