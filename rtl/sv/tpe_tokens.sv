// Tokens from one queue to its neighbour.
module tpe_tokens #(
  parameter int unsigned Width = 8
) (
  input  logic             clk_i,
  input  logic             rst_ni,
  input  logic [1:0]       push_i,   // how many
  input  logic             pop_i,
  output logic             valid_o,
  output logic [Width-1:0] count_o
);
  logic [Width-1:0] count_q;

  assign valid_o = count_q != '0;
  assign count_o = count_q;

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) count_q <= '0;
    else count_q <= count_q + Width'(push_i) - Width'(pop_i);
  end
endmodule
