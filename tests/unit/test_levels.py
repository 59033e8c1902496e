"""Levels of steps, and lifetimes under which steps of one level do not wait for memory."""

from __future__ import annotations

from functools import partial

import pytest
from made_steps import HERS, LEAF, OTHER, OUT, OUTSIDE, OWN, kernel
from op_cases import fast_profile

import softcuda as sc
from softcuda.compiler import allocate
from softcuda.compiler.arena import Lifetime
from softcuda.compiler.levels import levels_of, parted
from softcuda.compiler.table import format_bytes


def test_levels() -> None:
    steps = [
        kernel([LEAF], [0]),
        kernel([0], [1]),
        kernel([0], [2]),
        kernel([LEAF, 2], [OWN]),
        kernel([1, OTHER], [OUT]),
        kernel([LEAF], [3]),
        kernel([OTHER, 3], [HERS]),
    ]
    assert levels_of(steps, OUTSIDE) == [1, 2, 2, 3, 3, 1, 4]


def test_memory_is_kept_from_steps_that_could_run_beside_its_users() -> None:
    """A branch of long steps hangs at each link of a chain, as weight gradients do."""
    depth, steps = 12, [kernel([LEAF], [0])]
    for link in range(1, depth):
        steps += [kernel([2 * link - 2], [2 * link]), kernel([2 * link - 2], [2 * link + 1])]
    levels = levels_of(steps, OUTSIDE)
    assert max(levels) == depth
    spans = {}
    for value in range(2 * depth):
        users = [
            number
            for number, step in enumerate(steps)
            if value in [operand.value for operand in (*step.inputs, *step.outputs)]
        ]
        if users:
            spans[value] = Lifetime(256, users[0], users[-1])
    longer = parted(spans, steps, levels)
    for value, (nbytes, first, last) in spans.items():
        assert longer[value][:2] == (nbytes, first) and longer[value].last >= last
        users = [k for k, step in enumerate(steps) if value in [x.value for x in step.inputs]]
        for step in range(longer[value].last + 1, len(steps)):
            assert all(levels[user] < levels[step] for user in users)
    chain = [kernel([k], [k + 1]) for k in range(6)]
    alone = {k: Lifetime(256, max(0, k - 1), min(k, 5)) for k in range(7)}
    assert parted(alone, chain, levels_of(chain, {})) == alone, "a chain needs no more memory"


@pytest.mark.parametrize("extent", [64, 1024, 2048])
def test_the_table_says_what_is_alive_however_much_is_kept_apart(
    extent: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Products that are added up one by one could all run at once, in memory of their own."""
    x, *factors = (sc.input((extent, extent), device="cuda") for _ in range(9))
    total = x @ factors[0]
    for factor in factors[1:]:
        total = total + x @ factor
    compiled = partial(sc.compile, sc.max(total), fast_profile(), target="sm_90a")
    made = compiled()
    monkeypatch.setattr(allocate, "_PARTED_BYTES", 0)
    reused = compiled()
    size, least = (each.program.arenas["cuda"] for each in (made, reused))
    assert size.peak_bytes == least.peak_bytes
    assert f"most alive at once {format_bytes(least.peak_bytes)}" in str(made)
    assert size.nbytes <= max(allocate._PARTED * size.peak_bytes, 32 << 20)
    assert (size.nbytes > least.nbytes) == (extent < 2048), "8 x 16 MiB are not kept apart"
