// One lane of post-processing after the bias: scale, round, add the zero point, clip. Pipelined over three cycles.
module tpe_requantise #(
  parameter int unsigned BiasedW = 33,
  parameter bit HalfToEven = 1'b1
) (
  input  logic                 clk_i,
  input  logic signed [BiasedW-1:0] biased_i,
  input  logic signed [31:0]   multiplier_i,
  input  logic [5:0]           shift_i,       // one cycle after the biased sum
  input  logic signed [7:0]    zero_point_i,  // two cycles after
  input  logic signed [7:0]    low_i,
  input  logic signed [7:0]    high_i,
  output logic signed [7:0]    value_o
);
  localparam int unsigned ProductW = BiasedW + 32;
  logic signed [ProductW-1:0] product_q, floor, rounded_q, shifted;
  logic [ProductW-1:0] rest, half;
  logic is_up;

  // floor(product / 2^shift), and whether the rest rounds it up.
  assign floor = product_q >>> shift_i;
  assign rest = product_q - (floor <<< shift_i);
  assign half = (shift_i == '0) ? '0 : ProductW'(1) << (shift_i - 6'd1);
  assign is_up = shift_i != '0 && (rest > half || (rest == half && (HalfToEven ? floor[0] : !product_q[ProductW-1])));
  assign shifted = rounded_q + ProductW'(zero_point_i);

  always_ff @(posedge clk_i) begin
    product_q <= ProductW'(biased_i) * ProductW'(multiplier_i);
    rounded_q <= floor + ProductW'({1'b0, is_up});
    if (shifted < ProductW'(low_i)) value_o <= low_i;
    else if (shifted > ProductW'(high_i)) value_o <= high_i;
    else value_o <= shifted[7:0];
  end
endmodule
