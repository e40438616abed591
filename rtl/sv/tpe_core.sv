// The tensor PE array: decoupled load, execute and store units that exchange tokens.
module tpe_core
  import tpe_pkg::*;
(
  input  logic                  clk_i,
  input  logic                  rst_ni,
  input  logic                  run_i,
  input  logic                  static_i,
  output logic                  done_o,
  output logic [CycleW-1:0]     cycle_o,
  output error_t                error_o,
  // Program memory.
  output logic [IndexW-1:0]     fetch_addr_o,
  input  logic [InsnW-1:0]      fetch_data_i,
  // Main memory.
  output logic                  req_valid_o,
  input  logic                  req_ready_i,
  output logic [MemAddrW-1:0]   req_addr_o,
  output logic [BeatsW-1:0]     req_beats_o,
  input  logic                  data_valid_i,
  input  logic [BusW-1:0]       data_i,
  output logic                  write_valid_o,
  input  logic                  write_ready_i,
  output logic [MemAddrW-1:0]   write_addr_o,
  output logic [BusW-1:0]       write_data_o,
  output logic [BusBytes-1:0]   write_strobe_o,
  // For the trace: per queue load, execute, store.
  output logic [2:0]            issue_o,
  output logic [2:0][IndexW-1:0] issue_index_o,
  output logic [3:0]            end_o      // load, preload, compute, store
);
  logic [CycleW-1:0] cycle_q;
  logic done;
  assign cycle_o = cycle_q;
  assign done_o = done;
  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) cycle_q <= '0;
    else if (run_i && !done) cycle_q <= cycle_q + 1'b1;
  end

  // ---- Fetch and dispatch.
  logic fetch_valid, fetch_ready;
  logic [IndexW-1:0] fetch_index;
  logic [InsnW-1:0] fetch_insn;
  tpe_fetch u_fetch (
    .clk_i, .rst_ni, .run_i, .addr_o(fetch_addr_o), .data_i(fetch_data_i),
    .valid_o(fetch_valid), .ready_i(fetch_ready), .index_o(fetch_index), .insn_o(fetch_insn)
  );
  logic [2:0] to_queue, queue_ready, queue_valid, unit_ready, unit_idle;
  logic is_fence, is_all_idle;
  assign is_fence = fetch_insn[InsnW-1 -: OpcodeW] == OpFence;
  assign to_queue = is_fence ? '0 : queue_of(fetch_insn[InsnW-1 -: OpcodeW]);
  assign is_all_idle = queue_valid == '0 && unit_idle == '1;
  assign fetch_ready = is_fence ? is_all_idle : (to_queue & queue_ready) != '0;

  // ---- Queues.
  logic [2:0] mistimed, prev_pop, next_pop;
  logic [3:0] token_valid, token_pop;  // load to execute, execute to load, execute to store, store to execute
  logic [2:0][InsnW-1:0] head;
  logic [2:0][IndexW-1:0] head_index;
  logic [2:0] prev_valid, next_valid;
  assign prev_valid = {token_valid[2], token_valid[0], 1'b0};
  assign next_valid = {1'b0, token_valid[3], token_valid[1]};
  for (genvar q = 0; q < 3; q++) begin : gen_queue
    tpe_issue u_issue (
      .clk_i, .rst_ni, .run_i, .static_i, .cycle_i(cycle_q),
      .valid_i(fetch_valid && to_queue[q]), .ready_o(queue_ready[q]), .index_i(fetch_index), .insn_i(fetch_insn),
      .prev_valid_i(prev_valid[q]), .next_valid_i(next_valid[q]), .prev_pop_o(prev_pop[q]), .next_pop_o(next_pop[q]),
      .head_valid_o(queue_valid[q]), .head_o(head[q]), .head_index_o(head_index[q]),
      .unit_ready_i(unit_ready[q]), .issue_o(issue_o[q]), .mistimed_o(mistimed[q])
    );
  end
  assign issue_index_o = head_index;

  // ---- Tokens. An instruction that moves tokens only gives them when it issues.
  logic load_push, store_push;
  logic [1:0] execute_push_prev, execute_push_next;
  logic [2:0] nop_push_prev, nop_push_next;
  for (genvar q = 0; q < 3; q++) begin : gen_nop
    header_t header;
    logic [HeaderRestW-1:0] unused_rest;
    assign {header, unused_rest} = head[q];
    assign nop_push_prev[q] = issue_o[q] && is_immediate(header.opcode) && header.push_prev;
    assign nop_push_next[q] = issue_o[q] && is_immediate(header.opcode) && header.push_next;
  end
  logic [3:0][1:0] pushes;
  assign pushes[0] = 2'(load_push) + 2'(nop_push_next[0]);
  assign pushes[1] = 2'(execute_push_prev[0]) + 2'(execute_push_prev[1]) + 2'(nop_push_prev[1]);
  assign pushes[2] = 2'(execute_push_next[0]) + 2'(execute_push_next[1]) + 2'(nop_push_next[1]);
  assign pushes[3] = 2'(store_push) + 2'(nop_push_prev[2]);
  assign token_pop = {next_pop[1], prev_pop[2], next_pop[0], prev_pop[1]};
  for (genvar t = 0; t < 4; t++) begin : gen_tokens
    logic [TokenW-1:0] unused_count;
    tpe_tokens #(.Width(TokenW)) u_tokens (
      .clk_i, .rst_ni, .push_i(pushes[t]), .pop_i(token_pop[t]), .valid_o(token_valid[t]), .count_o(unused_count)
    );
  end

  // ---- Units.
  logic load_done, preload_done, compute_done, store_done;
  logic load_write, param_valid, table_valid;
  logic [TableSlotW-1:0] table_slot;
  logic [TableBeatW-1:0] table_beat;
  logic [LocalAddrW-1:0] load_addr;
  logic [SlotW-1:0] param_slot;
  logic [ParamBeatW-1:0] param_beat;
  logic [BusW-1:0] load_data;
  tpe_load u_load (
    .clk_i, .rst_ni, .insn_i(head[0]), .issue_i(issue_o[0]), .ready_o(unit_ready[0]),
    .done_push_o(load_push), .done_o(load_done), .idle_o(unit_idle[0]),
    .req_valid_o, .req_ready_i, .req_addr_o, .req_beats_o, .data_valid_i, .data_i,
    .write_valid_o(load_write), .write_addr_o(load_addr),
    .param_valid_o(param_valid), .param_slot_o(param_slot), .param_beat_o(param_beat),
    .table_valid_o(table_valid), .table_slot_o(table_slot), .table_beat_o(table_beat), .data_o(load_data)
  );

  logic [1:0] read_valid, read_ready;
  logic [1:0][LocalAddrW-1:0] read_first, read_last;
  logic [1:0][2*WordW-1:0] read_data;
  logic local_valid, local_ready;
  logic [LocalAddrW-1:0] local_addr;
  logic [WordW-1:0] local_data;
  logic [WordBytes-1:0] local_strobe;
  tpe_scratchpad u_scratchpad (
    .clk_i, .rst_ni,
    .load_valid_i(load_write), .load_addr_i(load_addr), .load_data_i(load_data),
    .store_valid_i(local_valid), .store_addr_i(local_addr), .store_data_i(local_data), .store_strobe_i(local_strobe),
    .store_ready_o(local_ready),
    .read_valid_i(read_valid), .read_first_i(read_first), .read_last_i(read_last), .read_ready_o(read_ready),
    .read_data_o(read_data)
  );

  logic sum_valid, sum_accumulate, sum_is_maximum, acc_read, acc_ready, unused_acc_write;
  logic [AccAddrW-1:0] sum_addr, acc_addr;
  logic [Cols-1:0][SumW-1:0] sum, acc_data;
  tpe_execute u_execute (
    .clk_i, .rst_ni, .insn_i(head[1]), .issue_i(issue_o[1]), .ready_o(unit_ready[1]),
    .done_push_prev_o(execute_push_prev), .done_push_next_o(execute_push_next), .idle_o(unit_idle[1]),
    .read_valid_o(read_valid), .read_first_o(read_first), .read_last_o(read_last), .read_ready_i(read_ready),
    .read_data_i(read_data),
    .sum_valid_o(sum_valid), .sum_accumulate_o(sum_accumulate), .sum_is_maximum_o(sum_is_maximum),
    .sum_addr_o(sum_addr), .sum_o(sum),
    .preload_done_o(preload_done), .compute_done_o(compute_done)
  );
  tpe_accumulator u_accumulator (
    .clk_i, .rst_ni,
    .sum_valid_i(sum_valid), .sum_accumulate_i(sum_accumulate), .sum_addr_i(sum_addr), .sum_i(sum),
    .is_maximum_i(sum_is_maximum),
    .write_valid_o(unused_acc_write),
    .read_valid_i(acc_read), .read_addr_i(acc_addr), .read_ready_o(acc_ready), .read_data_o(acc_data)
  );
  tpe_store u_store (
    .clk_i, .rst_ni, .insn_i(head[2]), .issue_i(issue_o[2]), .ready_o(unit_ready[2]),
    .done_push_o(store_push), .done_o(store_done), .idle_o(unit_idle[2]), .halted_o(done),
    .param_valid_i(param_valid), .param_slot_i(param_slot), .param_beat_i(param_beat), .param_data_i(load_data),
    .table_valid_i(table_valid), .table_slot_i(table_slot), .table_beat_i(table_beat),
    .read_valid_o(acc_read), .read_addr_o(acc_addr), .read_ready_i(acc_ready), .read_data_i(acc_data),
    .write_valid_o, .write_ready_i, .write_addr_o, .write_data_o, .write_strobe_o,
    .local_valid_o(local_valid), .local_ready_i(local_ready), .local_addr_o(local_addr), .local_data_o(local_data),
    .local_strobe_o(local_strobe)
  );
  assign end_o = {store_done, compute_done, preload_done, load_done};

  // ---- Errors of static mode, the first of them.
  // What conflicts was issued before what stands at the heads of the queues by now.
  logic [1:0][OpcodeW-1:0] opcode;  // of the execute and store queues
  logic is_st_issued, unused_writing_ready, unused_writing_valid;
  logic [IndexW-1:0] preload_index_q, compute_index_q, read_index_q, write_index;
  assign opcode = {head[2][InsnW-1 -: OpcodeW], head[1][InsnW-1 -: OpcodeW]};
  assign is_st_issued = issue_o[2] && opcode[1] == OpSt;
  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      preload_index_q <= '0;
      compute_index_q <= '0;
      read_index_q <= '0;
    end else begin
      if (issue_o[1] && opcode[0] == OpPreload) preload_index_q <= head_index[1];
      if (issue_o[1] && (opcode[0] == OpCompute || opcode[0] == OpAlu)) compute_index_q <= head_index[1];
      if (is_st_issued) read_index_q <= head_index[2];
    end
  end
  // One store may be read while the one before is still written.
  tpe_fifo #(.Width(IndexW), .Depth(2)) u_writing (
    .clk_i, .rst_ni,
    .wvalid_i(is_st_issued), .wready_o(unused_writing_ready), .wdata_i(head_index[2]),
    .rvalid_o(unused_writing_valid), .rready_i(store_done), .rdata_o(write_index)
  );
  logic [2:0] conflict;
  logic [2:0][IndexW-1:0] conflict_index;
  assign conflict_index = {(local_valid && !local_ready) ? write_index : read_index_q,
                           (read_valid[0] && !read_ready[0]) ? compute_index_q : preload_index_q, head_index[0]};
  assign conflict[0] = 1'b0;
  assign conflict[1] = |(read_valid & ~read_ready);
  assign conflict[2] = (local_valid && !local_ready) || (acc_read && !acc_ready);
  error_t error_d, error_q;
  // Not a cycle later: what the program leaves behind is known when it ends.
  assign error_o = error_d;
  always_comb begin
    error_d = error_q;
    if (static_i && run_i && !error_q.valid) begin
      for (int unsigned q = 0; q < 3; q++) begin
        if (mistimed[q]) error_d = {1'b1, ErrorMistimed, 2'(q), head_index[q]};
        else if (conflict[q]) error_d = {1'b1, ErrorConflict, 2'(q), conflict_index[q]};
      end
      if (done && !is_all_idle) error_d = {1'b1, ErrorUndelivered, 2'd3, fetch_index};
    end
  end
  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) error_q <= '0;
    else error_q <= error_d;
  end
endmodule
