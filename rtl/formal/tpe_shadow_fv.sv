// tpe_shadow: against a machine of three states, empty, loading and loaded.
module tpe_shadow_fv (
  input logic clk_i,
  input logic rst_ni,
  input logic preload_issue_i,
  input logic preload_last_i,
  input logic swap_issue_i
);
  logic is_free, is_complete;
  tpe_shadow u_dut (
    .clk_i, .rst_ni, .preload_issue_i, .preload_last_i, .swap_issue_i, .is_free_o(is_free), .is_complete_o(is_complete)
  );

  typedef enum logic [1:0] {Empty, Loading, Loaded} state_e;
  state_e state_q;
  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) state_q <= Empty;
    else if (preload_issue_i) state_q <= Loading;
    else if (swap_issue_i) state_q <= Empty;
    else if (preload_last_i) state_q <= Loaded;
  end

  // Reset once, before anything else: registers have no value before it.
  logic has_started_q = 1'b0;
  always_ff @(posedge clk_i) has_started_q <= 1'b1;
  always_comb begin
    if (!has_started_q) assume (!rst_ni);
    // tpe_issue issues one instruction a cycle, and only what is ready.
    assume (!(preload_issue_i && swap_issue_i));
    if (!is_free) assume (!preload_issue_i);
    if (!is_complete) assume (!swap_issue_i);
    // tpe_preload ends what it began, once (proved in tpe_weights_fv).
    if (state_q != Loading) assume (!preload_last_i);
  end

  always_comb begin
    if (has_started_q) begin
      // A preload never meets weights that have not been taken into use, nor another preload.
      if (preload_issue_i) a_preload_overwrites_nothing: assert (state_q == Empty);
      // A swap takes weights that are there, or of which the last row is just on its way.
      if (swap_issue_i) a_swap_after_preload: assert (state_q == Loaded || (state_q == Loading && preload_last_i));
      // Neither waits for longer than it must.
      a_free_when_empty: assert (is_free == (state_q == Empty));
      a_complete_when_loaded: assert (is_complete == (state_q == Loaded || preload_last_i));
      // Invariants of the state.
      i_reserved: assert (u_dut.reserved_q == (state_q != Empty));
      i_complete: assert (u_dut.complete_q == (state_q == Loaded));
    end
  end
endmodule
