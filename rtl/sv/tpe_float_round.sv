// One lane of post-processing after the bias where elements are floating point: scale, round once, saturate, clip.
// Pipelined over three cycles, like tpe_requantise.
module tpe_float_round
  import tpe_pkg::*;
  import tpe_number_pkg::*;
(
  input  logic                 clk_i,
  input  logic signed [BiasedW-1:0] biased_i,
  input  flags_t               flags_i,
  input  logic signed [31:0]   multiplier_i,
  input  logic [5:0]           shift_i,  // one cycle after the biased sum
  input  logic [ElemW-1:0]     low_i,    // two cycles after
  input  logic [ElemW-1:0]     high_i,
  output logic [ElemW-1:0]     value_o
);
  localparam int unsigned ProductW = BiasedW + 32;
  localparam int unsigned PlaceW = $clog2(ProductW + 64);
  localparam int unsigned CodeW = PlaceW + ManW + 1;

  // Elements in the order of their values: -0 comes before +0.
  function automatic logic signed [ElemW-1:0] rank_of(input logic [ElemW-1:0] x);
    rank_of = x[ElemW-1] ? {1'b1, ~x[ElemW-2:0]} : x;
  endfunction

  logic signed [ProductW-1:0] product_q;
  logic is_nan_1_q, is_infinite_1_q, is_infinity_negative_q;
  always_ff @(posedge clk_i) begin
    product_q <= ProductW'(biased_i) * ProductW'(multiplier_i);
    is_infinite_1_q <= flags_i.plus_infinity || flags_i.minus_infinity;
    is_infinity_negative_q <= flags_i.minus_infinity ^ multiplier_i[31];
    is_nan_1_q <= is_nan_sum(flags_i)
        || ((flags_i.plus_infinity || flags_i.minus_infinity) && multiplier_i == '0);
  end

  // The number of its last places that are dropped: all below the significand, or below the least element.
  logic [ProductW-1:0] magnitude, below;
  logic [PlaceW-1:0] first, least, dropped;
  logic [ManW:0] significand;
  logic is_half, is_up;
  assign magnitude = product_q[ProductW-1] ? -product_q : product_q;
  always_comb begin
    first = '0;
    for (int unsigned i = 0; i < ProductW; i++) if (magnitude[i]) first = PlaceW'(i);
  end
  assign least = PlaceW'(LeastShift) + PlaceW'(shift_i);
  assign dropped = (first > least + PlaceW'(ManW)) ? first - PlaceW'(ManW) : least;
  assign significand = (ManW+1)'(magnitude >> dropped);
  assign is_half = 1'(magnitude >> (dropped - 1'b1));
  assign below = magnitude & ((ProductW'(1) << (dropped - 1'b1)) - 1'b1);
  assign is_up = is_half && (below != '0 || !RoundHalfToEven || significand[0]);

  // Exponent and significand side by side: a carry out of the significand raises the exponent.
  logic [CodeW-1:0] code_q;
  logic is_negative_q, is_nan_2_q, is_infinite_2_q;
  always_ff @(posedge clk_i) begin
    code_q <= (CodeW'(dropped - least) << ManW) + CodeW'(significand) + CodeW'(is_up);
    is_negative_q <= is_infinite_1_q ? is_infinity_negative_q : product_q[ProductW-1];
    is_nan_2_q <= is_nan_1_q;
    is_infinite_2_q <= is_infinite_1_q;
  end

  logic [ElemW-1:0] value;
  assign value[ElemW-1] = is_negative_q;
  assign value[ElemW-2:0] = is_infinite_2_q ? InfinityCode
      : (code_q > CodeW'(MaxCode)) ? MaxCode : (ElemW-1)'(code_q);
  always_ff @(posedge clk_i) begin
    if (is_nan_2_q) value_o <= {1'b0, NanCode};
    else if (rank_of(value) < rank_of(low_i)) value_o <= low_i;
    else if (rank_of(value) > rank_of(high_i)) value_o <= high_i;
    else value_o <= value;
  end
endmodule
