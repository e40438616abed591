// Arithmetic in the array's number format: products of two elements, and sums of products.
//
// A sum of integers wraps. A sum of floating-point products is exact: a fixed-point number, whose unit is the least
// product, below flags that stay set once they are: NaN, +infinity, -infinity. Its number part wraps.
package tpe_number_pkg;
  import tpe_pkg::*;

  localparam int unsigned ExponentBias = 2 ** (ExpW - 1) - 1;
  // The least element is 2^-(LeastShift), the least product 2^-(2 * LeastShift).
  localparam int unsigned LeastShift = ExponentBias - 1 + ManW;
  // A bias counts in steps of 2^-16 where elements are floating point.
  localparam int unsigned BiasShift = IsFloat ? 2 * LeastShift - 16 : 0;
  localparam int unsigned SumShift = 2 * LeastShift;
  // A sum with its bias, which may be wider: nothing wraps behind the accumulator.
  localparam int unsigned BiasedW = ((AccW > 32) ? AccW : 32) + 1;
  localparam logic [ElemW-2:0] InfinityCode = {{ExpW{1'b1}}, {ManW{1'b0}}};
  // Without infinity, the exponent of all ones is in use, and only its last significand is NaN.
  localparam logic [ElemW-2:0] NanCode = HasInfinity ? {{ExpW{1'b1}}, 1'b1, {(ManW-1){1'b0}}} : '1;
  localparam logic [ElemW-2:0] MaxCode = HasInfinity ? InfinityCode - 1'b1 : NanCode - 1'b1;

  typedef struct packed {
    logic nan;
    logic plus_infinity;
    logic minus_infinity;
  } flags_t;

  // Elements without their sign.
  function automatic logic is_nan(input logic [ElemW-2:0] code);
    is_nan = HasInfinity ? code > InfinityCode : code == NanCode;
  endfunction

  function automatic logic is_infinite(input logic [ElemW-2:0] code);
    is_infinite = HasInfinity && code == InfinityCode;
  endfunction

  function automatic logic [SumW-1:0] float_product_of(input logic [ElemW-1:0] a, input logic [ElemW-1:0] b);
    logic [ExpW-1:0] exponent_a, exponent_b;
    logic [2*ManW+1:0] significand;
    logic [AccW-1:0] magnitude;
    logic is_negative, is_any_infinite;
    flags_t flags;
    exponent_a = a[ElemW-2:ManW];
    exponent_b = b[ElemW-2:ManW];
    is_negative = a[ElemW-1] ^ b[ElemW-1];
    significand = (2*ManW+2)'({|exponent_a, a[ManW-1:0]}) * (2*ManW+2)'({|exponent_b, b[ManW-1:0]});
    // Subnormal elements have the exponent of the least normal ones.
    magnitude = AccW'(significand)
        << ((ExpW+1)'(exponent_a) - (ExpW+1)'(|exponent_a) + (ExpW+1)'(exponent_b) - (ExpW+1)'(|exponent_b));
    is_any_infinite = is_infinite(a[ElemW-2:0]) || is_infinite(b[ElemW-2:0]);
    flags.nan = is_nan(a[ElemW-2:0]) || is_nan(b[ElemW-2:0])
        || (is_any_infinite && significand == '0);
    flags.plus_infinity = is_any_infinite && !is_negative;
    flags.minus_infinity = is_any_infinite && is_negative;
    float_product_of = SumW'({flags, is_negative ? -magnitude : magnitude});
  endfunction

  function automatic logic [SumW-1:0] product_of(input logic [ElemW-1:0] a, input logic [ElemW-1:0] b);
    product_of = IsFloat ? float_product_of(a, b) : SumW'($signed(a) * $signed(b));
  endfunction

  function automatic flags_t flags_of(input logic [SumW-1:0] sum);
    flags_of = IsFloat ? sum[SumW-1 -: 3] : '0;
  endfunction

  function automatic logic [SumW-1:0] sum_of(input logic [SumW-1:0] a, input logic [SumW-1:0] b);
    sum_of = IsFloat ? SumW'({flags_of(a) | flags_of(b), AccW'(a[AccW-1:0] + b[AccW-1:0])}) : a + b;
  endfunction

  function automatic logic is_nan_sum(input flags_t flags);
    is_nan_sum = flags.nan || (flags.plus_infinity && flags.minus_infinity);
  endfunction

  function automatic logic [SumW-1:0] maximum_of(input logic [SumW-1:0] a, input logic [SumW-1:0] b);
    flags_t flags_a, flags_b;
    logic is_a_greater;
    flags_a = flags_of(a);
    flags_b = flags_of(b);
    is_a_greater = $signed(a[AccW-1:0]) > $signed(b[AccW-1:0]);
    if (flags_a.plus_infinity || flags_b.minus_infinity) is_a_greater = 1'b1;
    else if (flags_a.minus_infinity || flags_b.plus_infinity) is_a_greater = 1'b0;
    maximum_of = is_a_greater ? a : b;
    // NaN wins, whichever it is.
    if (is_nan_sum(flags_a)) maximum_of = a;
    if (is_nan_sum(flags_b)) maximum_of = b;
  endfunction
endpackage
