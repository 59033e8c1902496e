"""Contractions as data: labels, equations, paths; pure functions without devices.

From text to steps: `arguments` and `parse` read labels, `equation` binds them to ranks and
extents, `rules` and `layout` check what an operation allows. `operands` gives each operand one
axis a label; `network`, `optimal`, `greedy`, `explicit` and `optimizers` order the pairs,
`slicing` cuts labels to meet a memory limit, `orders` lays intermediates out, and `planning` puts
it together: a `path`, which prints itself. `axes` and `classes` say what kind of product a pair is.
"""
