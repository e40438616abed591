// tpe_tokens: the count is pushes minus pops, exactly, and valid says that there is one.
module tpe_tokens_fv #(
  parameter int unsigned Width = 8
) (
  input logic       clk_i,
  input logic       rst_ni,
  input logic [1:0] push_i,
  input logic       pop_i
);
  localparam int unsigned NumW = Width + 3;  // wide enough to see an overflow, and a count below zero

  logic valid;
  logic [Width-1:0] count;
  tpe_tokens #(.Width(Width)) u_dut (.clk_i, .rst_ni, .push_i, .pop_i, .valid_o(valid), .count_o(count));

  logic signed [NumW-1:0] num_q, num_d;
  assign num_d = num_q + $signed(NumW'(push_i)) - $signed(NumW'(pop_i));
  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) num_q <= '0;
    else num_q <= num_d;
  end

  // Reset once, before anything else: registers have no value before it.
  logic has_started_q = 1'b0;
  always_ff @(posedge clk_i) has_started_q <= 1'b1;
  always_comb begin
    if (!has_started_q) assume (!rst_ni);
    // tpe_issue pops only what is valid.
    if (!valid) assume (!pop_i);
    // A program leaves fewer than 2^Width tokens untaken; nothing in the RTL makes it.
    assume (num_d < $signed(NumW'(1) << Width));
  end

  always_comb begin
    if (has_started_q) begin
      a_never_below_zero: assert (num_q >= 0);
      a_count_is_exact: assert ($signed(NumW'(count)) == num_q);
      a_valid_with_one: assert (valid == (num_q != '0));
    end
  end
endmodule
