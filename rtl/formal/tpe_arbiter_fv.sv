// tpe_arbiter: one owner per bank and direction, loads first, priorities, nobody locked out. It has no state, so one step
// covers everything.
module tpe_arbiter_fv #(
  parameter int unsigned NumBanks = 4,
  parameter bit SinglePort = 1'b0
) (
  input logic [NumBanks-1:0]      load_i,
  input logic [1:0][NumBanks-1:0] read_i,
  input logic [NumBanks-1:0]      store_i
);
  logic [1:0] read_ready;
  logic store_ready;
  logic [1:0][NumBanks-1:0] read_grant;
  logic [NumBanks-1:0] store_grant;
  tpe_arbiter #(.NumBanks(NumBanks), .SinglePort(SinglePort)) u_dut (
    .load_i, .read_i, .store_i,
    .read_ready_o(read_ready), .store_ready_o(store_ready), .read_grant_o(read_grant), .store_grant_o(store_grant)
  );

  // Banks whose owner stands before the second read and the store, by the order of priority.
  logic [NumBanks-1:0] before_read_0, before_read_1, before_store;
  assign before_read_0 = SinglePort ? load_i : '0;
  assign before_read_1 = before_read_0 | read_grant[0];
  assign before_store = SinglePort ? before_read_1 | read_grant[1] : load_i;

  always_comb begin
    // One owner per bank and direction. A load owns what it asks for: nobody else writes there.
    a_one_reader: assert ((read_grant[0] & read_grant[1]) == '0);
    a_one_writer: assert ((load_i & store_grant) == '0);
    if (SinglePort) begin
      a_one_direction: assert (((read_grant[0] | read_grant[1]) & (load_i | store_grant)) == '0);
    end
    // All or nothing, and nothing without a request.
    a_read_0_granted: assert (read_grant[0] == (read_ready[0] ? read_i[0] : '0));
    a_read_1_granted: assert (read_grant[1] == (read_ready[1] ? read_i[1] : '0));
    a_store_granted: assert (store_grant == (store_ready ? store_i : '0));
    // Who waits, waits for one before it, and for nothing else.
    a_read_0_priority: assert (read_ready[0] == ((read_i[0] & before_read_0) == '0));
    a_read_1_priority: assert (read_ready[1] == ((read_i[1] & before_read_1) == '0));
    a_store_priority: assert (store_ready == ((store_i & before_store) == '0));
    // Alone, or on banks of one's own: granted.
    if (load_i == '0 && read_i[1] == '0 && store_i == '0) a_lone_read_0: assert (read_ready[0]);
    if (load_i == '0 && read_i[0] == '0 && store_i == '0) a_lone_read_1: assert (read_ready[1]);
    if (load_i == '0 && read_i == '0) a_lone_store: assert (store_ready);
    if ((read_i[0] & load_i) == '0) a_first_read_waits_for_loads_only: assert (read_ready[0]);
  end
endmodule
