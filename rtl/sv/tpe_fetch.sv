// Fetches the program in order, one instruction per cycle, up to its HALT.
module tpe_fetch
  import tpe_pkg::*;
(
  input  logic                 clk_i,
  input  logic                 rst_ni,
  input  logic                 run_i,
  output logic [IndexW-1:0]    addr_o,
  input  logic [InsnW-1:0]     data_i,
  output logic                 valid_o,
  input  logic                 ready_i,
  output logic [IndexW-1:0]    index_o,
  output logic [InsnW-1:0]     insn_o
);
  logic [IndexW-1:0] pc_q, index_q;
  logic [InsnW-1:0] insn_q;
  logic valid_q, is_ended_q, step;

  assign addr_o = pc_q;
  assign valid_o = valid_q;
  assign index_o = index_q;
  assign insn_o = insn_q;
  assign step = run_i && (!valid_q || ready_i);

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      pc_q <= '0;
      index_q <= '0;
      insn_q <= '0;
      valid_q <= 1'b0;
      is_ended_q <= 1'b0;
    end else if (step) begin
      valid_q <= !is_ended_q;
      if (!is_ended_q) begin
        insn_q <= data_i;
        index_q <= pc_q;
        pc_q <= pc_q + 1'b1;
        is_ended_q <= data_i[InsnW-1 -: OpcodeW] == OpHalt;
      end
    end
  end
endmodule
