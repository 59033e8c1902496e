"""Huge movement: copies, indices, creation, random numbers and products (see huge_claims.py)."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np
from huge_claims import (
    BOUNDARY,
    COLUMN_PERIOD,
    ROW_PERIOD,
    Claim,
    Everywhere,
    Few,
    Fields,
    Table,
    even_numbers,
    periodic,
    product,
    spread,
)
from numpy_philox import random_values

import softcuda as sc
from softcuda.dtype import bool_, f16, i64
from softcuda.graph.params import Random

Array = np.ndarray[Any, Any]
Claims = list[Claim]

NAIVE = "cuda_naive"
ELEMENTWISE = ("cuda_elementwise", NAIVE)
COPIES = ("cuda_permute", NAIVE)
PRODUCTS = ("cuda_tiled", "cuda_contract", NAIVE)

MOVEMENT = Table()


# Copies


@MOVEMENT.case("copy", *COPIES)
def transposes(fields: Fields) -> Claims:
    left, right = fields.column_bits[:, None], fields.row_bits
    return [
        product(sc.copy(fields.numbers.T), fields.columns[:, None], fields.rows),
        Everywhere(sc.copy(fields.bits.T), operator.xor, left, right),
    ]


@MOVEMENT.case("copy", *COPIES)
def transposes_of_vectors(fields: Fields) -> Claims:
    rows, columns, x = even_numbers(fields)
    return [product(sc.copy(x.T), columns[:, None], rows[:, 0])]


@MOVEMENT.case("copy", *COPIES)
def runs(fields: Fields) -> Claims:
    """Runs of the innermost axis stay whole: [r, a, b] -> [a, r, b]."""
    count, part = len(fields.columns) - 3, (len(fields.columns) - 3) // 64
    cut = sc.reshape(fields.bits[:, :count], (len(fields.rows), 64, part))
    left = fields.row_bits[None, :, None]
    right = fields.column_bits[:count].reshape(64, 1, part)
    return [Everywhere(sc.copy(sc.permute_dims(cut, (1, 0, 2))), operator.xor, left, right)]


@MOVEMENT.case("concat", NAIVE)
def joins(fields: Fields) -> Claims:
    rows, columns = spread(fields)
    x, half = fields.numbers, len(fields.rows) // 2
    return [
        product(
            sc.concat([x[half:], x[:half]]), np.concatenate([rows[half:], rows[:half]]), columns
        ),
        product(
            sc.concat([x[:, 3:], x[:, :3]], axis=1),
            rows,
            np.concatenate([columns[3:], columns[:3]]),
        ),
    ]


@MOVEMENT.case("concat", NAIVE)
def mixed_joins(fields: Fields) -> Claims:
    """Bools join numbers: as many zeros as columns, all from one False."""
    rows, columns = spread(fields)
    nothing = sc.broadcast_to(sc.zeros((1,), bool_), (5, columns.size))
    found = sc.concat([fields.numbers, nothing])
    return [product(found, np.concatenate([rows, np.zeros((5, 1))]), columns)]


@MOVEMENT.case("stack", NAIVE)
def stacks(fields: Fields) -> Claims:
    bits, rows = fields.bits, fields.row_bits
    left = np.stack([rows, rows[::-1]])[:, :, None]
    found = sc.stack([bits, bits[::-1]])
    return [Everywhere(found, operator.xor, left, fields.column_bits)]


@MOVEMENT.case("pad", NAIVE)
def borders(fields: Fields) -> Claims:
    rows, columns = np.pad(fields.rows, (1, 2)), np.pad(fields.columns, (3, 0))
    return [product(sc.pad(fields.numbers, ((1, 2), (3, 0))), rows[:, None], columns)]


@MOVEMENT.case("tril", NAIVE)
def triangles(fields: Fields) -> Claims:
    shape = fields.numbers.shape
    rows, columns = np.arange(shape[0])[:, None], np.arange(shape[1])
    ones = sc.full(shape, 1, bool_)
    return [
        Everywhere(sc.tril(ones, 5), operator.ge, rows + 5, columns),
        Everywhere(sc.triu(ones), operator.le, rows, columns),
    ]


@MOVEMENT.case("copy", *ELEMENTWISE)
def slices_deep_inside(fields: Fields) -> Claims:
    rows, columns = spread(fields)
    ends = [(slice(-3, None), slice(-70, None)), (slice(-2, None), slice(None, None, -3))]
    return [product(sc.copy(fields.numbers[at]), rows[at[0]], columns[at[1]]) for at in ends]


# Indices


@MOVEMENT.case("take", NAIVE)
def taken_rows_and_columns(fields: Fields) -> Claims:
    rows, columns = spread(fields)
    r, c = (np.roll(np.arange(x.size)[::-1], 5) for x in (rows, columns))
    return [
        product(sc.take(fields.numbers, sc.asarray(r), 0), rows[r], columns),
        product(sc.take(fields.numbers, sc.asarray(c.astype(np.int32)), 1), rows, columns[c]),
        product(sc.take(fields.numbers, sc.asarray(r[:4]), 0), rows[r[:4]], columns),
    ]


@MOVEMENT.case("gather", NAIVE)
def gathered(fields: Fields) -> Claims:
    """Few from many places, and many from few."""
    rows, columns = spread(fields)
    count, shape = len(columns), fields.numbers.shape
    c = np.array([count - 1, -1, 7, 0, count // 2, -count])
    table = np.array(COLUMN_PERIOD, np.float16)
    from_table = np.arange(count) * 3 % len(table)
    deep = sc.broadcast_to(sc.asarray(c), (shape[0], len(c)))
    many = sc.broadcast_to(sc.asarray(from_table.astype(np.int32)), shape)
    return [
        product(sc.take_along_axis(fields.numbers, deep, 1), rows, columns[c]),
        product(sc.take_along_axis(sc.asarray(rows * table), many, 1), rows, table[from_table]),
    ]


@MOVEMENT.case("index_add", NAIVE)
def added_rows(fields: Fields) -> Claims:
    """Thousands of rows added to others, two to some."""
    rows, columns = spread(fields)
    count = len(rows) // 8
    r = np.arange(count) % (count - count // 4) * 7
    weights = periodic(ROW_PERIOD, count)
    values = sc.asarray(weights[:, None]) * sc.asarray(columns)
    left = rows.copy()
    np.add.at(left[:, 0], r, weights)
    return [product(sc.index_add(fields.numbers, sc.asarray(r), values, 0), left, columns)]


@MOVEMENT.case("scatter_add", NAIVE)
def added_elements(fields: Fields) -> Claims:
    """A few elements added to every row, two of them to one place."""
    rows, columns = spread(fields)
    count = len(columns)
    c = np.array([count - 1, 7, 0, -1, count // 2])
    weights = np.array([1, 2, -1, 2, -2], np.float16)
    deep = sc.broadcast_to(sc.asarray(c), (len(rows), len(c)))
    values = sc.asarray(rows) * sc.asarray(weights)
    right = columns.copy()
    np.add.at(right, c, weights)
    return [product(sc.scatter_add(fields.numbers, deep, values, 1), rows, right)]


@MOVEMENT.case("one_hot", NAIVE)
def ones_in_rows(fields: Fields) -> Claims:
    shape = fields.numbers.shape
    hot = np.arange(shape[0], dtype=np.int32) * 7 % (shape[1] + 2)
    found = sc.one_hot(sc.asarray(hot), shape[1], dtype=bool_)
    return [Everywhere(found, operator.eq, hot[:, None], np.arange(shape[1], dtype=np.int32))]


# Creation


@MOVEMENT.case("full", NAIVE)
def filled(fields: Fields) -> Claims:
    found = sc.full(fields.numbers.shape, -3.0, f16)
    rows, columns = spread(fields)
    return [product(found, np.full_like(rows, -3), np.ones_like(columns))]


@MOVEMENT.case("arange", NAIVE)
def counted(fields: Fields) -> Claims:
    rows, columns = fields.numbers.shape
    found = sc.arange(rows * columns, dtype=i64)
    left = (np.arange(rows, dtype=np.int64) * columns)[:, None]
    return [Everywhere(found, operator.add, left, np.arange(columns, dtype=np.int64))]


@MOVEMENT.case("eye", NAIVE)
def diagonals(fields: Fields) -> Claims:
    rows, columns = fields.numbers.shape
    found = sc.eye(rows, columns, k=-2, dtype=bool_)
    left = np.arange(rows, dtype=np.int32)[:, None] - np.int32(2)
    return [Everywhere(found, operator.eq, left, np.arange(columns, dtype=np.int32))]


def drawn(found: sc.Tensor, name: str, params: tuple[str, str]) -> Claims:
    """Return claims on blocks of four draws: each comes from a counter of its own."""
    count = found.shape[0]
    claims: Claims = []
    for block in (0, min(BOUNDARY, count) // 8, count // 4 - 2):
        draw = Random((8,), f16, *params, 0)
        expected = random_values(name, np.array([17, block]), draw)
        scale = sum(abs(float(x)) for x in params)
        claims.append(Few(found[4 * block : 4 * block + 8], expected, name, 1, scale))
    return claims


@MOVEMENT.case("uniform", NAIVE)
def uniform_numbers(fields: Fields) -> Claims:
    found = sc.uniform((fields.numbers.size,), -1.0, 3.0, f16, sc.Generator(17))
    return drawn(found, "uniform", ("-1.0", "3.0"))


@MOVEMENT.case("normal", NAIVE)
def normal_numbers(fields: Fields) -> Claims:
    found = sc.normal((fields.numbers.size,), 1.0, 2.0, f16, sc.Generator(17))
    return drawn(found, "normal", ("1.0", "2.0"))


# Products


@MOVEMENT.case("matmul", *PRODUCTS)
def outer_products(fields: Fields) -> Claims:
    rows, columns = spread(fields)
    return [product(sc.asarray(rows) @ sc.asarray(columns[None]), rows, columns)]


@MOVEMENT.case("matmul", *PRODUCTS)
def distant_rows(fields: Fields) -> Claims:
    """Rows that lie far apart, as rows, as the depth, and as batches."""
    weight = np.zeros((64, 8), np.float16)
    weight[np.arange(8) * 7, np.arange(8)] = np.arange(8) - 3
    x, w = fields.numbers[:, :64], sc.asarray(weight)
    rows, columns = spread(fields)
    inside = columns[:64].astype(np.float64) @ weight.astype(np.float64)
    few = np.zeros((5, len(rows)), np.float16)
    few[np.arange(5), -1 - np.arange(5) * 7] = np.arange(5) + 1
    depth = few.astype(np.float64) @ rows
    batches = sc.reshape(x, (len(rows), 4, 16)) @ sc.asarray(weight[:16, :3])
    each = columns[:64].reshape(4, 16).astype(np.float64) @ weight[:16, :3].astype(np.float64)
    return [
        product(x @ w, rows, inside),
        product(sc.asarray(few) @ x, depth, columns[:64]),
        product(batches, rows[:, :, None], each),
    ]


@MOVEMENT.case("matmul", *PRODUCTS)
def all_of_it(fields: Fields) -> Claims:
    """Every element is read once."""
    weight = np.zeros((len(fields.columns), 2), np.float16)
    weight[[1, -3], [0, 1]] = 1, 2
    rows, columns = spread(fields)
    inside = columns.astype(np.float64) @ weight.astype(np.float64)
    return [product(fields.numbers @ sc.asarray(weight), rows, inside)]
