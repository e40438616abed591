// Walks over an input tile and streams its vectors, with padding around the tile, into the array or, for ALU, past it.
module tpe_compute
  import tpe_pkg::*;
(
  input  logic                   clk_i,
  input  logic                   rst_ni,
  input  compute_t               insn_i,      // ALU has the same fields up to `accumulate`
  input  logic                   is_alu_i,
  input  logic                   is_vector_i,    // ALU's second operand is read first,
  input  logic                   is_sequence_i,  // or one in front of every vector
  input  logic                   is_held_i,      // ALU has one destination
  input  logic [LocalAddrW-1:0]  operand_addr_i,
  input  logic [LocalAddrW-1:0]  operand_step_i,
  input  logic                   operand_is_nibbles_i,
  input  cfg_tile_t              tile_i,
  input  cfg_walk_t              walk_i,
  input  logic                   issue_i,
  output logic                   ready_o,
  output logic                   step_o,
  output logic                   first_o,   // with the step: the shadow weights come into use
  output logic                   swap_pending_o,
  output logic                   done_push_prev_o,
  output logic                   idle_o,
  // Scratchpad.
  output logic                   read_valid_o,
  output logic [LocalAddrW-1:0]  read_first_o,
  output logic [LocalAddrW-1:0]  read_last_o,
  input  logic                   read_ready_i,
  input  logic [2*WordW-1:0]     read_data_i,
  // Two cycles after the step: array, or vector unit.
  output logic                   swap_o,
  output logic                   operand_valid_o,
  output logic [Lanes-1:0][ElemW-1:0] lanes_o,
  output logic                   is_alu_o,
  // Accumulators, with the step.
  output logic                   last_o,
  output logic                   accumulate_o,
  output logic                   push_next_o,
  output logic [AccAddrW-1:0]    destination_o
);
  localparam int unsigned PosW = LocalAddrW + 2;  // signed positions

  logic is_alu_q, fetch_q, is_sequence_q, is_held_q;
  logic [LocalAddrW-1:0] operand_addr_q, operand_step_q;
  logic operand_is_nibbles_q;
  logic busy_q, swap_q, accumulate_q, push_prev_q, push_next_q, nibbles_q;
  logic [LocalAddrW-1:0] row_addr_q, x_step_q, y_step_bytes_q, width_q;
  logic signed [PosW-1:0] x_first_q, x_q, y_q;
  logic [CountW-1:0] x_count_q, y_left_q, x_left_q, y_step_q, height_q;
  logic [LaneCountW-1:0] rows_q;
  logic [AccAddrW-1:0] destination_q;
  logic [7:0] padding_q;

  // Valid bytes of the vector, counted from its first.
  logic [LaneCountW-1:0] num_bytes;
  logic signed [PosW-1:0] low, high;
  logic is_row_valid, is_any_valid;
  assign num_bytes = nibbles_q ? (rows_q + 1'b1) >> 1 : rows_q;
  assign is_row_valid = y_q >= 0 && y_q < $signed(PosW'(height_q));
  always_comb begin
    low = (x_q < 0) ? -x_q : '0;
    high = $signed(PosW'(width_q)) - x_q;
    if (high > $signed(PosW'(num_bytes))) high = $signed(PosW'(num_bytes));
  end
  assign is_any_valid = is_row_valid && low < high;

  logic [LocalAddrW-1:0] addr;
  logic step, is_x_end, last, fetch;
  localparam logic [LocalAddrW-1:0] WideLast = LocalAddrW'(Cols - 1);
  localparam logic [LocalAddrW-1:0] NarrowLast = LocalAddrW'((Cols + 1) / 2 - 1);
  assign addr = row_addr_q + LocalAddrW'(x_q);
  assign read_valid_o = busy_q && (fetch_q || is_any_valid);
  assign read_first_o = fetch_q ? operand_addr_q : addr + LocalAddrW'(low);
  assign read_last_o = fetch_q ? operand_addr_q + (operand_is_nibbles_q ? NarrowLast : WideLast)
      : addr + LocalAddrW'(high) - 1'b1;
  assign fetch = busy_q && fetch_q && read_ready_i;
  assign step = busy_q && !fetch_q && (!is_any_valid || read_ready_i);
  assign is_alu_o = is_alu_q;
  assign is_x_end = x_left_q == CountW'(1);
  assign last = step && is_x_end && y_left_q == CountW'(1);
  assign ready_o = !busy_q || last;
  assign idle_o = !busy_q;
  assign step_o = step;
  assign first_o = step && swap_q;
  assign swap_pending_o = busy_q && swap_q;
  assign last_o = last;
  assign done_push_prev_o = last && push_prev_q;
  assign push_next_o = last && push_next_q;
  assign accumulate_o = accumulate_q;
  assign destination_o = destination_q;

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      is_alu_q <= 1'b0;
      fetch_q <= 1'b0;
      is_sequence_q <= 1'b0;
      is_held_q <= 1'b0;
      operand_addr_q <= '0;
      operand_step_q <= '0;
      operand_is_nibbles_q <= 1'b0;
      busy_q <= 1'b0;
      swap_q <= 1'b0;
      accumulate_q <= 1'b0;
      push_prev_q <= 1'b0;
      push_next_q <= 1'b0;
      nibbles_q <= 1'b0;
      row_addr_q <= '0;
      x_step_q <= '0;
      y_step_bytes_q <= '0;
      width_q <= '0;
      x_first_q <= '0;
      x_q <= '0;
      y_q <= '0;
      x_count_q <= '0;
      y_left_q <= '0;
      x_left_q <= '0;
      y_step_q <= '0;
      height_q <= '0;
      rows_q <= '0;
      destination_q <= '0;
      padding_q <= '0;
    end else if (issue_i) begin
      is_alu_q <= is_alu_i;
      fetch_q <= is_alu_i && (is_vector_i || is_sequence_i);
      is_sequence_q <= is_alu_i && is_sequence_i;
      is_held_q <= is_alu_i && is_held_i;
      operand_addr_q <= operand_addr_i;
      operand_step_q <= operand_step_i;
      operand_is_nibbles_q <= operand_is_nibbles_i;
      busy_q <= 1'b1;
      swap_q <= !is_alu_i && insn_i.swap;
      accumulate_q <= insn_i.accumulate;
      push_prev_q <= insn_i.push_prev;
      push_next_q <= insn_i.push_next;
      nibbles_q <= walk_i.input_bits == CfgWalkInputBits4;
      row_addr_q <= tile_i.address + LocalAddrW'($signed(insn_i.y)) * tile_i.row_bytes;
      x_step_q <= walk_i.x_step_bytes;
      y_step_bytes_q <= LocalAddrW'(walk_i.y_step_rows) * tile_i.row_bytes;
      width_q <= tile_i.width_bytes;
      x_first_q <= PosW'($signed(insn_i.x));
      x_q <= PosW'($signed(insn_i.x));
      y_q <= PosW'($signed(insn_i.y));
      x_count_q <= insn_i.x_count;
      x_left_q <= insn_i.x_count;
      y_left_q <= insn_i.y_count;
      y_step_q <= walk_i.y_step_rows;
      height_q <= tile_i.rows;
      // Lanes are bytes here: an element of 32 bits takes four.
      rows_q <= (is_alu_i && walk_i.input_bits == CfgWalkInputBits32) ? insn_i.rows << 2 : insn_i.rows;
      destination_q <= insn_i.destination;
      padding_q <= walk_i.padding;
    end else if (fetch) begin
      fetch_q <= 1'b0;
      operand_addr_q <= operand_addr_q + operand_step_q;
    end else if (step) begin
      busy_q <= !last;
      fetch_q <= is_sequence_q && !last;
      swap_q <= 1'b0;
      if (is_held_q) accumulate_q <= 1'b1;
      else destination_q <= destination_q + 1'b1;
      if (is_x_end) begin
        x_left_q <= x_count_q;
        y_left_q <= y_left_q - 1'b1;
        x_q <= x_first_q;
        y_q <= y_q + $signed(PosW'(y_step_q));
        row_addr_q <= row_addr_q + y_step_bytes_q;
      end else begin
        x_left_q <= x_left_q - 1'b1;
        x_q <= x_q + $signed(PosW'(x_step_q));
      end
    end
  end

  // One cycle for the scratchpad, one to align and pad.
  logic valid_1_q, fetch_1_q, fetch_2_q, swap_1_q, swap_2_q, nibbles_1_q, row_valid_1_q;
  logic signed [PosW-1:0] low_1_q, high_1_q;
  logic [LaneCountW-1:0] rows_1_q;
  logic [7:0] padding_1_q;
  logic [$clog2(2*WordBytes)-1:0] offset_1_q;
  logic [Lanes-1:0][ElemW-1:0] aligned, padded, lanes_2_q;
  tpe_align #(.Lanes(Lanes), .WordBytes(WordBytes), .ElemW(ElemW)) u_align (
    .line_i(read_data_i), .offset_i(offset_1_q), .is_nibbles_i(nibbles_1_q), .lanes_o(aligned)
  );
  for (genvar i = 0; i < Lanes; i++) begin : gen_pad
    logic signed [PosW-1:0] at;
    assign at = $signed(nibbles_1_q ? PosW'(i / 2) : PosW'(i));
    assign padded[i] = fetch_1_q ? aligned[i]
        : !valid_1_q || LaneCountW'(i) >= rows_1_q ? '0
        : row_valid_1_q && at >= low_1_q && at < high_1_q ? aligned[i] : padding_1_q;
  end
  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      valid_1_q <= 1'b0;
      fetch_1_q <= 1'b0;
      fetch_2_q <= 1'b0;
      swap_1_q <= 1'b0;
      swap_2_q <= 1'b0;
    end else begin
      valid_1_q <= step;
      fetch_1_q <= fetch;
      fetch_2_q <= fetch_1_q;
      swap_1_q <= first_o;
      swap_2_q <= swap_1_q;
    end
  end
  always_ff @(posedge clk_i) begin
    nibbles_1_q <= fetch ? operand_is_nibbles_q : nibbles_q;
    row_valid_1_q <= is_row_valid;
    low_1_q <= low;
    high_1_q <= high;
    rows_1_q <= rows_q;
    padding_1_q <= padding_q;
    offset_1_q <= fetch ? operand_addr_q[$clog2(2*WordBytes)-1:0] : addr[$clog2(2*WordBytes)-1:0];
    lanes_2_q <= padded;
  end
  assign swap_o = swap_2_q;
  assign operand_valid_o = fetch_2_q;
  assign lanes_o = lanes_2_q;
endmodule
