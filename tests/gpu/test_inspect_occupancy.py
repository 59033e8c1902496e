"""What inspect_kernels computes without a device is what the driver says of a loaded kernel."""

from __future__ import annotations

from softcuda.driver.enums import CUfunction_attribute
from softcuda.executor.on_demand import cuda_target, session
from softcuda.kernelspec import KernelSpec
from softcuda.target import Target
from softcuda.tools.inspect_occupancy import occupancy
from softcuda.tools.inspect_rows import cuda_backends


def one_of_each_family() -> list[KernelSpec]:
    families = {spec.family: spec for specs in cuda_backends().values() for spec in specs}
    return list(families.values())


def test_registers_local_memory_and_occupancy() -> None:
    target, loader = cuda_target(), session().loader
    assert isinstance(target, Target), target
    specs = [spec for spec in one_of_each_family() if not spec.refusal(target.arch)]
    assert specs
    loader.prepare(specs)
    for spec in specs:
        found = loader.cache.get(spec.unit, target.arch).resources
        assert found is not None, spec
        function = loader.function(spec)
        function.allow(spec.shared_bytes)
        assert function.attribute(CUfunction_attribute.NUM_REGS) == found.registers, spec
        assert function.attribute(CUfunction_attribute.LOCAL_SIZE_BYTES) >= found.stack_bytes, spec
        computed = occupancy(target.arch, found, spec.threads, spec.shared_bytes)
        assert computed is not None, target.arch
        told = function.max_active_blocks(spec.threads, spec.shared_bytes)
        assert told == computed.blocks, f"{spec}: {computed}"
