// Vector unit: multiplies lanes by the second operand, divides, and combines lanes. Sums come two cycles after the lanes.
module tpe_vector
  import tpe_pkg::*;
  import tpe_number_pkg::*;
(
  input  logic                        clk_i,
  input  logic                        rst_ni,
  // Issue of an ALU, whose vectors come once those of the one before are through.
  input  logic                        issue_i,
  input  alu_t                        insn_i,
  input  cfg_alu_t                    cfg_i,
  input  logic                        is_words_i,  // elements of 32 bits
  // Vectors from the scratchpad; the second operand comes before those that it is for.
  input  logic                        operand_valid_i,
  input  logic [Lanes-1:0][ElemW-1:0] lanes_i,
  output logic [Cols-1:0][SumW-1:0]   sum_o
);
  localparam int unsigned ProductW = 48;
  localparam int unsigned Leaves = 2 ** $clog2(Cols);

  logic is_scalar_q, is_maximum_q, is_combined_q, is_words_q;
  logic signed [15:0] scalar_q;
  logic [ShiftW-1:0] shift_q;
  logic [LaneCountW-1:0] columns_q;
  logic [Cols-1:0][ElemW-1:0] operand_q;
  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      is_scalar_q <= 1'b0;
      is_maximum_q <= 1'b0;
      is_combined_q <= 1'b0;
      is_words_q <= 1'b0;
      scalar_q <= '0;
      shift_q <= '0;
      columns_q <= '0;
    end else if (issue_i) begin
      is_scalar_q <= insn_i.operand == AluOperandScalar;
      is_maximum_q <= insn_i.operation == AluOperationMaximum;
      is_combined_q <= insn_i.lanes == AluLanesCombined;
      is_words_q <= is_words_i;
      scalar_q <= cfg_i.scalar;
      shift_q <= cfg_i.shift;
      columns_q <= insn_i.columns;
    end
  end

  // What the second stage needs to know may change while the last vector is there.
  logic is_maximum_1_q, is_combined_1_q;
  logic [ShiftW-1:0] shift_1_q;
  logic [LaneCountW-1:0] columns_1_q;
  always_ff @(posedge clk_i) begin
    is_maximum_1_q <= is_maximum_q;
    is_combined_1_q <= is_combined_q;
    shift_1_q <= shift_q;
    columns_1_q <= columns_q;
  end

  logic [Cols-1:0][SumW-1:0] scaled;
  for (genvar c = 0; c < Cols; c++) begin : gen_lane
    logic signed [15:0] operand;
    assign operand = is_scalar_q ? scalar_q : 16'($signed(operand_q[c]));
    always_ff @(posedge clk_i) if (operand_valid_i) operand_q[c] <= lanes_i[c];
    if (IsFloat) begin : gen_float
      logic [SumW-1:0] product_q;
      always_ff @(posedge clk_i) product_q <= product_of(lanes_i[c], operand[ElemW-1:0]);
      assign scaled[c] = product_q;
    end else begin : gen_integer
      logic signed [31:0] word, value;
      logic signed [ProductW-1:0] product_q, floor;
      logic [ProductW-1:0] rest, half;
      logic is_up;
      if (c < Lanes / 4) begin : gen_word
        assign word = lanes_i[4*c +: 4];
      end else begin : gen_no_word
        assign word = '0;
      end
      assign value = is_words_q ? word : 32'($signed(lanes_i[c]));
      always_ff @(posedge clk_i) product_q <= ProductW'(value) * ProductW'(operand);
      assign floor = product_q >>> shift_1_q;
      assign rest = product_q - (floor <<< shift_1_q);
      assign half = (shift_1_q == '0) ? '0 : ProductW'(1) << (shift_1_q - 1'b1);
      assign is_up = shift_1_q != '0
          && (rest > half || (rest == half && (RoundHalfToEven ? floor[0] : !product_q[ProductW-1])));
      assign scaled[c] = SumW'(floor + ProductW'({1'b0, is_up}));
    end
  end

  // Lanes that do not take part are left out, not 0: a maximum may be negative.
  logic [2*Leaves-1:1][SumW-1:0] node;
  logic [2*Leaves-1:1] is_any;
  always_comb begin
    for (int unsigned c = 0; c < Leaves; c++) begin
      is_any[Leaves + c] = c < 32'(columns_1_q);
      node[Leaves + c] = (c < Cols) ? scaled[(c < Cols) ? c : 0] : '0;
    end
    for (int unsigned i = Leaves - 1; i >= 1; i--) begin
      is_any[i] = is_any[2*i];
      node[i] = !is_any[2*i+1] ? node[2*i]
          : is_maximum_1_q ? maximum_of(node[2*i], node[2*i+1]) : sum_of(node[2*i], node[2*i+1]);
    end
  end
  always_ff @(posedge clk_i) begin
    for (int unsigned c = 0; c < Cols; c++) sum_o[c] <= is_combined_1_q ? node[1] : scaled[c];
  end
endmodule
