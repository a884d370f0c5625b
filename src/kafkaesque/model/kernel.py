"""Chooses the compiled record kernel, or its pure-Python twin where nothing could be compiled.

Callers write `kernel.active.scan_batches(...)` at each call, so that tests can switch.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from kafkaesque.model.kernel_types import Kernel


def load_kernel(name: str) -> Kernel:
    """Return the kernel "compiled" or "python".

    Raises:
        ImportError: the compiled one was not built.
        ValueError: there is no kernel of that name.
    """
    if name == "compiled":
        from kafkaesque.model import _kernel

        return _kernel
    if name == "python":
        from kafkaesque.model import _kernel_py

        return _kernel_py
    raise ValueError(f"there is no kernel {name!r}: it is 'compiled' or 'python'")


def _load_best() -> tuple[str, Kernel]:
    try:
        return "compiled", load_kernel("compiled")
    except ImportError:
        return "python", load_kernel("python")


active: Kernel
name: str
name, active = _load_best()


@contextmanager
def use_kernel(wanted: str) -> Iterator[Kernel]:
    """Use the named kernel within the block, in the whole process; for tests and benchmarks."""
    global name, active
    before = name, active
    name, active = wanted, load_kernel(wanted)
    try:
        yield active
    finally:
        name, active = before
