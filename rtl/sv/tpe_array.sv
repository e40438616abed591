// Weight-stationary PE array with shadow weights. Inputs move right, partial sums down; a swap moves with the first
// input of a tile, so that every PE changes its weight between two vectors. One process over all PEs: the simulator
// keeps it a loop.
module tpe_array
  import tpe_number_pkg::*;
#(
  parameter int unsigned Rows = 8,
  parameter int unsigned Cols = 8,
  parameter int unsigned ElemW = 8,
  parameter int unsigned SumW = 32,
  localparam int unsigned RowW = (Rows > 1) ? $clog2(Rows) : 1
) (
  input  logic                              clk_i,
  input  logic signed [Rows-1:0][ElemW-1:0] input_i,
  input  logic [Rows-1:0]                   swap_i,
  input  logic signed [Cols-1:0][ElemW-1:0] weight_i,
  input  logic [Cols-1:0]                   weight_valid_i,
  input  logic [Cols-1:0][RowW-1:0]         weight_row_i,
  output logic [Cols-1:0][SumW-1:0]         sum_o
);
  logic signed [ElemW-1:0] input_q [Rows][Cols];
  logic signed [ElemW-1:0] shadow_q [Rows][Cols];
  logic signed [ElemW-1:0] weight_q [Rows][Cols];
  logic swap_q [Rows][Cols];
  logic [SumW-1:0] sum_q [Rows][Cols];

  always_ff @(posedge clk_i) begin
    for (int r = 0; r < Rows; r++) begin
      for (int c = 0; c < Cols; c++) begin
        logic signed [ElemW-1:0] value, weight;
        logic swap;
        value = (c == 0) ? input_i[r] : input_q[r][(c == 0) ? 0 : c - 1];
        swap = (c == 0) ? swap_i[r] : swap_q[r][(c == 0) ? 0 : c - 1];
        weight = swap ? shadow_q[r][c] : weight_q[r][c];
        input_q[r][c] <= value;
        swap_q[r][c] <= swap;
        weight_q[r][c] <= weight;
        if (weight_valid_i[c] && weight_row_i[c] == RowW'(r)) shadow_q[r][c] <= weight_i[c];
        sum_q[r][c] <= sum_of((r == 0) ? '0 : sum_q[(r == 0) ? 0 : r - 1][c], product_of(value, weight));
      end
    end
  end

  for (genvar c = 0; c < Cols; c++) begin : gen_sum
    assign sum_o[c] = sum_q[Rows-1][c];
  end
endmodule
