"""Compiles the kernel where a compiler is found; the package installs and works without one.

With KAFKAESQUE_PURE=1 nothing is compiled: such a wheel fits every machine.
"""

import os
from pathlib import Path

from setuptools import Extension, setup

KERNEL = Path("src/kafkaesque/model/_kernel.pyx")


def kernel_extensions() -> list[Extension]:
    """The compiled twin of `kafkaesque.model._kernel_py`, or nothing where it cannot be made."""
    if not KERNEL.exists() or os.environ.get("KAFKAESQUE_PURE") == "1":
        return []
    try:
        from Cython.Build import cythonize
    except ImportError:
        return []
    kernel = Extension(
        "kafkaesque.model._kernel",
        [str(KERNEL)],
        extra_compile_args=["-O3"],
    )
    extensions: list[Extension] = cythonize(
        [kernel], build_dir="build/cython", compiler_directives={"language_level": "3"}
    )
    for extension in extensions:
        # cythonize builds new objects and drops this flag, so it is set on what it returns.
        extension.optional = True
    return extensions


setup(ext_modules=kernel_extensions())
