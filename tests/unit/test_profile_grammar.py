"""What a profile may say, and what each mistake is answered with."""

from __future__ import annotations

import pytest
from profile_text import HEAD, WHOLE, profile_of

from softcuda.errors import ConfigError
from softcuda.profile.grammar import parse
from softcuda.profile.model import (
    CostPoint,
    Crossing,
    DeviceFacts,
    PoolSettings,
    Row,
    Threshold,
    Transfer,
)
from softcuda.profile.vocabulary import known_backends, work_ops


def test_whole_profile() -> None:
    profile = profile_of(WHOLE)
    assert dict(profile.meta) == {
        "soft_version": "0.1.0",
        "device_hash": "ab%cd",
        "generated_at": "2026-03-18T09:00:00Z",
    }
    assert profile.device == DeviceFacts(
        "cuda",
        "NVIDIA GeForce RTX 3050",
        "8.6",
        "8192",
        "13.0",
        "20",
        "99",
        "2",
        "Abacus 9000",
        "4",
    )
    assert profile.rows == (
        Row("matmul", None, 0, 128, "cpu_blas", 20, "small"),
        Row("matmul", None, 128, 512, "cuda_naive", 21),
        Row("matmul", None, 512, None, "cuda_tiled", 22, "not measured"),
        Row("matmul", "f16", 0, None, "cuda_tiled", 23),
        Row("relu", None, 0, None, "cuda_elementwise", 24),
    )
    assert profile.thresholds == (
        Threshold("matmul", "f32", Crossing(384, 20), Crossing(96, 8), 26),
        Threshold("relu", None, None, Crossing(16777216, None, False), 27),
    )
    assert profile.costs == (
        CostPoint("matmul", "f32", 128, (("cpu", 41.2), ("cuda", 9.8)), 29),
        CostPoint("matmul", "f32", 256, (("cpu", 329.6), ("cuda", 19.6)), 30),
    )
    assert profile.transfer == (
        Transfer("h2d", 8.1, 53.6, line=32),
        Transfer("d2h", 9.0, 25.0, line=33),
    )
    assert profile.policy == "min_cut"
    assert profile.pool == PoolSettings("cuda", 2097152)


def test_what_may_be_left_out() -> None:
    profile = profile_of(HEAD + "matmul|size<8=cpu_blas\nmatmul | 8<=size<9 =cpu_fused\n"
                                "matmul | size>=9=cpu_fallback")  # fmt: skip
    assert [(row.low, row.high) for row in profile.rows] == [(0, 8), (8, 9), (9, None)]
    assert profile.policy == "table"
    assert profile.device == DeviceFacts("cpu")
    assert profile.pool == PoolSettings("cpu", 2097152)


def test_rows_may_stand_in_any_order() -> None:
    profile = profile_of(HEAD + "relu | size >= 9 = cpu_fused\nadd | any = cpu_fused\n"
                                "relu | size < 9 = cpu_fallback\n")  # fmt: skip
    assert profile.lookup("relu", "f32", 8) == Row("relu", None, 0, 9, "cpu_fallback", 6)


def test_a_user_backend_is_known_where_it_is_named() -> None:
    text = HEAD + "relu | any = mine"
    with pytest.raises(ConfigError, match=r"unknown backend 'mine'.*cpu_fused"):
        profile_of(text)
    assert (
        parse(text, "x", work_ops(), known_backends({"mine": "cpu"})).rows[0].backend_id == "mine"
    )


# The line that the error names, then parts of its message.
Expected = tuple[int | str | None, ...]

