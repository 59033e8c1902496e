"""Recording what a stream is given into a driver graph.

Source: CUDA Driver API, "Stream Management", cuStreamBeginCapture.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from ctypes import byref, c_void_p

from softcuda.driver.context import Context
from softcuda.driver.enums import CUstreamCaptureMode
from softcuda.driver.graph import CudaGraph
from softcuda.driver.stream import Stream
from softcuda.errors import SoftCudaError

__all__ = ["Recording", "capture"]


class Recording:
    """What a capture recorded.

    Attributes:
        graph: the driver graph, not instantiated; None until the block has ended well.
    """

    __slots__ = ("graph",)

    def __init__(self) -> None:
        self.graph: CudaGraph | None = None


@contextmanager
def capture(
    context: Context, *, stream: Stream, label: str = "driver graph"
) -> Iterator[Recording]:
    """Yield a holder whose `graph` is set, at the end of the block, to what the stream was given.

    Work submitted to the stream inside the block is recorded instead of run. Memory may be
    released meanwhile, also by the garbage collector (relaxed capture).

    Raises:
        DriverError: the block did what cannot be recorded.
    """
    driver, state, handle = context.driver, context.state, stream.handle
    was_idle = handle not in state.pending
    recorded, holder = c_void_p(), Recording()
    with context.current():
        driver.cuStreamBeginCapture_v2(handle, int(CUstreamCaptureMode.RELAXED))
        try:
            yield holder
        except BaseException:
            try:
                driver.cuStreamEndCapture(handle, byref(recorded))
            except SoftCudaError:
                recorded.value = None
            if recorded.value:
                driver.cuGraphDestroy(recorded.value)
            raise
        finally:
            if was_idle:
                state.settle(handle)
        driver.cuStreamEndCapture(handle, byref(recorded))
    holder.graph = CudaGraph.adopt(context, recorded.value or 0, label)
