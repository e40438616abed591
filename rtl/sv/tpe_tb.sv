// Test bench: core, main memory and program; files in, files out.
module tpe_tb
  import tpe_pkg::*;
#(
  parameter int unsigned NumBeats = 1 << 16,
  parameter int unsigned NumInsns = 1 << 14
) (
  input  logic              clk,
  input  logic              rst_n,
  input  logic              load_files,
  input  logic              dump_files,
  input  logic [31:0]       dump_first,
  input  logic [31:0]       dump_last,
  input  logic [31:0]       num_insns,
  input  logic              run,
  input  logic              static_mode,
  input  logic [15:0]       latency,
  input  logic [7:0]        cycles_per_beat,
  input  logic [31:0]       jitter_seed,
  output logic              done,
  output logic [CycleW-1:0] cycles,
  output error_t            error,
  // For the message about a program that hangs.
  output logic [2:0][7:0]        queue_counts,  // load, execute, store
  output logic [3:0][TokenW-1:0] tokens,  // load to execute, execute to load, execute to store, store to execute
  output logic [IndexW-1:0]      program_counter
);
  logic [InsnW-1:0] program_mem [NumInsns];
  logic [31:0] trace_mem [2 * NumInsns];  // issue and end of every instruction

  logic [IndexW-1:0] fetch_addr;
  logic [InsnW-1:0] fetch_data;
  logic req_valid, req_ready, data_valid, write_valid, write_ready;
  logic [MemAddrW-1:0] req_addr, write_addr;
  logic [BeatsW-1:0] req_beats;
  logic [BusW-1:0] data, write_data;
  logic [BusBytes-1:0] write_strobe;
  logic [2:0] issue;
  logic [2:0][IndexW-1:0] issue_index;
  logic [3:0] ends;

  assign program_counter = fetch_addr;
  for (genvar q = 0; q < 3; q++) begin : gen_count
    assign queue_counts[q] = 8'(u_core.gen_queue[q].u_issue.u_queue.count_q);
  end
  for (genvar t = 0; t < 4; t++) begin : gen_token
    assign tokens[t] = u_core.gen_tokens[t].u_tokens.count_q;
  end

  assign fetch_data = program_mem[32'(fetch_addr) % NumInsns];
  tpe_core u_core (
    .clk_i(clk), .rst_ni(rst_n), .run_i(run), .static_i(static_mode), .done_o(done), .cycle_o(cycles), .error_o(error),
    .fetch_addr_o(fetch_addr), .fetch_data_i(fetch_data),
    .req_valid_o(req_valid), .req_ready_i(req_ready), .req_addr_o(req_addr), .req_beats_o(req_beats),
    .data_valid_i(data_valid), .data_i(data),
    .write_valid_o(write_valid), .write_ready_i(write_ready), .write_addr_o(write_addr), .write_data_o(write_data),
    .write_strobe_o(write_strobe),
    .issue_o(issue), .issue_index_o(issue_index), .end_o(ends)
  );
  tpe_memory #(.BusBytes(BusBytes), .AddrW(MemAddrW), .BeatsW(BeatsW), .NumBeats(NumBeats), .NumRequests(RequestsInFlight)) u_memory (
    .clk_i(clk), .rst_ni(rst_n), .latency_i(latency), .cycles_per_beat_i(cycles_per_beat), .jitter_seed_i(jitter_seed),
    .req_valid_i(req_valid), .req_ready_o(req_ready), .req_addr_i(req_addr), .req_beats_i(req_beats),
    .data_valid_o(data_valid), .data_o(data),
    .write_valid_i(write_valid), .write_ready_o(write_ready), .write_addr_i(write_addr), .write_data_i(write_data),
    .write_strobe_i(write_strobe)
  );

  // Trace: units end their instructions in the order of issue.
  logic [IndexW-1:0] under_way [4][32];
  logic [4:0] wptr_q [4], rptr_q [4];
  logic [3:0] starts;
  logic [3:0][IndexW-1:0] start_index;
  assign starts = {issue[2] && is_unit_op(u_core.head[2][InsnW-1 -: OpcodeW]),
                   issue[1] && (u_core.head[1][InsnW-1 -: OpcodeW] == OpCompute
                                || u_core.head[1][InsnW-1 -: OpcodeW] == OpAlu),
                   issue[1] && u_core.head[1][InsnW-1 -: OpcodeW] == OpPreload,
                   issue[0] && is_unit_op(u_core.head[0][InsnW-1 -: OpcodeW])};
  assign start_index = {issue_index[2], issue_index[1], issue_index[1], issue_index[0]};
  always_ff @(posedge clk or negedge rst_n) begin
    if (!rst_n) begin
      for (int unsigned u = 0; u < 4; u++) begin
        wptr_q[u] <= '0;
        rptr_q[u] <= '0;
      end
    end else begin
      for (int unsigned q = 0; q < 3; q++) begin
        if (issue[q]) begin
          trace_mem[2 * 32'(issue_index[q])] <= 32'(cycles);
          trace_mem[2 * 32'(issue_index[q]) + 1] <= 32'(cycles);
        end
      end
      if (run && u_core.fetch_valid && u_core.is_fence && u_core.fetch_ready) begin
        trace_mem[2 * 32'(u_core.fetch_index)] <= 32'(cycles);
        trace_mem[2 * 32'(u_core.fetch_index) + 1] <= 32'(cycles);
      end
      for (int unsigned u = 0; u < 4; u++) begin
        if (starts[u]) begin
          under_way[u][wptr_q[u]] <= start_index[u];
          wptr_q[u] <= wptr_q[u] + 1'b1;
        end
        if (ends[u]) begin
          trace_mem[2 * 32'(under_way[u][rptr_q[u]]) + 1] <= 32'(cycles);
          rptr_q[u] <= rptr_q[u] + 1'b1;
        end
      end
    end
  end

  string path;
  always @(posedge load_files) begin
    if ($value$plusargs("program=%s", path)) $readmemh(path, program_mem);
    if ($value$plusargs("memory=%s", path)) $readmemh(path, u_memory.mem);
    if ($value$plusargs("blank=%s", path)) $readmemh(path, trace_mem, 0, 2 * num_insns - 1);
  end
  always @(posedge dump_files) begin
    if ($value$plusargs("dump=%s", path)) $writememh(path, u_memory.mem, dump_first, dump_last);
    if ($value$plusargs("trace=%s", path)) $writememh(path, trace_mem, 0, 2 * num_insns - 1);
  end
endmodule
