"""Huge arithmetic: elementwise ops, reductions, rows and running sums (see huge_claims.py)."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np
from huge_claims import (
    COLUMN_PERIOD,
    ROW_PERIOD,
    Claim,
    Everywhere,
    Few,
    Fields,
    Repeats,
    Table,
    distinct_columns,
    distinct_rows,
    even_numbers,
    product,
    spread,
)

import softcuda as sc
from softcuda.dtype import f16, f32

Array = np.ndarray[Any, Any]
Claims = list[Claim]

REDUCE = "cuda_reduce"
ELEMENTWISE = ("cuda_elementwise", "cuda_naive")
BOTH = (REDUCE, "cuda_naive")

ARITHMETIC = Table()


# Elementwise


@ARITHMETIC.case("mul", *ELEMENTWISE)
def dense(fields: Fields) -> Claims:
    rows, columns = spread(fields)
    return [product(fields.numbers * 2.0, rows * 2, columns)]


@ARITHMETIC.case("mul", *ELEMENTWISE)
def turned(fields: Fields) -> Claims:
    return [product(fields.numbers.T * 2.0, fields.columns[:, None] * 2, fields.rows)]


@ARITHMETIC.case("mul", *ELEMENTWISE)
def backwards(fields: Fields) -> Claims:
    rows, columns = spread(fields)
    return [product(fields.numbers[::-1, ::-1] * 2.0, rows[::-1] * 2, columns[::-1])]


@ARITHMETIC.case("logical_not", *ELEMENTWISE)
def bytes_of_bools(fields: Fields) -> Claims:
    left, right = ~fields.row_bits[:, None], fields.column_bits
    return [Everywhere(sc.logical_not(fields.bits), operator.xor, left, right)]


@ARITHMETIC.case("cast", *ELEMENTWISE, "cuda_permute")
def casts(fields: Fields) -> Claims:
    rows, columns = fields.rows.astype(np.float32), fields.columns.astype(np.float32)
    found = sc.cast(fields.numbers.T, f32)
    return [Everywhere(found, operator.mul, columns[:, None], rows)]


# Reductions


def sums(fields: Fields, axis: int) -> Few:
    """Return the sums of the squares along an axis, in f32."""
    squares = sc.square(sc.cast(fields.numbers, f32))
    along, kept = (fields.rows, fields.columns) if axis == 0 else (fields.columns, fields.rows)
    total = np.sum(along.astype(np.float64) ** 2)
    expected = kept.astype(np.float64) ** 2 * total
    return Few(sc.sum(squares, axis), expected, "sum", len(along), expected)


@ARITHMETIC.case("sum", REDUCE)
def sums_of_rows_and_columns(fields: Fields) -> Claims:
    everything = np.sum(fields.rows.astype(float) ** 2) * np.sum(fields.columns.astype(float) ** 2)
    squares = sc.square(sc.cast(fields.numbers, f32))
    count = len(fields.rows) * len(fields.columns)
    true = int(fields.row_bits.sum()), int(fields.column_bits.sum())
    odd = true[0] * (len(fields.columns) - true[1]) + (len(fields.rows) - true[0]) * true[1]
    return [
        sums(fields, 0),
        sums(fields, 1),
        Few(sc.sum(squares), np.array(everything), "sum", count, everything),
        Few(sc.sum(fields.bits), np.array(odd)),
    ]


@ARITHMETIC.case("sum", "cuda_naive")
def sums_one_thread_each(fields: Fields) -> Claims:
    expected = (fields.row_bits[:, None] ^ fields.column_bits[:1]).sum(1)
    few = sc.sum(fields.bits[:, :1], 1)
    true = int(fields.column_bits.sum())
    whole = np.where(fields.row_bits, len(fields.columns) - true, true)
    return [Few(few, expected), Few(sc.sum(fields.bits, 1), whole)]


@ARITHMETIC.case("max", *BOTH)
def extremes(fields: Fields) -> Claims:
    return [
        Few(sc.max(fields.numbers, 0), distinct_columns(fields, np.max)),
        Few(sc.max(fields.numbers, 1), distinct_rows(fields, np.max)),
    ]


@ARITHMETIC.case("argmin", *BOTH)
def places_of_extremes(fields: Fields) -> Claims:
    return [
        Few(sc.argmin(fields.numbers, 0), distinct_columns(fields, np.argmin)),
        Few(sc.argmin(fields.numbers, 1), distinct_rows(fields, np.argmin)),
    ]


@ARITHMETIC.case("argmax", REDUCE)
def places_beyond_the_boundary(fields: Fields) -> Claims:
    """The largest element stands almost last, and alone."""
    flat = sc.reshape(fields.numbers, (-1,))
    last = flat.shape[0]
    longer = sc.concat([flat, sc.full((1,), 7.0, f16), flat[:1]])
    return [Few(sc.argmax(longer), np.array(last))]


@ARITHMETIC.case("sum", REDUCE)
def sums_of_short_rows(fields: Fields) -> Claims:
    rows, columns, x = even_numbers(fields)
    sums = columns.reshape(-1, 64).astype(np.float64).sum(1)
    return [product(sc.sum(sc.reshape(x, (-1, 64)), 1), rows, sums)]


@ARITHMETIC.case("any", REDUCE)
def conditions(fields: Fields) -> Claims:
    rows, columns = fields.row_bits, fields.column_bits
    some = np.where(rows, not columns.all(), columns.any())
    every = np.where(columns, not rows.any(), rows.all())
    return [Few(sc.any(fields.bits, 1), some), Few(sc.all(fields.bits, 0), every)]


@ARITHMETIC.case("mean", REDUCE)
def moments(fields: Fields) -> Claims:
    def deviation(row: Array) -> Any:
        return np.mean(row * row)

    means = distinct_rows(fields, np.mean)
    scale = distinct_rows(fields, lambda row: np.mean(np.abs(row)))
    variances = distinct_columns(fields, deviation)
    return [
        Few(sc.mean(fields.numbers, 1), means, "mean", len(fields.columns), scale),
        Few(sc.var(fields.numbers, 0), variances, "var", len(fields.rows), variances),
    ]


# Rows


@ARITHMETIC.case("softmax", *BOTH)
def softmax_of_rows(fields: Fields) -> Claims:
    _, columns, even = even_numbers(fields)
    claims: Claims = []
    for x, along in ((fields.numbers, fields.columns), (even, columns)):
        first = softmax_rows(np.outer(ROW_PERIOD, along.astype(np.float64)))
        found = sc.softmax(x, 1)
        claims.append(Repeats(found, 0, len(ROW_PERIOD), first, "softmax", len(along)))
    return claims


@ARITHMETIC.case("log_softmax", REDUCE)
def softmax_of_columns(fields: Fields) -> Claims:
    first = np.log(softmax_rows(np.outer(COLUMN_PERIOD, fields.rows.astype(np.float64)))).T
    found = sc.log_softmax(fields.numbers, 0)
    return [Repeats(found, 1, len(COLUMN_PERIOD), first, "log_softmax", len(fields.rows))]


@ARITHMETIC.case("layer_norm", *BOTH)
def layer_norms(fields: Fields) -> Claims:
    _, columns, even = even_numbers(fields)
    claims: Claims = []
    for x, along in ((fields.numbers, fields.columns), (even, columns)):
        wide = np.outer(ROW_PERIOD, along.astype(np.float64))
        mean, variance = wide.mean(1, keepdims=True), wide.var(1, keepdims=True)
        first = (wide - mean) / np.sqrt(variance + 1e-5)
        found = sc.layer_norm(x)
        claims.append(Repeats(found, 0, len(ROW_PERIOD), first, "layer_norm", len(along)))
    return claims


def softmax_rows(x: Array) -> Array:
    away = np.exp(x - x.max(1, keepdims=True))
    return np.asarray(away / away.sum(1, keepdims=True))


# Running sums: those of a product along one factor are the other times the sums of the first


@ARITHMETIC.case("cumsum", *BOTH)
def running_sums(fields: Fields) -> Claims:
    rows, columns = fields.rows.astype(np.float64), fields.columns.astype(np.float64)
    return [
        product(sc.cumsum(fields.numbers, 0), np.cumsum(rows)[:, None], columns),
        product(sc.cumsum(fields.numbers, 1), rows[:, None], np.cumsum(columns)),
    ]


@ARITHMETIC.case("cumsum", REDUCE)
def one_running_sum(fields: Fields) -> Claims:
    """Whole rows add up to 0, so each row begins anew."""
    found = sc.cumsum(sc.reshape(fields.numbers, (-1,)), 0)
    return [product(found, fields.rows[:, None], np.cumsum(fields.columns.astype(np.float64)))]