ROW_ERRORS: dict[str, Expected] = {
    # text of the rows, from line 4: (line, parts of the message)
    "matmul | size < 128 = cpu_blas\nmatmul | size >= 512 = cpu_blas": (
        5, "matmul leave 128 <= size < 512 uncovered", "on line 4", "line 5"),
    "matmul | size >= 8 = cpu_blas": (4, "matmul leave size < 8 uncovered", "line 4", "add a row"),
    "matmul | size < 8 = cpu_blas": (4, "matmul leave size >= 8 uncovered", "line 4"),
    "matmul[f32] | size < 8 = cpu_blas\nmatmul | any = cpu_blas": (
        4, "matmul[f32] leave size >= 8 uncovered"),
    "matmul | size < 129 = cpu_blas\nmatmul | size >= 128 = cpu_blas": (
        5, "overlap", "both hold size 128", "'matmul | size < 129' on line 4", "this line 5"),
    "matmul | size >= 128 = cpu_blas\nmatmul | size < 129 = cpu_blas": (
        5, "overlap", "'matmul | size >= 128' on line 4"),
    "matmul | any = cpu_blas\nrelu | any = cpu_fused\nmatmul | 3 <= size < 5 = cpu_blas": (
        6, "overlap", "on line 4", "line 6"),
    "matmul | any = cpu_blas\n\nmatmul | any = cpu_fused": (
        6, "duplicate", "on line 4", "line 6"),
    "matmul[f32] | any = cpu_blas\nmatmul[f32] | any = cpu_blas": (5, "duplicate", "matmul[f32]"),
    "matmull | any = cpu_blas": (4, "unknown op 'matmull'", "matmul,"),
    "subtract | any = cpu_fused": (4, "unknown op 'subtract'", "its token here is 'sub'"),
    "dot | any = cpu_blas": (4, "unknown op 'dot'", "the row matmul covers"),
    "permute | any = cpu_fallback": (4, "unknown op 'permute'", "a view, which does no work"),
    "transpose | any = cpu_fallback": (4, "unknown op 'transpose'", "a view"),
    "input | any = cpu_fallback": (4, "unknown op 'input'", "a leaf"),
    "matmul[f8] | any = cpu_blas": (4, "unknown dtype 'f8'", "f16, bf16"),
    "matmul[] | any = cpu_blas": (4, "unknown dtype ''", "f32"),
    "matmul[f32 | any = cpu_blas": (4, "'matmul[f32' names no op"),
    "| any = cpu_blas": (4, "'' names no op"),
    "matmul | any = blas": (4, "unknown backend 'blas'", "on cpu: cpu_blas", "on cuda: cuda_"),
    "matmul | any = cpu_blas cpu_fused": (4, "unknown backend 'cpu_blas cpu_fused'"),
    "matmul | any = view": (4, "unknown backend 'view'"),
    "matmul | any = cpu_blas#small": (4, "unknown backend 'cpu_blas#small'"),
    "matmul | any =": (4, "unknown backend ''"),
    "matmul | size < 1e3 = cpu_blas": (4, "the bound '1e3' is no whole number"),
    "matmul | size < -1 = cpu_blas": (4, "the bound '-1'"),
    "matmul | size < 1_000 = cpu_blas": (4, "the bound '1_000'"),
    "matmul | size < 128.5 = cpu_blas": (4, "the bound '128.5'"),
    "matmul | size < \u0661\u0662 = cpu_blas": (4, "the bound"),
    "matmul | size < 9223372036854775808 = cpu_blas": (4, "9223372036854775807"),
    "matmul | size < " + "9" * 5000 + " = cpu_blas": (4, "the bound '999"),
    "matmul | size < 0 = cpu_blas": (4, "holds no size"),
    "matmul | 8 <= size < 8 = cpu_blas": (4, "'8 <= size < 8' holds no size"),
    "matmul | 9 <= size < 8 = cpu_blas": (4, "holds no size"),
    "matmul | size <= 8 = cpu_blas": (4, "'size <= 8' is no range", "size >= N"),
    "matmul | size > 8 = cpu_blas": (4, "'size > 8' is no range"),
    "matmul | 8 < size < 9 = cpu_blas": (4, "is no range"),
    "matmul | all = cpu_blas": (4, "'all' is no range", "'any'"),
    "matmul | = cpu_blas": (4, "'' is no range"),
    "matmul = cpu_blas": (4, "'matmul = cpu_blas' is no row"),
    "matmul | size >= 512": (4, "'matmul | size >= 512' is no row"),
    "matmul | 128 <= si": (4, "is no row"),
    "matmul | any = cpu_blas = cpu_fused": (4, "is no row"),
    "matmul": (4, "'matmul' is no row", "allowed is 'op | range = backend'"),
}  # fmt: skip

