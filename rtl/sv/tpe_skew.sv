// Delays lane i by i cycles; reversed, by what is left to the last lane.
module tpe_skew #(
  parameter int unsigned Lanes = 8,
  parameter int unsigned Width = 8,
  parameter bit Reverse = 1'b0
) (
  input  logic                        clk_i,
  input  logic [Lanes-1:0][Width-1:0] lanes_i,
  output logic [Lanes-1:0][Width-1:0] lanes_o
);
  for (genvar i = 0; i < Lanes; i++) begin : gen_lane
    localparam int unsigned Delay = Reverse ? Lanes - 1 - i : i;
    if (Delay == 0) begin : gen_wire
      assign lanes_o[i] = lanes_i[i];
    end else begin : gen_delay
      logic [Delay-1:0][Width-1:0] stages_q;
      always_ff @(posedge clk_i) begin
        stages_q[0] <= lanes_i[i];
        for (int unsigned k = 1; k < Delay; k++) stages_q[k] <= stages_q[k-1];
      end
      assign lanes_o[i] = stages_q[Delay-1];
    end
  end
endmodule
