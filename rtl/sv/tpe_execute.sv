// Execute unit: preloads weights and streams inputs through the PE array, or through the vector unit, into the
// accumulators.
module tpe_execute
  import tpe_pkg::*;
  import tpe_number_pkg::*;
(
  input  logic                        clk_i,
  input  logic                        rst_ni,
  // Issue.
  input  logic [InsnW-1:0]            insn_i,
  input  logic                        issue_i,
  output logic                        ready_o,
  output logic [1:0]                  done_push_prev_o,  // preload and compute may both end in a cycle
  output logic [1:0]                  done_push_next_o,
  output logic                        idle_o,
  // Scratchpad: inputs, weights.
  output logic [1:0]                  read_valid_o,
  output logic [1:0][LocalAddrW-1:0]  read_first_o,
  output logic [1:0][LocalAddrW-1:0]  read_last_o,
  input  logic [1:0]                  read_ready_i,
  input  logic [1:0][2*WordW-1:0]     read_data_i,
  // Accumulators.
  output logic                        sum_valid_o,
  output logic                        sum_accumulate_o,
  output logic                        sum_is_maximum_o,  // one cycle later, with the sums
  output logic [AccAddrW-1:0]         sum_addr_o,
  output logic [Cols-1:0][SumW-1:0]   sum_o,
  output logic                        preload_done_o,
  output logic                        compute_done_o
);
  // From a vector's request to its sums: scratchpad, alignment, the array's rows and columns.
  localparam int unsigned SumLatency = Rows + Cols;

  header_t header;
  logic [HeaderRestW-1:0] unused_rest;
  preload_t preload_insn;
  compute_t compute_insn;
  assign {header, unused_rest} = insn_i;
  assign preload_insn = insn_i;
  assign compute_insn = insn_i;
  alu_t alu_insn;
  logic is_preload, is_compute, is_alu, is_array_empty;
  assign alu_insn = insn_i;
  assign is_alu = header.opcode == OpAlu;
  assign is_preload = header.opcode == OpPreload;
  assign is_compute = header.opcode == OpCompute;

  cfg_tile_t tile_q;
  cfg_walk_t walk_q;
  cfg_alu_t alu_q;
  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      tile_q <= '0;
      walk_q <= '0;
      alu_q <= '0;
    end else if (issue_i) begin
      if (header.opcode == OpCfgTile) tile_q <= insn_i;
      if (header.opcode == OpCfgWalk) walk_q <= insn_i;
      if (header.opcode == OpCfgAlu) alu_q <= insn_i;
    end
  end

  logic preload_ready, preload_last, preload_idle, compute_ready, compute_first, compute_idle, swap_pending, sums_idle;
  logic preload_issue, compute_issue, swap_issue;
  logic unused_preload_step, is_shadow_complete, is_shadow_free;
  assign preload_issue = issue_i && is_preload;
  assign compute_issue = issue_i && (is_compute || is_alu);
  assign swap_issue = issue_i && is_compute && compute_insn.swap;
  assign ready_o = is_preload ? preload_ready && is_shadow_free
      : is_compute ? compute_ready && (!compute_insn.swap || is_shadow_complete)
      // Vectors overtake what is in the array, which must be empty.
      : is_alu ? compute_idle && is_array_empty
      : 1'b1;
  tpe_shadow u_shadow (
    .clk_i, .rst_ni, .preload_issue_i(preload_issue), .preload_last_i(preload_last), .swap_issue_i(swap_issue),
    .is_free_o(is_shadow_free), .is_complete_o(is_shadow_complete)
  );

  logic weight_valid;
  logic [RowW-1:0] weight_row;
  logic [Cols-1:0][ElemW-1:0] weight;
  tpe_preload u_preload (
    .clk_i, .rst_ni,
    .insn_i(preload_insn), .is_nibbles_i(walk_q.weight_bits == CfgWalkWeightBits4), .issue_i(preload_issue),
    .ready_o(preload_ready), .hold_i(swap_pending && !compute_first), .step_o(unused_preload_step), .last_o(preload_last),
    .done_push_prev_o(done_push_prev_o[1]), .done_push_next_o(done_push_next_o[1]), .idle_o(preload_idle),
    .read_valid_o(read_valid_o[1]), .read_first_o(read_first_o[1]), .read_last_o(read_last_o[1]),
    .read_ready_i(read_ready_i[1]), .read_data_i(read_data_i[1]),
    .weight_valid_o(weight_valid), .weight_row_o(weight_row), .weight_o(weight)
  );

  logic step, last, accumulate, push_next, swap;
  logic [AccAddrW-1:0] destination;
  logic [Lanes-1:0][ElemW-1:0] value;
  logic operand_valid, step_is_alu;
  tpe_compute u_compute (
    .clk_i, .rst_ni,
    .insn_i(compute_insn), .is_alu_i(is_alu), .is_vector_i(alu_insn.operand == AluOperandVector),
    .is_sequence_i(alu_insn.operand == AluOperandSequence), .is_held_i(alu_insn.hold), .operand_addr_i(alu_q.address),
    .operand_step_i(alu_q.step_bytes), .operand_is_nibbles_i(walk_q.weight_bits == CfgWalkWeightBits4),
    .tile_i(tile_q), .walk_i(walk_q), .issue_i(compute_issue), .ready_o(compute_ready),
    .step_o(step), .first_o(compute_first), .swap_pending_o(swap_pending),
    .done_push_prev_o(done_push_prev_o[0]), .idle_o(compute_idle),
    .read_valid_o(read_valid_o[0]), .read_first_o(read_first_o[0]), .read_last_o(read_last_o[0]),
    .read_ready_i(read_ready_i[0]), .read_data_i(read_data_i[0]),
    .swap_o(swap), .operand_valid_o(operand_valid), .lanes_o(value), .is_alu_o(step_is_alu),
    .last_o(last), .accumulate_o(accumulate), .push_next_o(push_next), .destination_o(destination)
  );

  // Skewed array.
  logic [Rows-1:0][ElemW:0] input_lanes, input_skewed;
  logic [Cols-1:0][ElemW+RowW:0] weight_lanes, weight_skewed;
  logic signed [Rows-1:0][ElemW-1:0] array_input;
  logic signed [Cols-1:0][ElemW-1:0] array_weight;
  logic [Rows-1:0] array_swap;
  logic [Cols-1:0] array_weight_valid;
  logic [Cols-1:0][RowW-1:0] array_weight_row;
  logic [Cols-1:0][SumW-1:0] array_sum;
  for (genvar r = 0; r < Rows; r++) begin : gen_input
    assign input_lanes[r] = {swap, value[r]};
    assign {array_swap[r], array_input[r]} = input_skewed[r];
  end
  for (genvar c = 0; c < Cols; c++) begin : gen_weight
    assign weight_lanes[c] = {weight_valid, weight_row, weight[c]};
    assign {array_weight_valid[c], array_weight_row[c], array_weight[c]} = weight_skewed[c];
  end
  tpe_skew #(.Lanes(Rows), .Width(ElemW + 1)) u_skew_input (.clk_i, .lanes_i(input_lanes), .lanes_o(input_skewed));
  tpe_skew #(.Lanes(Cols), .Width(ElemW + RowW + 1)) u_skew_weight (
    .clk_i, .lanes_i(weight_lanes), .lanes_o(weight_skewed)
  );
  tpe_array #(.Rows(Rows), .Cols(Cols), .ElemW(ElemW), .SumW(SumW)) u_array (
    .clk_i, .input_i(array_input), .swap_i(array_swap), .weight_i(array_weight),
    .weight_valid_i(array_weight_valid), .weight_row_i(array_weight_row), .sum_o(array_sum)
  );
  logic [Cols-1:0][SumW-1:0] aligned_sum;
  tpe_skew #(.Lanes(Cols), .Width(SumW), .Reverse(1'b1)) u_skew_sum (
    .clk_i, .lanes_i(array_sum), .lanes_o(aligned_sum)
  );

  // What the sums are for, in step with them.
  typedef struct packed {
    logic accumulate;
    logic push;
    logic last;
    logic [AccAddrW-1:0] addr;
  } tag_t;
  logic [SumLatency-1:0] tag_valid_q;
  tag_t [SumLatency-1:0] tag_q;
  tag_t step_tag;
  assign step_tag = {accumulate, push_next, last, destination};
  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) tag_valid_q <= '0;
    else tag_valid_q <= {tag_valid_q[SumLatency-2:0], step && !step_is_alu};
  end
  always_ff @(posedge clk_i) begin
    tag_q[0] <= step_tag;
    for (int unsigned k = 1; k < SumLatency; k++) tag_q[k] <= tag_q[k-1];
  end

  // Vector unit: its sums come four cycles after the step.
  logic alu_1_q, alu_2_q, alu_3_q, alu_4_q, is_maximum_q;
  logic [1:0] is_maximum_then_q;
  logic [Cols-1:0][SumW-1:0] vector_sum;
  tag_t [2:0] alu_tag_q;
  tag_t tag;
  tpe_vector u_vector (
    .clk_i, .rst_ni,
    .issue_i(issue_i && is_alu), .insn_i(alu_insn), .cfg_i(alu_q), .is_words_i(walk_q.input_bits == CfgWalkInputBits32),
    .operand_valid_i(operand_valid), .lanes_i(value), .sum_o(vector_sum)
  );
  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      {alu_1_q, alu_2_q, alu_3_q, alu_4_q} <= '0;
      is_maximum_q <= 1'b0;
    end else begin
      {alu_1_q, alu_2_q, alu_3_q, alu_4_q} <= {step && step_is_alu, alu_1_q, alu_2_q, alu_3_q};
      if (issue_i && is_alu) is_maximum_q <= alu_insn.operation == AluOperationMaximum;
    end
  end
  assign is_array_empty = tag_valid_q == '0 && !alu_1_q;
  always_ff @(posedge clk_i) begin
    alu_tag_q <= {alu_tag_q[1:0], step_tag};
    is_maximum_then_q <= {is_maximum_then_q[0], is_maximum_q};
  end
  assign sum_o = alu_4_q ? vector_sum : aligned_sum;
  assign sum_is_maximum_o = alu_4_q && is_maximum_then_q[1];

  logic end_q, push_q;
  assign tag = alu_3_q ? alu_tag_q[2] : tag_q[SumLatency-1];
  assign sum_valid_o = alu_3_q || tag_valid_q[SumLatency-1];
  assign sum_accumulate_o = tag.accumulate;
  assign sum_addr_o = tag.addr;
  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      end_q <= 1'b0;
      push_q <= 1'b0;
    end else begin
      end_q <= sum_valid_o && tag.last;
      push_q <= sum_valid_o && tag.push;
    end
  end
  assign done_push_next_o[0] = push_q;
  assign preload_done_o = preload_last;
  assign compute_done_o = end_q;
  assign sums_idle = tag_valid_q == '0 && !alu_1_q && !alu_2_q && !alu_3_q && !end_q;
  assign idle_o = preload_idle && compute_idle && sums_idle;
endmodule