OTHER_ERRORS: dict[str, Expected] = {
    # text: (line, parts of the message)
    "": (None, "empty", "soft_version"),
    "# only\n; comments\n\n": (None, "empty"),
    "\ufeff": (None, "empty"),
    "[ops]\nmatmul | any = cpu_blas\n": (None, "there is no [meta]", "soft_version = 0.1.0"),
    "[meta]\n[ops]\nmatmul | any = cpu_blas": (1, "[meta] has no soft_version"),
    "[meta]\nsoft_version = new\n[ops]\nadd | any = cpu_fused": (2, "soft_version is 'new'"),
    "[meta]\nsoft_version = 1111111111\n": (2, "soft_version is '1111111111'"),
    "[meta]\nsoft_version = 1\ngenerated_at = yesterday": (
        3,
        "generated_at is 'yesterday'",
        "ISO 8601",
    ),
    "[meta]\nsoft_version = 1\ngenerated_at = 2026-02-30T00:00:00Z": (3, "'2026-02-30T"),
    "[meta]\nsoft_version = 0.1.0\n": (None, "there is no [ops]", "cut short"),
    "[meta]\nsoft_version = 0.1.0\n[ops]\n# none": (3, "[ops] has no rows"),
    "soft_version = 0.1.0": (1, "before any section", "[meta]"),
    "[meta\n": (1, "'[meta' is no section line", "[meta]"),
    "[meta] x\n": (1, "is no section line"),
    "[]\n": (1, "unknown section '[]'"),
    "[Meta]\n": (1, "unknown section '[Meta]'", "[meta], [device]"),
    "[meta]\n[ops]\n[meta]\n": (3, "section [meta] stands here and on line 1"),
    "[meta]\nversion = 1": (2, "unknown key 'version' in [meta]", "soft_version"),
    "[meta]\nsoft_version": (2, "'soft_version' is no 'key = value'"),
    "[meta]\n= 3": (2, "is no 'key = value'"),
    "[meta]\nsoft_version =  # 1": (2, "soft_version has no value"),
    "[meta]\nsoft_version = 1\nsoft_version = 1": (3, "duplicate", "line 3", "on line 2"),
    "[device]\nram = 3": (2, "unknown key 'ram' in [device]", "vram_mb"),
    "[meta]\nsoft\x00_version = 1": (2, "column 5", "control character '\\x00'"),
}

TAIL_ERRORS: dict[str, Expected] = {
    # text after a valid head of 4 lines: (line, parts of the message)
    "[device]\ntype = tpu": (6, "type is 'tpu'", "cpu and cuda"),
    "[device]\nvram_mb = 8 GB": (6, "vram_mb '8 GB'"),
    "[device]\ncompute_capability = sm_86": (6, "compute_capability is 'sm_86'", "8.6"),
    "[placement]\npolicy = best": (6, "policy is 'best'", "table and min_cut"),
    "[pool]\ndevice = gpu": (6, "device is 'gpu'"),
    "[pool]\nblock_size = 2 MiB": (6, "block_size '2 MiB'"),
    "[pool]\nblock_size = 0": (6, "block_size '0'", "1 to"),
    "[transfer]\np2p = 1 us + 1 GB/s": (6, "unknown key 'p2p'", "h2d and d2h"),
    "[transfer]\nh2d = 8.1 ms + 53.6 GB/s": (6, "is no transfer", "LATENCY us + RATE GB/s"),
    "[transfer]\nh2d = 8.1 us": (6, "is no transfer"),
    "[transfer]\nh2d = 8 us + 5 GB/s, 1 B": (6, "'1 B' is no transfer", "1024 B 8.2 us"),
    "[transfer]\nh2d = 8 us + 5 GB/s, 9 B 1 us, 8 B 2 us": (6, "points of 9 and 8 B", "ascend"),
    "[transfer]\nh2d = 8 us + 5 GB/s, 0 B 1 us": (6, "points of 0 B", "ascend from 1"),
    "[transfer]\nh2d = 8 us + 5 GB/s, 9 B 0 us": (6, "its time '0'"),
    "[transfer]\nh2d = 8.1 us + 0 GB/s": (6, "the rate '0'"),
    "[transfer]\nh2d = nan us + 1 GB/s": (6, "the latency 'nan'"),
    "[costs]\nmatmul = cpu 41.2": (6, "is no cost", "size = N"),
    "[costs]\nmatmul | size < 128 = cpu 41.2": (6, "is no cost"),
    "[costs]\nmatmul | size = 0 = cpu 41.2": (6, "the size '0'", "1 to"),
    "[costs]\nmatmul | size = 8 = 41.2": (6, "'41.2' is no cost"),
    "[costs]\nmatmul | size = 8 = tpu 41.2": (6, "'tpu 41.2' is no cost"),
    "[costs]\nmatmul | size = 8 = cpu 1, cpu 2": (6, "'cpu' stands twice"),
    "[costs]\nmatmul | size = 8 = cpu 0": (6, "the time '0'"),
    "[costs]\nmatmul | size = 8 = cpu 1e999": (6, "the time '1e999'"),
    "[costs]\nmatmul | size = 8 = cpu -1": (6, "the time '-1'"),
    "[costs]\nreshape | size = 8 = cpu 1": (6, "unknown op 'reshape'"),
    "[costs]\nadd | size = 8 = cpu 1\n\nadd | size = 8 = cuda 1": (8, "duplicate", "on line 6"),
    "[thresholds]\nmatmul | 384": (6, "is no threshold"),
    "[thresholds]\nmatmul = 384": (6, "'384' is no crossing", "none below SIZE"),
    "[thresholds]\nmatmul = disk 384": (6, "'disk 384' is no crossing"),
    "[thresholds]\nmatmul = host 3.5": (6, "the size '3.5'"),
    "[thresholds]\nmatmul = host 384 ± x": (6, "the uncertainty 'x'"),
    "[thresholds]\nmatmul = host 3, host 4": (6, "'host' stands twice"),
    "[thresholds]\nmatmul = host none below x": (6, "the size 'x'"),
    "[thresholds]\nadd = host 1\nadd = host 1": (7, "duplicate", "on line 6"),
}


