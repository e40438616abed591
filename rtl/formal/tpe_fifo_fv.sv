// tpe_fifo: what goes in comes out once and in order; ready and valid follow from the number of entries alone.
// One push, any, is marked: its data must be at the head when all that was there before it has been taken.
module tpe_fifo_fv #(
  parameter int unsigned Width = 3,  // the queue never looks at its data, so a few bits stand for all widths
  parameter int unsigned Depth = 4
) (
  input logic             clk_i,
  input logic             rst_ni,
  input logic             wvalid_i,
  input logic [Width-1:0] wdata_i,
  input logic             rready_i,
  input logic             mark_i   // free: which push is followed
);
  localparam int unsigned NumW = $clog2(Depth + 1) + 1;  // wide enough to see an overflow
  localparam int unsigned PtrW = (Depth > 1) ? $clog2(Depth) : 1;

  logic wready, rvalid;
  logic [Width-1:0] rdata;
  tpe_fifo #(.Width(Width), .Depth(Depth)) u_dut (
    .clk_i, .rst_ni, .wvalid_i, .wready_o(wready), .wdata_i, .rvalid_o(rvalid), .rready_i, .rdata_o(rdata)
  );

  logic push, pop, is_marked_q;
  logic [NumW-1:0] num_q, ahead_q;
  logic [Width-1:0] data_q;
  assign push = wvalid_i && wready;
  assign pop = rready_i && rvalid;
  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      num_q <= '0;
      is_marked_q <= 1'b0;
      ahead_q <= '0;
      data_q <= '0;
    end else begin
      num_q <= num_q + NumW'(push) - NumW'(pop);
      if (push && mark_i && !is_marked_q) begin
        is_marked_q <= 1'b1;
        ahead_q <= num_q - NumW'(pop);
        data_q <= wdata_i;
      end else if (pop && is_marked_q) begin
        is_marked_q <= ahead_q != '0;
        ahead_q <= ahead_q - 1'b1;
      end
    end
  end

  // Reset once, before anything else: registers have no value before it.
  logic has_started_q = 1'b0;
  always_ff @(posedge clk_i) has_started_q <= 1'b1;
  always_comb begin
    if (!has_started_q) assume (!rst_ni);
  end

  // The marked entry's place, for the induction.
  logic [NumW-1:0] place;
  logic [NumW:0] sum, end_sum;
  assign sum = (NumW+1)'(u_dut.rptr_q) + (NumW+1)'(ahead_q);
  assign place = NumW'(sum >= (NumW+1)'(Depth) ? sum - (NumW+1)'(Depth) : sum);
  assign end_sum = (NumW+1)'(u_dut.rptr_q) + (NumW+1)'(num_q);

  always_comb begin
    if (has_started_q) begin
      a_num_within_depth: assert (num_q <= NumW'(Depth));
      a_ready_unless_full: assert (wready == (num_q != NumW'(Depth)));
      a_valid_unless_empty: assert (rvalid == (num_q != '0));
      if (is_marked_q) a_marked_is_inside: assert (ahead_q < num_q);
      if (is_marked_q && ahead_q == '0) a_marked_comes_out: assert (rvalid && rdata == data_q);
      // There is no memory beyond; what the solver takes for it would hide a pointer that runs on.
      a_read_in_range: assert (NumW'(u_dut.rptr_q) < NumW'(Depth));
      a_write_in_range: assert (NumW'(u_dut.wptr_q) < NumW'(Depth));
      // Invariants of the state.
      i_count: assert (NumW'(u_dut.count_q) == num_q);
      i_pointers: assert ((NumW+1)'(u_dut.wptr_q) == end_sum || (NumW+1)'(u_dut.wptr_q) + (NumW+1)'(Depth) == end_sum);
      if (is_marked_q) i_marked_is_kept: assert (u_dut.mem[PtrW'(place)] == data_q);
    end
  end
endmodule
