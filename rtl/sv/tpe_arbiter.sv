// Who gets which scratchpad bank. Each requester gives the banks that it needs, none if it asks for nothing, and gets all
// of them or none. Loads never wait. Dual port: one write and one read port a bank; single port: one for both.
module tpe_arbiter #(
  parameter int unsigned NumBanks = 4,
  parameter bit SinglePort = 1'b0
) (
  input  logic [NumBanks-1:0]      load_i,
  input  logic [1:0][NumBanks-1:0] read_i,
  input  logic [NumBanks-1:0]      store_i,
  // A requester that asks for nothing may be ready; it gets no bank.
  output logic [1:0]               read_ready_o,
  output logic                     store_ready_o,
  output logic [1:0][NumBanks-1:0] read_grant_o,
  output logic [NumBanks-1:0]      store_grant_o
);
  logic [NumBanks-1:0] taken_0, taken_1, taken_2;
  if (SinglePort) begin : gen_single_port
    // Load, first read, second read, store.
    assign taken_0 = load_i;
    assign taken_1 = taken_0 | read_grant_o[0];
    assign taken_2 = taken_1 | read_grant_o[1];
  end else begin : gen_dual_port
    // First read, second read; load, store.
    assign taken_0 = '0;
    assign taken_1 = read_grant_o[0];
    assign taken_2 = load_i;
  end

  assign read_ready_o[0] = (read_i[0] & taken_0) == '0;
  assign read_ready_o[1] = (read_i[1] & taken_1) == '0;
  assign store_ready_o = (store_i & taken_2) == '0;
  assign read_grant_o[0] = read_ready_o[0] ? read_i[0] : '0;
  assign read_grant_o[1] = read_ready_o[1] ? read_i[1] : '0;
  assign store_grant_o = store_ready_o ? store_i : '0;
endmodule
