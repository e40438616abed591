// Accumulator memory: adds what comes out of the array, which never waits, and serves the store unit.
module tpe_accumulator
  import tpe_pkg::*;
  import tpe_number_pkg::*;
(
  input  logic                       clk_i,
  input  logic                       rst_ni,
  // Array, one cycle ahead of the sums.
  input  logic                       sum_valid_i,
  input  logic                       sum_accumulate_i,
  input  logic [AccAddrW-1:0]        sum_addr_i,
  // The sums, one cycle later, and how they are combined with what is there.
  input  logic [Cols-1:0][SumW-1:0]  sum_i,
  input  logic                       is_maximum_i,
  output logic                       write_valid_o,
  // Store.
  input  logic                       read_valid_i,
  input  logic [AccAddrW-1:0]        read_addr_i,
  output logic                       read_ready_o,
  output logic [Cols-1:0][SumW-1:0]  read_data_o
);
  localparam int unsigned Depth = AccDepth / AccBanks;
  localparam int unsigned DepthW = (Depth > 1) ? $clog2(Depth) : 1;

  function automatic logic [AccBankW-1:0] bank_of(input logic [AccAddrW-1:0] addr);
    bank_of = AccBankW'((addr / AccAddrW'(Depth)) % AccAddrW'(AccBanks));
  endfunction
  function automatic logic [DepthW-1:0] row_of(input logic [AccAddrW-1:0] addr);
    row_of = DepthW'(addr % AccAddrW'(Depth));
  endfunction

  logic sum_read;
  assign sum_read = sum_valid_i && sum_accumulate_i;
  assign read_ready_o = !(sum_read && bank_of(sum_addr_i) == bank_of(read_addr_i));

  logic valid_q, accumulate_q, is_forwarded_q;
  logic [AccAddrW-1:0] addr_q;
  logic [AccBankW-1:0] sum_bank_q, read_bank_q;
  logic [Cols-1:0][SumW-1:0] old, written, forward_q;
  logic [AccBanks-1:0][Cols*SumW-1:0] data;
  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      valid_q <= 1'b0;
      accumulate_q <= 1'b0;
      is_forwarded_q <= 1'b0;
      addr_q <= '0;
      sum_bank_q <= '0;
      read_bank_q <= '0;
    end else begin
      valid_q <= sum_valid_i;
      accumulate_q <= sum_accumulate_i;
      addr_q <= sum_addr_i;
      sum_bank_q <= bank_of(sum_addr_i);
      read_bank_q <= bank_of(read_addr_i);
      // What is being written this cycle is not in the memory's answer yet.
      is_forwarded_q <= valid_q && addr_q == sum_addr_i;
    end
  end
  always_ff @(posedge clk_i) forward_q <= written;

  assign old = is_forwarded_q ? forward_q : data[sum_bank_q];
  for (genvar c = 0; c < Cols; c++) begin : gen_add
    assign written[c] = !accumulate_q ? sum_i[c]
        : is_maximum_i ? maximum_of(old[c], sum_i[c]) : sum_of(old[c], sum_i[c]);
  end
  assign write_valid_o = valid_q;
  assign read_data_o = data[read_bank_q];

  for (genvar b = 0; b < AccBanks; b++) begin : gen_bank
    logic [Cols*SumW-1:0] mem [Depth];
    logic is_sum, is_read;
    assign is_sum = sum_read && bank_of(sum_addr_i) == AccBankW'(b);
    assign is_read = read_valid_i && read_ready_o && bank_of(read_addr_i) == AccBankW'(b);
    always_ff @(posedge clk_i) begin
      if (valid_q && bank_of(addr_q) == AccBankW'(b)) mem[row_of(addr_q)] <= written;
      if (is_sum || is_read) data[b] <= mem[row_of(is_sum ? sum_addr_i : read_addr_i)];
    end
  end
endmodule
