// Load unit: requests rows of main memory ahead, and writes what comes back to the scratchpad, the channel parameters or a table.
module tpe_load
  import tpe_pkg::*;
(
  input  logic               clk_i,
  input  logic               rst_ni,
  // Issue.
  input  logic [InsnW-1:0]   insn_i,
  input  logic               issue_i,
  output logic               ready_o,
  output logic               done_push_o,
  output logic               done_o,
  output logic               idle_o,
  // Main memory.
  output logic               req_valid_o,
  input  logic               req_ready_i,
  output logic [MemAddrW-1:0] req_addr_o,
  output logic [BeatsW-1:0]  req_beats_o,
  input  logic               data_valid_i,
  input  logic [BusW-1:0]    data_i,
  // Scratchpad: always taken.
  output logic               write_valid_o,
  output logic [LocalAddrW-1:0] write_addr_o,
  // Channel parameters.
  output logic               param_valid_o,
  output logic [SlotW-1:0]   param_slot_o,
  output logic [ParamBeatW-1:0] param_beat_o,
  // Tables.
  output logic               table_valid_o,
  output logic [TableSlotW-1:0] table_slot_o,
  output logic [TableBeatW-1:0] table_beat_o,
  output logic [BusW-1:0]    data_o
);
  typedef struct packed {
    logic push;
    logic to_params;
    logic to_table;
    logic [LocalAddrW-1:0] addr;
    logic [LocalAddrW-1:0] stride;
    logic [RowsW-1:0] rows;
    logic [BeatsW-1:0] beats;
  } transfer_t;

  ld_t ld;
  cfg_ld_t cfg;
  logic is_ld;
  assign ld = insn_i;
  assign cfg = insn_i;
  assign is_ld = ld.opcode == OpLd;

  logic [MemAddrW-1:0] mem_stride_q;
  logic [LocalAddrW-1:0] local_stride_q;
  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      mem_stride_q <= '0;
      local_stride_q <= '0;
    end else if (issue_i && ld.opcode == OpCfgLd) begin
      mem_stride_q <= cfg.memory_row_bytes;
      local_stride_q <= cfg.local_row_bytes;
    end
  end

  // Requests: one row a cycle.
  logic busy_q;
  logic [MemAddrW-1:0] addr_q, stride_q;
  logic [RowsW-1:0] left_q;
  logic [BeatsW-1:0] beats_q;
  logic accept, is_last, fifo_ready;
  assign accept = busy_q && req_ready_i;
  assign is_last = accept && left_q == RowsW'(1);
  assign ready_o = !is_ld || ((!busy_q || is_last) && fifo_ready);
  assign req_valid_o = busy_q;
  assign req_addr_o = addr_q;
  assign req_beats_o = beats_q;
  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      busy_q <= 1'b0;
      addr_q <= '0;
      stride_q <= '0;
      left_q <= '0;
      beats_q <= '0;
    end else if (issue_i && is_ld) begin
      busy_q <= 1'b1;
      addr_q <= ld.memory_address;
      stride_q <= mem_stride_q;
      left_q <= ld.rows;
      beats_q <= ld.row_beats;
    end else if (accept) begin
      busy_q <= !is_last;
      addr_q <= addr_q + stride_q;
      left_q <= left_q - 1'b1;
    end
  end

  // Responses, in the order of the requests.
  transfer_t pushed, head;
  logic head_valid;
  assign pushed = {ld.push_next, ld.space == LdSpaceParameters, ld.space == LdSpaceTable, ld.local_address,
                   local_stride_q, ld.rows, ld.row_beats};
  tpe_fifo #(.Width($bits(transfer_t)), .Depth(LoadsInFlight)) u_transfers (
    .clk_i, .rst_ni,
    .wvalid_i(issue_i && is_ld), .wready_o(fifo_ready), .wdata_i(pushed),
    .rvalid_o(head_valid), .rready_i(done_o), .rdata_o(head)
  );

  logic [RowsW-1:0] row_q;
  logic [BeatsW-1:0] beat_q;
  logic [LocalAddrW-1:0] row_addr_q, row_addr, beat_addr;
  logic is_row_end;
  assign row_addr = (row_q == '0) ? head.addr : row_addr_q;
  assign beat_addr = LocalAddrW'(beat_q) << BusShift;
  assign is_row_end = beat_q == head.beats - 1'b1;
  assign done_o = data_valid_i && is_row_end && row_q == head.rows - 1'b1;
  assign done_push_o = done_o && head.push;
  assign idle_o = !busy_q && !head_valid;
  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      row_q <= '0;
      beat_q <= '0;
      row_addr_q <= '0;
    end else if (data_valid_i) begin
      beat_q <= is_row_end ? '0 : beat_q + 1'b1;
      if (is_row_end) begin
        row_q <= done_o ? '0 : row_q + 1'b1;
        row_addr_q <= row_addr + head.stride;
      end
    end
  end

  assign write_valid_o = data_valid_i && !head.to_params && !head.to_table;
  assign write_addr_o = row_addr + beat_addr;
  assign param_valid_o = data_valid_i && head.to_params;
  assign param_slot_o = head.addr[SlotW-1:0];
  assign param_beat_o = beat_q[ParamBeatW-1:0];
  assign table_valid_o = data_valid_i && head.to_table;
  assign table_slot_o = head.addr[TableSlotW-1:0];
  assign table_beat_o = beat_q[TableBeatW-1:0];
  assign data_o = data_i;
endmodule
