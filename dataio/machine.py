"""What this process may use: cores and memory, by affinity and cgroup limits. AUTOTUNE knows neither quota."""

from __future__ import annotations

import math
import os
import platform
from pathlib import Path

import psutil

_CGROUP = Path("/sys/fs/cgroup")


def usable_cores(cgroup: Path = _CGROUP) -> int:
    """Cores this process may keep busy, at least 1: the smaller of its affinity and its cgroup's CPU quota.

    Source: cpu.max of cgroup v2 (`quota period`, or `max`), cpu.cfs_quota_us of v1; Linux kernel documentation,
    "Control Group v2". A quota of 2.5 cores counts as 3: threads may outnumber it slightly, never starve it.
    """
    affinity = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else (os.cpu_count() or 1)
    quotas = []
    for folder in _own_cgroups(cgroup):
        v2 = _words(folder / "cpu.max")
        if len(v2) == 2 and v2[0] != "max":
            quotas.append(int(v2[0]) / int(v2[1]))
    quota, period = _words(cgroup / "cpu/cpu.cfs_quota_us"), _words(cgroup / "cpu/cpu.cfs_period_us")
    if quota and period and int(quota[0]) > 0:
        quotas.append(int(quota[0]) / int(period[0]))
    return max(1, min([affinity, *(math.ceil(quota) for quota in quotas)]))


def cpu_model() -> str:
    """The processor's name as the kernel gives it, such as `AMD EPYC 7B13`; `unknown` where it gives none.

    Source: `model name` of /proc/cpuinfo (x86); elsewhere `platform.processor()` or the machine type.
    """
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass  # not Linux
    return platform.processor() or platform.machine() or "unknown"


def usable_memory_bytes(cgroup: Path = _CGROUP) -> int:
    """Bytes this process may still take without swapping or being killed: the smaller of MemAvailable and what is
    left of the cgroup's limit (page cache of the group counts as free, since the kernel drops it first).

    Source: memory.max, memory.current and `file` of memory.stat; Linux kernel documentation, "Control Group v2".
    """
    available = int(psutil.virtual_memory().available)
    for folder in _own_cgroups(cgroup):
        limit, used = _words(folder / "memory.max"), _words(folder / "memory.current")
        if limit and used and limit[0] != "max":
            stat = dict(zip(*[iter(_words(folder / "memory.stat"))] * 2, strict=False))
            cached = int(stat.get("inactive_file", 0)) + int(stat.get("active_file", 0))
            available = min(available, int(limit[0]) - int(used[0]) + cached)
    return max(0, available)


def anonymous_memory_bytes(pid: int | None = None) -> int:
    """Anonymous memory of a process in bytes (RssAnon): what it took for itself.

    RSS would also count mapped pages of LMDB and HDF5 files, which are page cache that the kernel can drop.
    Where /proc is missing, the unique set size that psutil reports stands in.
    """
    status = Path(f"/proc/{pid or 'self'}/status")
    if status.exists():
        for line in status.read_text().splitlines():
            if line.startswith("RssAnon:"):
                return int(line.split()[1]) * 1024
    return int(psutil.Process(pid).memory_full_info().uss)


def _own_cgroups(root: Path) -> list[Path]:
    """The v2 groups from this process's own up to the root: a limit may be set on any of them."""
    own = root
    try:
        for line in Path("/proc/self/cgroup").read_text().splitlines():
            number, _, path = line.split(":", 2)
            if number == "0":
                own = root / path.lstrip("/")
    except OSError:
        return [root]
    groups = [own, *own.parents]
    return [group for group in groups if group == root or root in group.parents]


def _words(path: Path) -> list[str]:
    try:
        return path.read_text().split()
    except OSError:  # the file does not exist outside its cgroup version, or may not be read
        return []
