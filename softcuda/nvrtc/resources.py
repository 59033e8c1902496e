"""Entry points, registers, spills and shared memory of a kernel, from log and machine code.

An NVRTC that finds the machine code in a cache of its own runs no assembler, and its log is empty:
then the code itself is asked.

Source: System V ABI, "ELF-64 Object File Format", for headers of sections; each entry point of a
cubin is a section `.text.NAME`.
"""

from __future__ import annotations

import re
import struct
from typing import Final

from softcuda.nvrtc.unit import Resources

__all__ = ["code_names", "entry_names", "read_resources"]

_ENTRY: Final = re.compile(r"Compiling entry function '([^']+)'")
_USED: Final = re.compile(r"Used (\d+) registers([^\n]*)")
_STACK: Final = re.compile(
    r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads"
)
_SHARED: Final = re.compile(r"(\d+)(?:\+\d+)? bytes smem")
_CODE: Final = b".text."
_HEADERS_AT: Final = 0x28  # of ELF: offset of the headers of sections
_SIZES_AT: Final = 0x3A  # bytes of one, their number, the one that holds names
_BARRIERS: Final = re.compile(r"used (\d+) barriers")


def entry_names(log: str) -> tuple[str, ...]:
    """Return the global functions that a log of `--ptxas-options=-v` tells of, in its order."""
    return tuple(_ENTRY.findall(log))


def code_names(image: bytes) -> tuple[str, ...]:
    """Return the global functions that a cubin holds, in its order; none where it is no cubin."""
    try:
        (headers,) = struct.unpack_from("<Q", image, _HEADERS_AT)
        size, count, names = struct.unpack_from("<HHH", image, _SIZES_AT)
        places = [struct.unpack_from("<I20xQ", image, headers + k * size) for k in range(count)]
        text = places[names][1]
        found = [image[text + at : image.index(b"\0", text + at)] for at, _ in places]
    except (struct.error, IndexError, OverflowError, ValueError):
        return ()
    return tuple(n[len(_CODE) :].decode() for n in found if n.startswith(_CODE))


def read_resources(log: str, name: str) -> Resources | None:
    """Return what a kernel takes, from a log of `--ptxas-options=-v`.

    Args:
        log: the whole log of the program.
        name: the lowered name of the kernel.

    Returns:
        None where the log does not tell of that kernel.
    """
    sections = _ENTRY.split(log)
    for title, text in zip(sections[1::2], sections[2::2], strict=True):
        if title != name:
            continue
        used = _USED.search(text)
        stack = _STACK.search(text.partition(f"Function properties for {name}")[2])
        if used is None:
            return None
        shared, barriers = _SHARED.search(used[2]), _BARRIERS.search(used[2])
        return Resources(
            registers=int(used[1]),
            stack_bytes=int(stack[1]) if stack else 0,
            spill_store_bytes=int(stack[2]) if stack else 0,
            spill_load_bytes=int(stack[3]) if stack else 0,
            shared_bytes=int(shared[1]) if shared else 0,
            barriers=int(barriers[1]) if barriers else 0,
        )
    return None
