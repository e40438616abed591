// Shadow weights: reserved from the issue of their preload, complete at its end, free again once their swap is issued.
module tpe_shadow (
  input  logic clk_i,
  input  logic rst_ni,
  input  logic preload_issue_i,
  input  logic preload_last_i,
  input  logic swap_issue_i,
  output logic is_free_o,      // a preload may be issued
  output logic is_complete_o   // a swap may be issued
);
  logic reserved_q, complete_q;

  assign is_free_o = !reserved_q;
  assign is_complete_o = complete_q || preload_last_i;

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      reserved_q <= 1'b0;
      complete_q <= 1'b0;
    end else begin
      if (preload_issue_i) reserved_q <= 1'b1;
      else if (swap_issue_i) reserved_q <= 1'b0;
      if (swap_issue_i) complete_q <= 1'b0;
      else if (preload_last_i) complete_q <= 1'b1;
    end
  end
endmodule
