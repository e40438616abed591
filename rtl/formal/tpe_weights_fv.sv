// tpe_execute with its array: whatever is issued and however long the scratchpad takes, every PE works on every vector
// with the weights of the last preload that was complete when their swap was made.
module tpe_weights_fv
  import tpe_pkg::*;
(
  input logic             clk_i,
  input logic             rst_ni,
  input logic [InsnW-1:0] insn_i,
  input logic             issue_i
);
  // All other inputs are left open, that is, free: what the scratchpad says, and when it is ready.
  logic ready;
  tpe_execute u_dut (.clk_i, .rst_ni, .insn_i, .issue_i, .ready_o(ready));

  logic has_started_q = 1'b0;
  always_ff @(posedge clk_i) has_started_q <= 1'b1;
  always_comb begin
    // Reset once, before anything else: the array's registers have none, so that a reset in mid-run would leave vectors
    // in flight.
    assume (rst_ni == has_started_q);
    // tpe_issue issues only what is ready.
    if (!ready) assume (!issue_i);
  end

  // The specification: the instant at which a preload's last row, or a swap's first vector, is asked of the scratchpad.
  // Weights and inputs come two cycles later. Fresh weights are complete and wait for their swap.
  logic is_fresh_q;
  logic [1:0] last_q, fresh_q;
  logic [RowW-1:0] num_rows;  // of a preload under way
  logic [1:0][RowW-1:0] num_rows_q;
  assign num_rows = u_dut.u_preload.busy_q ? u_dut.u_preload.row_q : '0;
  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      is_fresh_q <= 1'b0;
      last_q <= '0;
      fresh_q <= '0;
      num_rows_q <= '0;
    end else begin
      if (u_dut.preload_last) is_fresh_q <= 1'b1;
      else if (u_dut.compute_first) is_fresh_q <= 1'b0;
      last_q <= {last_q[0], u_dut.preload_last};
      fresh_q <= {fresh_q[0], is_fresh_q};
      num_rows_q <= {num_rows_q[0], num_rows};
    end
  end

  always_comb begin
    if (has_started_q) begin
      if (u_dut.compute_first) a_swap_takes_fresh_weights: assert (is_fresh_q);
      if (u_dut.preload_last) a_preload_replaces_no_fresh_weights: assert (!is_fresh_q);
      if (u_dut.weight_valid) a_no_row_over_fresh_weights: assert (!fresh_q[1] || u_dut.swap);
      // tpe_preload's side of tpe_shadow's contract.
      if (u_dut.preload_last) a_preload_ends_what_it_began: assert (u_dut.u_shadow.reserved_q && !u_dut.u_shadow.complete_q);
      // Invariants of the state.
      i_busy: assert (u_dut.u_preload.busy_q == (u_dut.u_shadow.reserved_q && !u_dut.u_shadow.complete_q));
      if (u_dut.u_shadow.complete_q) i_complete: assert (u_dut.u_shadow.reserved_q);
      if (u_dut.u_preload.busy_q) i_row: assert (u_dut.u_preload.row_q < (RowW+1)'(Rows));
      i_fresh: assert (is_fresh_q == (u_dut.u_shadow.complete_q || u_dut.swap_pending));
      if (u_dut.swap_pending) i_pending: assert (!u_dut.u_shadow.complete_q && num_rows == '0);
    end
  end

  for (genvar r = 0; r < Rows; r++) begin : gen_row
    for (genvar c = 0; c < Cols; c++) begin : gen_col
      logic [ElemW-1:0] seen_q, seen_d, complete_q, used_q, used_d;
      logic is_seen_q, is_seen_d, is_used_q, is_used_d;
      assign is_seen_d = is_seen_q || (u_dut.weight_valid && u_dut.weight_row == RowW'(r));
      assign seen_d = u_dut.weight_valid && u_dut.weight_row == RowW'(r) ? u_dut.weight[c] : seen_q;
      assign is_used_d = is_used_q || u_dut.swap;
      assign used_d = u_dut.swap ? complete_q : used_q;
      // A vector's element r reaches column c after r + c cycles; a weight reaches its column after c.
      logic [r+c:0][ElemW-1:0] used_then_q;
      logic [r+c:0] is_used_then_q;
      logic [c:0][ElemW-1:0] seen_then_q;
      logic [c:0] is_seen_then_q;
      always_ff @(posedge clk_i or negedge rst_ni) begin
        if (!rst_ni) begin
          {seen_q, complete_q, used_q} <= '0;
          {is_seen_q, is_used_q} <= '0;
          used_then_q <= '0;
          is_used_then_q <= '0;
          seen_then_q <= '0;
          is_seen_then_q <= '0;
        end else begin
          seen_q <= seen_d;
          is_seen_q <= is_seen_d;
          if (last_q[1]) complete_q <= seen_d;
          used_q <= used_d;
          is_used_q <= is_used_d;
          used_then_q <= (ElemW*(r+c+1))'({used_then_q, used_d});
          is_used_then_q <= (r+c+1)'({is_used_then_q, is_used_d});
          seen_then_q <= (ElemW*(c+1))'({seen_then_q, seen_d});
          is_seen_then_q <= (c+1)'({is_seen_then_q, is_seen_d});
        end
      end

      always_comb begin
        if (has_started_q) begin
          if (is_used_then_q[r+c]) begin
            a_weight_in_use: assert (u_dut.u_array.weight_q[r][c] == used_then_q[r+c]);
          end
          // Invariants of the state.
          if (is_seen_then_q[c]) i_shadow: assert (u_dut.u_array.shadow_q[r][c] == seen_then_q[c]);
          if (num_rows_q[1] == '0) i_complete: assert (seen_q == complete_q);
          if (fresh_q[1] || num_rows_q[1] > RowW'(r)) i_seen: assert (is_seen_q);
          if (is_used_q) i_used: assert (is_seen_q);
        end
      end
    end
  end
endmodule
