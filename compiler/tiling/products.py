"""Matrix products of two activations."""

from __future__ import annotations

from dataclasses import dataclass, replace

from xdsl.ir import Operation, SSAValue

from ..ir.tile import Linear, MatMulOp, ViewOp, indexed
from .loops import equal_parts, split
from .target import Output, Target


@dataclass(frozen=True, slots=True, kw_only=True)
class ComputedProduct:
    """One product [rows, terms] x [terms, columns].

    Attributes:
        input, input_at, input_step: Where the first factor stands, its first byte, and bytes from one row to the next.
        weights, weights_at, weights_step: The same of the second one.
        rows, terms, columns: Sizes.
        parameters: Per tile of columns its channel parameters, in main memory.
        writes: Per target of the output the byte of the first element, and bytes from one row to the next.
    """

    input: SSAValue
    input_at: int
    input_step: int
    weights: SSAValue
    weights_at: int
    weights_step: int
    rows: int
    terms: int
    columns: int
    parameters: SSAValue
    writes: tuple[tuple[int, int], ...]


def product_ops(target: Target, product: ComputedProduct, output: Output) -> list[Operation]:
    """The loops of a product: tiles of columns outside, tiles of rows inside, then tiles of terms.

    Args:
        target: The array.
        product: The product.
        output: How sums are stored; the targets' first elements and steps are the product's.
    """
    array = target.array
    num_x = equal_parts(product.rows, min(product.rows, target.most_vectors))
    width = product.input_at + (product.rows - 1) * product.input_step + product.terms
    source = ViewOp(product.input, 0, 1, width)
    # What weights read beyond their columns makes sums that nobody stores.
    end = product.weights_at + (product.terms - 1) * product.weights_step + product.columns
    weights = ViewOp(product.weights, 0, 1, end)

    def columns(idx: Linear, num: int) -> list[Operation]:
        parameters = target.parameters_op(product.parameters, idx)

        def rows(at: Linear, x_count: int) -> list[Operation]:
            sums = target.sums_op(x_count)

            def terms(term: Linear, count: int) -> list[Operation]:
                maps = {
                    "y": Linear(),
                    "x": at * (num_x * product.input_step) + term * array.rows + product.input_at,
                    "weights_at": term * (array.rows * product.weights_step)
                    + idx * target.columns
                    + product.weights_at,
                    "sums_at": Linear(),
                    "accumulate": term,
                }
                sizes = {
                    "rows": count, "y_count": 1, "x_count": x_count, "y_step": 1, "x_step": product.input_step,
                    "weights_pitch": product.weights_step, "padding": 0, "weight_bits": 8,
                }  # fmt: skip
                operands = [source.result, weights.result, sums.result]
                return [MatMulOp.build(**indexed(operands, maps, sizes))]

            found: list[Operation] = [sums, *split(product.terms, array.rows, terms)]
            for place, (begin, step) in zip(output.targets, product.writes, strict=True):
                row = replace(place, format=replace(place.format, pixel_bytes=step))
                found += target.stores(
                    replace(output, targets=(row,)), sums.result, parameters.result, Linear(), at * num_x,
                    idx * target.columns + begin, y_count=1, x_count=x_count, columns=num,
                )  # fmt: skip
            return found

        return [parameters, *split(product.rows, num_x, rows)]

    return [source, weights, *split(product.columns, target.columns, columns)]
