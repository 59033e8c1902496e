"""Contractions to measure: expressions and the extents of their labels.

TCCG holds the tensor contractions of the benchmark of that name, from coupled cluster methods and
machine learning; extents are those of its labels in alphabetical order. The others are what
programs do: attention scores, chains, bilinear forms, diagonals, outer products.

Source: Springer, Bientinesi, "Design of a High-Performance GEMM-like Tensor-Tensor Multiplication",
2018, and its benchmark TCCG.
"""

from __future__ import annotations

import math
from typing import Final, NamedTuple

__all__ = ["EINSUMS", "TCCG", "Contraction", "scaled"]

Dims = tuple[int, ...]


class Contraction(NamedTuple):
    """An expression with the extent of each label.

    Attributes:
        expression: the expression.
        extents: label -> extent.
    """

    expression: str
    extents: dict[str, int]

    @property
    def shapes(self) -> tuple[Dims, ...]:
        """Extents of each operand."""
        terms = self.expression.partition("->")[0].split(",")
        return tuple(tuple(self.extents[label] for label in term) for term in terms)

    @property
    def output_shape(self) -> Dims:
        """Extents of the result."""
        return tuple(self.extents[label] for label in self.expression.partition("->")[2])

    @property
    def flops(self) -> int:
        """Operations of a pair: a product and an addition for each point of all labels."""
        return 2 * math.prod(self.extents.values())

    @property
    def nbytes(self) -> int:
        """Bytes of operands and result in f32, each once."""
        return 4 * sum(math.prod(shape) for shape in (*self.shapes, self.output_shape))


def _of(expression: str, sizes: Dims) -> Contraction:
    labels = sorted(set(expression) - set(",->"))
    return Contraction(expression, dict(zip(labels, sizes, strict=True)))


def scaled(contraction: Contraction, flops: int) -> Contraction:
    """Return a contraction with all extents scaled alike, of at most about so many operations.

    Example:
        >>> scaled(Contraction("ab,bc->ac", {"a": 1000, "b": 1000, "c": 24}), 6_000_000).extents
        {'a': 500, 'b': 500, 'c': 12}
    """
    labels = contraction.extents
    factor = min((flops / contraction.flops) ** (1 / len(labels)), 1.0)
    return contraction._replace(
        extents={label: max(round(extent * factor), 2) for label, extent in labels.items()}
    )


_TCCG: Final[dict[str, tuple[str, Dims]]] = {
    "01": ("adb,cd->cba", (312, 312, 24, 312)),
    "03": ("aebd,ce->dcba", (72, 72, 24, 72, 72)),
    "05": ("dabe,ec->dcba", (72, 72, 24, 72, 72)),
    "07": ("afbce,df->edcba", (48, 32, 32, 24, 48, 48)),
    "09": ("ae,dcbe->dcba", (72, 72, 72, 72, 72)),
    "11": ("ce,deba->dcba", (72, 72, 72, 72, 72)),
    "13": ("dca,cbd->ba", (312, 296, 296, 312)),
    "15": ("dca,bd->cba", (312, 296, 296, 312)),
    "17": ("cda,db->cba", (312, 312, 296, 296)),
    "19": ("ceda,dbe->cba", (72, 72, 72, 72, 72)),
    "21": ("fbea,cedf->dcba", (72, 72, 72, 72, 72, 72)),
    "23": ("fcea,debf->dcba", (72, 72, 72, 72, 72, 72)),
    "25": ("fdea,cebf->dcba", (72, 72, 72, 72, 72, 72)),
    "27": ("cfea,debf->dcba", (72, 72, 72, 72, 72, 72)),
    "29": ("cfae,edfb->dcba", (72, 72, 72, 72, 72, 72)),
    "31": ("aged,cbfg->fedcba", (24, 16, 16, 24, 16, 16, 24)),
    "33": ("cged,bafg->fedcba", (24, 16, 16, 24, 16, 16, 24)),
    "35": ("bgfd,caeg->fedcba", (24, 16, 16, 24, 16, 16, 24)),
    "37": ("agfe,cbdg->fedcba", (24, 16, 16, 16, 24, 16, 24)),
    "39": ("cgfe,badg->fedcba", (24, 16, 16, 16, 24, 16, 24)),
    "41": ("cadg,bgfe->fedcba", (24, 16, 16, 16, 24, 16, 24)),
    "43": ("baeg,cgfd->fedcba", (24, 16, 16, 24, 16, 16, 24)),
    "45": ("cbeg,agfd->fedcba", (24, 16, 16, 24, 16, 16, 24)),
    "47": ("cafg,bged->fedcba", (24, 16, 16, 24, 16, 16, 24)),
}

TCCG: Final = {name: _of(*row) for name, row in _TCCG.items()}

# Expression, extents of its labels in alphabetical order, the least ratio to PyTorch's time.
_EINSUMS: Final[tuple[tuple[str, Dims, float], ...]] = (
    ("bhqd,bhkd->bhqk", (8, 64, 16, 1024, 1024), 0.95),
    ("bhqk,bhkd->bqhd", (8, 64, 16, 1024, 1024), 0.95),
    ("bij,bjk,bkl->bil", (64, 256, 256, 256, 256), 1.3),
    ("ijkl,jmln->imkn", (64, 64, 64, 64, 64, 64), 0.9),
    ("ab,bcd,de->ace", (512, 512, 64, 512, 512), 1.0),
    ("bii->b", (256, 256), 0.95),
    ("i,j->ij", (8192, 8192), 0.95),
    ("ij,ij->i", (8192, 8192), 0.95),
    ("ij,ij->", (8192, 8192), 0.95),
    ("bi,ijk,bk->bj", (256, 256, 256, 256), 1.5),
)

EINSUMS: Final = tuple((_of(text, sizes), least) for text, sizes, least in _EINSUMS)
