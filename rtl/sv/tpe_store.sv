// Store unit: reads accumulator vectors, adds bias and requantises, and writes to main memory or the scratchpad.
module tpe_store
  import tpe_pkg::*;
  import tpe_number_pkg::*;
(
  input  logic                      clk_i,
  input  logic                      rst_ni,
  // Issue.
  input  logic [InsnW-1:0]          insn_i,
  input  logic                      issue_i,
  output logic                      ready_o,
  output logic                      done_push_o,
  output logic                      done_o,
  output logic                      idle_o,
  output logic                      halted_o,
  // Channel parameters.
  input  logic                      param_valid_i,
  input  logic [SlotW-1:0]          param_slot_i,
  input  logic [ParamBeatW-1:0]     param_beat_i,
  input  logic [BusW-1:0]           param_data_i,
  // Tables; data as for the channel parameters.
  input  logic                      table_valid_i,
  input  logic [TableSlotW-1:0]     table_slot_i,
  input  logic [TableBeatW-1:0]     table_beat_i,
  // Accumulators.
  output logic                      read_valid_o,
  output logic [AccAddrW-1:0]       read_addr_o,
  input  logic                      read_ready_i,
  input  logic [Cols-1:0][SumW-1:0] read_data_i,
  // Main memory.
  output logic                      write_valid_o,
  input  logic                      write_ready_i,
  output logic [MemAddrW-1:0]       write_addr_o,
  output logic [BusW-1:0]           write_data_o,
  output logic [BusBytes-1:0]       write_strobe_o,
  // Scratchpad.
  output logic                      local_valid_o,
  input  logic                      local_ready_i,
  output logic [LocalAddrW-1:0]     local_addr_o,
  output logic [WordW-1:0]          local_data_o,
  output logic [WordBytes-1:0]      local_strobe_o
);
  localparam int unsigned RawW = Cols * 32;
  localparam int unsigned RawBytes = Cols * 4;
  localparam int unsigned Passes = Cols / PostLanes;
  localparam int unsigned PassW = (Passes > 1) ? $clog2(Passes) : 1;
  localparam int unsigned CreditW = $clog2(OutDepth + 1);

  typedef struct packed {
    logic [SlotW-1:0] slot;
    logic signed [7:0] zero_point;
    logic signed [7:0] low;
    logic signed [7:0] high;
    logic [1:0] format;
    logic [LookupW-1:0] lookup;
  } control_t;
  typedef struct packed {
    logic push;
    logic to_scratchpad;
    logic [1:0] format;
    logic [LaneCountW-1:0] columns;
    logic [MemAddrW-1:0] addr;
    logic [23:0] x_bytes;
    logic [MemAddrW-1:0] y_bytes;
    logic [CountW-1:0] x_count;
    logic [CountW-1:0] y_count;
  } target_t;

  st_t st;
  cfg_st_t cfg, cfg_q;
  logic is_st, is_halt, halted_q;
  assign st = insn_i;
  assign cfg = insn_i;
  assign is_st = st.opcode == OpSt;
  assign is_halt = st.opcode == OpHalt;
  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      cfg_q <= '0;
      halted_q <= 1'b0;
    end else if (issue_i) begin
      if (st.opcode == OpCfgSt) cfg_q <= cfg;
      if (is_halt) halted_q <= 1'b1;
    end
  end
  assign halted_o = halted_q;

  // ---- Channel parameters: per slot the biases, the multipliers and the shifts of all columns.
  logic [ParamBeats-1:0][BusW-1:0] params_q [ParamSlots];
  always_ff @(posedge clk_i) begin
    if (param_valid_i) params_q[param_slot_i][param_beat_i] <= param_data_i;
  end

  logic [TableBeats-1:0][BusW-1:0] tables_q [TableSlots];
  always_ff @(posedge clk_i) begin
    if (table_valid_i) tables_q[table_slot_i][table_beat_i] <= param_data_i;
  end

  // ---- Reads: one vector every `Passes` cycles, while there is room for what is under way.
  logic busy_q, read, read_last, target_ready;
  logic [AccAddrW-1:0] addr_q;
  logic [2*CountW-1:0] left_q;
  logic [PassW-1:0] gap_q;
  logic [CreditW-1:0] under_way_q;
  control_t control_q;
  logic popped;
  assign read_valid_o = busy_q && gap_q == '0 && under_way_q != CreditW'(OutDepth);
  assign read_addr_o = addr_q;
  assign read = read_valid_o && read_ready_i;
  assign read_last = read && left_q == (2*CountW)'(1);
  assign ready_o = is_halt ? idle_o : !is_st || ((!busy_q || read_last) && target_ready);
  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      busy_q <= 1'b0;
      addr_q <= '0;
      left_q <= '0;
      gap_q <= '0;
      under_way_q <= '0;
      control_q <= '0;
    end else begin
      under_way_q <= under_way_q + CreditW'(read) - CreditW'(popped);
      if (read) gap_q <= PassW'(Passes - 1);
      else if (gap_q != '0) gap_q <= gap_q - 1'b1;
      if (issue_i && is_st) begin
        busy_q <= 1'b1;
        addr_q <= st.source;
        left_q <= (2*CountW)'(st.x_count) * (2*CountW)'(st.y_count);
        control_q <= {st.slot[SlotW-1:0], cfg_q.zero_point, cfg_q.low, cfg_q.high, st.format, st.lookup};
      end else if (read) begin
        busy_q <= !read_last;
        addr_q <= addr_q + 1'b1;
        left_q <= left_q - 1'b1;
      end
    end
  end

  // ---- Post-processing: bias, product, rounding, clipping; `PostLanes` columns a cycle; never waits.
  logic valid_1_q;
  control_t control_1_q, control_p, control_2_q, control_3_q, control_4_q;
  logic [PassW-1:0] pass_q, pass, pass_2_q, pass_3_q, pass_4_q, pass_5_q;
  logic in_pass_q, is_pass, valid_2_q, valid_3_q, valid_4_q, valid_5_q;
  logic [Cols-1:0][SumW-1:0] held_q, vector;
  logic [RawW-1:0] raw_q [4];
  assign vector = valid_1_q ? read_data_i : held_q;
  assign pass = valid_1_q ? '0 : pass_q;
  assign is_pass = valid_1_q || in_pass_q;
  assign control_p = control_1_q;
  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      valid_1_q <= 1'b0;
      in_pass_q <= 1'b0;
      pass_q <= '0;
      {valid_2_q, valid_3_q, valid_4_q, valid_5_q} <= '0;
    end else begin
      valid_1_q <= read;
      in_pass_q <= is_pass && pass != PassW'(Passes - 1);
      pass_q <= pass + 1'b1;
      valid_2_q <= is_pass;
      valid_3_q <= valid_2_q;
      valid_4_q <= valid_3_q;
      valid_5_q <= valid_4_q && pass_4_q == PassW'(Passes - 1);
    end
  end
  logic [RawW-1:0] raw;
  for (genvar c = 0; c < Cols; c++) begin : gen_raw
    if (IsFloat) begin : gen_float
      tpe_float32 u_float32 (.sum_i(vector[c]), .bits_o(raw[c*32 +: 32]));
    end else begin : gen_integer
      assign raw[c*32 +: 32] = 32'($signed(vector[c]));
    end
  end
  always_ff @(posedge clk_i) begin
    if (valid_1_q) held_q <= read_data_i;
    if (read) control_1_q <= control_q;
    control_2_q <= control_p;
    control_3_q <= control_2_q;
    control_4_q <= control_3_q;
    pass_2_q <= pass;
    pass_3_q <= pass_2_q;
    pass_4_q <= pass_3_q;
    pass_5_q <= pass_4_q;
    raw_q[0] <= raw;
    for (int unsigned k = 1; k < 4; k++) raw_q[k] <= raw_q[k-1];
  end

  // Parameters of the lanes at each stage.
  logic [ParamBeats*BusW-1:0] slot_1, slot_2, slot_3;
  assign slot_1 = params_q[control_p.slot];
  assign slot_2 = params_q[control_2_q.slot];
  assign slot_3 = params_q[control_3_q.slot];
  logic [PostLanes-1:0][7:0] values;
  for (genvar l = 0; l < PostLanes; l++) begin : gen_lane
    logic [31:0] column_1, column_2, column_3;
    logic signed [BiasedW-1:0] biased_q;
    logic signed [31:0] bias, multiplier;
    logic [5:0] shift;
    assign column_1 = 32'(pass) * PostLanes + l;
    assign column_2 = 32'(pass_2_q) * PostLanes + l;
    assign column_3 = 32'(pass_3_q) * PostLanes + l;
    assign bias = slot_1[column_1*32 +: 32];
    assign multiplier = slot_2[Cols*32 + column_2*32 +: 32];
    assign shift = slot_3[Cols*64 + column_3*8 +: 6];
    logic [SumW-1:0] sum;
    assign sum = vector[column_1];
    always_ff @(posedge clk_i) biased_q <= BiasedW'($signed(sum[AccW-1:0])) + (BiasedW'(bias) <<< BiasShift);
    if (IsFloat) begin : gen_float
      flags_t flags_q;
      always_ff @(posedge clk_i) flags_q <= flags_of(sum);
      tpe_float_round u_round (
        .clk_i, .biased_i(biased_q), .flags_i(flags_q), .multiplier_i(multiplier), .shift_i(shift),
        .low_i(control_4_q.low), .high_i(control_4_q.high), .value_o(values[l])
      );
    end else begin : gen_integer
      tpe_requantise #(.BiasedW(BiasedW), .HalfToEven(RoundHalfToEven)) u_requantise (
        .clk_i, .biased_i(biased_q), .multiplier_i(multiplier), .shift_i(shift),
        .zero_point_i(control_4_q.zero_point), .low_i(control_4_q.low), .high_i(control_4_q.high),
        .value_o(values[l])
      );
    end
  end

  // Gather the passes of one vector.
  logic [Cols-1:0][7:0] gathered, gathered_q;
  logic [1:0] format_5_q;
  logic [LookupW-1:0] lookup_5_q;
  logic [255:0][7:0] table_5;
  assign table_5 = tables_q[TableSlotW'(lookup_5_q - 1'b1)];
  always_comb begin
    gathered = gathered_q;
    for (int unsigned l = 0; l < PostLanes; l++) begin
      gathered[32'(pass_5_q) * PostLanes + l] = (lookup_5_q == '0) ? values[l] : table_5[values[l]];
    end
  end
  always_ff @(posedge clk_i) begin
    gathered_q <= gathered;
    format_5_q <= control_4_q.format;
    lookup_5_q <= control_4_q.lookup;
  end
  logic [RawW-1:0] out;
  always_comb begin
    out = '0;
    unique case (format_5_q)
      StFormat32: out = raw_q[3];
      StFormat4: for (int unsigned c = 0; c < Cols; c++) out[c*4 +: 4] = gathered[c][3:0];
      default: out[Cols*8-1:0] = gathered;
    endcase
  end

  logic out_valid, unused_out_ready;
  logic [RawW-1:0] out_head;
  tpe_fifo #(.Width(RawW), .Depth(OutDepth)) u_out (
    .clk_i, .rst_ni,
    .wvalid_i(valid_5_q), .wready_o(unused_out_ready), .wdata_i(out),
    .rvalid_o(out_valid), .rready_i(popped), .rdata_o(out_head)
  );

  // ---- Writes.
  target_t pushed, head;
  logic head_valid;
  assign pushed = {st.push_prev, st.space == StSpaceScratchpad, st.format, st.columns[LaneCountW-1:0], st.address,
                   cfg_q.x_bytes, cfg_q.y_bytes, st.x_count, st.y_count};
  tpe_fifo #(.Width($bits(target_t)), .Depth(2)) u_targets (
    .clk_i, .rst_ni,
    .wvalid_i(issue_i && is_st), .wready_o(target_ready), .wdata_i(pushed),
    .rvalid_o(head_valid), .rready_i(done_o), .rdata_o(head)
  );

  logic [CountW-1:0] x_q, y_q;
  logic [MemAddrW-1:0] row_addr_q, addr_w_q, row_addr, vector_addr;
  logic [LaneCountW+1:0] num_bytes, beat_q;
  logic is_first, is_vector_end, is_row_end, sent;
  logic [RawBytes-1:0] strobes;
  assign is_first = x_q == '0 && y_q == '0;
  assign row_addr = is_first ? head.addr : row_addr_q;
  assign vector_addr = is_first ? head.addr : addr_w_q;
  assign num_bytes = (head.format == StFormat32) ? {head.columns, 2'b00}
      : (head.format == StFormat4) ? ((LaneCountW+2)'(head.columns) + 1'b1) >> 1 : (LaneCountW+2)'(head.columns);
  always_comb begin
    for (int unsigned k = 0; k < RawBytes; k++) strobes[k] = k < 32'(num_bytes);
  end

  // A vector narrower than the bus lies within one beat, a wider one takes several.
  logic [$clog2(BusBytes+1)-1:0] shift_bytes;
  logic [RawW+BusW-1:0] shifted;
  logic [RawBytes+BusBytes-1:0] shifted_strobes;
  assign shift_bytes = ($clog2(BusBytes+1))'(vector_addr % MemAddrW'(BusBytes));
  assign shifted = {{BusW{1'b0}}, out_head} << {shift_bytes, 3'b000};
  assign shifted_strobes = {{BusBytes{1'b0}}, strobes} << shift_bytes;
  assign write_valid_o = out_valid && !head.to_scratchpad;
  assign write_addr_o = vector_addr - MemAddrW'(shift_bytes) + (MemAddrW'(beat_q) << BusShift);
  assign write_data_o = shifted[(32'(beat_q) * BusW) +: BusW];
  assign write_strobe_o = shifted_strobes[(32'(beat_q) * BusBytes) +: BusBytes];

  logic [WordShift-1:0] local_shift;
  assign local_shift = vector_addr[WordShift-1:0];
  assign local_valid_o = out_valid && head.to_scratchpad;
  assign local_addr_o = vector_addr[LocalAddrW-1:0];
  assign local_data_o = WordW'(out_head) << {local_shift, 3'b000};
  assign local_strobe_o = WordBytes'(strobes) << local_shift;

  assign sent = head.to_scratchpad ? local_valid_o && local_ready_i : write_valid_o && write_ready_i;
  assign is_vector_end = head.to_scratchpad
      || ((32'(beat_q) + 1) * BusBytes >= 32'(num_bytes) + 32'(shift_bytes));
  assign popped = sent && is_vector_end;
  assign is_row_end = x_q == head.x_count - 1'b1;
  assign done_o = popped && is_row_end && y_q == head.y_count - 1'b1;
  assign done_push_o = done_o && head.push;
  assign idle_o = !busy_q && !head_valid;
  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      x_q <= '0;
      y_q <= '0;
      beat_q <= '0;
      row_addr_q <= '0;
      addr_w_q <= '0;
    end else if (sent) begin
      beat_q <= is_vector_end ? '0 : beat_q + 1'b1;
      if (popped) begin
        x_q <= is_row_end ? '0 : x_q + 1'b1;
        if (is_row_end) y_q <= done_o ? '0 : y_q + 1'b1;
        row_addr_q <= is_row_end ? row_addr + head.y_bytes : row_addr;
        addr_w_q <= is_row_end ? row_addr + head.y_bytes : vector_addr + MemAddrW'(head.x_bytes);
      end
    end
  end
endmodule
