// Issues the head of one queue when its unit, its tokens and, in static mode, its cycle say so.
module tpe_issue
  import tpe_pkg::*;
(
  input  logic               clk_i,
  input  logic               rst_ni,
  input  logic               run_i,
  input  logic               static_i,
  input  logic [CycleW-1:0]  cycle_i,
  // Dispatch.
  input  logic               valid_i,
  output logic               ready_o,
  input  logic [IndexW-1:0]  index_i,
  input  logic [InsnW-1:0]   insn_i,
  // Tokens of the neighbours.
  input  logic               prev_valid_i,
  input  logic               next_valid_i,
  output logic               prev_pop_o,
  output logic               next_pop_o,
  // Unit.
  output logic               head_valid_o,
  output logic [InsnW-1:0]   head_o,
  output logic [IndexW-1:0]  head_index_o,
  input  logic               unit_ready_i,
  output logic               issue_o,
  output logic               mistimed_o
);
  logic [InsnW+IndexW-1:0] head;
  logic valid;
  header_t header;
  logic [HeaderRestW-1:0] unused_rest;

  tpe_fifo #(.Width(InsnW + IndexW), .Depth(QueueDepth)) u_queue (
    .clk_i, .rst_ni,
    .wvalid_i(valid_i), .wready_o(ready_o), .wdata_i({index_i, insn_i}),
    .rvalid_o(valid), .rready_i(issue_o), .rdata_o(head)
  );

  assign {head_index_o, head_o} = head;
  assign {header, unused_rest} = head_o;
  assign head_valid_o = valid;
  assign issue_o = run_i && valid && unit_ready_i
      && (!header.pop_prev || prev_valid_i) && (!header.pop_next || next_valid_i)
      && (!static_i || cycle_i >= header.issue_cycle);
  assign prev_pop_o = issue_o && header.pop_prev;
  assign next_pop_o = issue_o && header.pop_next;
  assign mistimed_o = static_i && issue_o && cycle_i != header.issue_cycle;
endmodule
