// Reads a tile of weights into the shadow registers, one row of PEs per step; rows without weights become 0.
module tpe_preload
  import tpe_pkg::*;
(
  input  logic                   clk_i,
  input  logic                   rst_ni,
  input  preload_t               insn_i,
  input  logic                   is_nibbles_i,
  input  logic                   issue_i,
  output logic                   ready_o,
  input  logic                   hold_i,   // the shadow weights are not yet in use
  output logic                   step_o,
  output logic                   last_o,
  output logic                   done_push_prev_o,
  output logic                   done_push_next_o,
  output logic                   idle_o,
  // Scratchpad.
  output logic                   read_valid_o,
  output logic [LocalAddrW-1:0]  read_first_o,
  output logic [LocalAddrW-1:0]  read_last_o,
  input  logic                   read_ready_i,
  input  logic [2*WordW-1:0]     read_data_i,
  // Array, a row of weights and its index, in step.
  output logic                   weight_valid_o,
  output logic [RowW-1:0]        weight_row_o,
  output logic [Cols-1:0][ElemW-1:0] weight_o
);
  logic busy_q, is_nibbles_q, push_prev_q, push_next_q;
  logic [RowW-1:0] row_q;
  logic [LaneCountW-1:0] rows_q;
  logic [LocalAddrW-1:0] addr_q, stride_q;
  logic has_weights, step;

  assign has_weights = LaneCountW'(row_q) < rows_q;
  assign read_valid_o = busy_q && !hold_i && has_weights;
  assign read_first_o = addr_q;
  assign read_last_o = addr_q + (is_nibbles_q ? LocalAddrW'((Cols + 1) / 2 - 1) : LocalAddrW'(Cols - 1));
  assign step = busy_q && !hold_i && (!has_weights || read_ready_i);
  assign step_o = step;
  assign last_o = step && row_q == RowW'(Rows - 1);
  assign ready_o = !busy_q || last_o;
  assign idle_o = !busy_q;
  assign done_push_prev_o = last_o && push_prev_q;
  assign done_push_next_o = last_o && push_next_q;

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      busy_q <= 1'b0;
      row_q <= '0;
      rows_q <= '0;
      addr_q <= '0;
      stride_q <= '0;
      is_nibbles_q <= 1'b0;
      push_prev_q <= 1'b0;
      push_next_q <= 1'b0;
    end else if (issue_i) begin
      busy_q <= 1'b1;
      row_q <= '0;
      rows_q <= insn_i.rows;
      addr_q <= insn_i.address;
      stride_q <= insn_i.row_bytes;
      is_nibbles_q <= is_nibbles_i;
      push_prev_q <= insn_i.push_prev;
      push_next_q <= insn_i.push_next;
    end else if (step) begin
      busy_q <= !last_o;
      row_q <= row_q + 1'b1;
      addr_q <= addr_q + stride_q;
    end
  end

  // One cycle for the scratchpad, one to align.
  logic valid_1_q, has_1_q, nibbles_1_q, valid_2_q;
  logic [RowW-1:0] row_1_q, row_2_q;
  logic [$clog2(2*WordBytes)-1:0] offset_1_q;
  logic [Cols-1:0][ElemW-1:0] aligned, weight_2_q;
  tpe_align #(.Lanes(Cols), .WordBytes(WordBytes), .ElemW(ElemW)) u_align (
    .line_i(read_data_i), .offset_i(offset_1_q), .is_nibbles_i(nibbles_1_q), .lanes_o(aligned)
  );
  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      valid_1_q <= 1'b0;
      valid_2_q <= 1'b0;
    end else begin
      valid_1_q <= step;
      valid_2_q <= valid_1_q;
    end
  end
  always_ff @(posedge clk_i) begin
    has_1_q <= has_weights;
    nibbles_1_q <= is_nibbles_q;
    row_1_q <= row_q;
    offset_1_q <= addr_q[$clog2(2*WordBytes)-1:0];
    row_2_q <= row_1_q;
    weight_2_q <= has_1_q ? aligned : '0;
  end
  assign weight_valid_o = valid_2_q;
  assign weight_row_o = row_2_q;
  assign weight_o = weight_2_q;
endmodule