def _check(text: str, expected: Expected) -> None:
    line, *parts = expected
    with pytest.raises(ConfigError) as caught:
        profile_of(text, "my/CONFIG.soft")
    assert caught.value.line == line
    message = str(caught.value)
    assert message.startswith("my/CONFIG.soft" + (":" if line is None else f":{line}:"))
    for part in parts:
        assert str(part) in message


@pytest.mark.parametrize("text", ROW_ERRORS, ids=lambda text: text[:40])
def test_row_errors(text: str) -> None:
    _check(HEAD + text, ROW_ERRORS[text])


@pytest.mark.parametrize("text", OTHER_ERRORS, ids=lambda text: text[:40].replace("\x00", "NUL"))
def test_errors_of_the_whole(text: str) -> None:
    _check(text, OTHER_ERRORS[text])


@pytest.mark.parametrize("text", TAIL_ERRORS)
def test_errors_of_other_sections(text: str) -> None:
    _check(HEAD + "add | any = cpu_fused\n" + text, TAIL_ERRORS[text])


def test_messages_stay_short() -> None:
    with pytest.raises(ConfigError) as caught:
        profile_of(HEAD + "matmul | any = " + "x" * 100_000)
    assert len(str(caught.value)) < 1000


PLAIN = """[meta]
soft_version = 0.1.0
[ops]
add | any = cpu_fused
[costs]
# us
add[f32] | size = 1 = cpu 2.5, cuda 9.0
add[f32] | size = 64 = cpu 3.5
add      | size = 1 = cuda 9.0
{last}
[pool]
device = cpu
"""


def test_plain_costs_are_read_as_others_are() -> None:
    plain = profile_of(PLAIN.format(last="sub | size = 1 = cpu 1.0"))
    loose = profile_of(PLAIN.format(last="sub | size=1 = cpu 1").replace(" = cpu 2.5", "= cpu 2.5"))
    assert plain.costs == loose.costs
    assert [cost.line for cost in plain.costs] == [7, 8, 9, 10]


@pytest.mark.parametrize(
    ("last", "line", "said"),
    [
        ("subtract | size = 1 = cpu 1.0", 10, "unknown op 'subtract'"),
        ("add[f33] | size = 1 = cpu 1.0", 10, "unknown dtype 'f33'"),
        ("add[f32] | size = 64 = cpu 1.0", 10, "duplicate: the costs of add[f32] at size 64"),
        ("add | size = 2 = cpu 0.0", 10, "the time '0.0' is no number above 0"),
        ("add | size = 0 = cpu 1.0", 10, "the size '0'"),
    ],
)
def test_wrong_lines_among_plain_costs_are_found(last: str, line: int, said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        profile_of(PLAIN.format(last=last))
    assert caught.value.line == line
    assert said in str(caught.value)
