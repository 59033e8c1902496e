"""Device code of the driver tests: PTX, which the driver itself compiles, so no NVRTC is needed."""

from __future__ import annotations

PTX = b"""
.version 7.0
.target sm_75
.address_size 64
.extern .shared .align 16 .b8 scratch[];

// data[i] += value for i < n
.visible .entry add_value(.param .u64 data, .param .u64 n, .param .f32 value)
{
    .reg .pred %p<2>;
    .reg .b32 %r<5>;
    .reg .b64 %rd<6>;
    .reg .f32 %f<4>;
    mov.u32 %r1, %ctaid.x;
    mov.u32 %r2, %ntid.x;
    mov.u32 %r3, %tid.x;
    mad.lo.u32 %r4, %r1, %r2, %r3;
    cvt.u64.u32 %rd1, %r4;
    ld.param.u64 %rd2, [n];
    setp.ge.u64 %p1, %rd1, %rd2;
    @%p1 ret;
    ld.param.u64 %rd3, [data];
    ld.param.f32 %f1, [value];
    shl.b64 %rd4, %rd1, 2;
    add.u64 %rd5, %rd3, %rd4;
    ld.f32 %f2, [%rd5];
    add.f32 %f3, %f2, %f1;
    st.f32 [%rd5], %f3;
    ret;
}

// returns after so many clock cycles
.visible .entry wait_cycles(.param .u64 cycles)
{
    .reg .pred %p<2>;
    .reg .b64 %rd<5>;
    ld.param.u64 %rd1, [cycles];
    mov.u64 %rd2, %clock64;
AGAIN:
    mov.u64 %rd3, %clock64;
    sub.u64 %rd4, %rd3, %rd2;
    setp.lt.u64 %p1, %rd4, %rd1;
    @%p1 bra AGAIN;
    ret;
}

// writes where nothing is
.visible .entry fault()
{
    .reg .b64 %rd<2>;
    mov.u64 %rd1, 16;
    st.u32 [%rd1], 1;
    ret;
}

// asks for shared memory at launch
.visible .entry use_smem()
{
    .reg .b32 %r<2>;
    mov.u32 %r1, 7;
    st.shared.u32 [scratch], %r1;
    ret;
}
"""
