// Scratchpad of several banks. A bank is a pair of arrays, for even and odd words, so that a vector that starts anywhere
// takes one access. Who loses a bank waits, but for loads, which never do.
module tpe_scratchpad
  import tpe_pkg::*;
(
  input  logic                  clk_i,
  input  logic                  rst_ni,
  // Load: one beat.
  input  logic                  load_valid_i,
  input  logic [LocalAddrW-1:0] load_addr_i,
  input  logic [BusW-1:0]       load_data_i,
  // Store: up to one word.
  input  logic                  store_valid_i,
  input  logic [LocalAddrW-1:0] store_addr_i,
  input  logic [WordW-1:0]      store_data_i,
  input  logic [WordBytes-1:0]  store_strobe_i,
  output logic                  store_ready_o,
  // Reads: the words that hold the bytes from `first` to `last`. Data of the next cycle: even word, odd word.
  input  logic [1:0]                  read_valid_i,
  input  logic [1:0][LocalAddrW-1:0]  read_first_i,
  input  logic [1:0][LocalAddrW-1:0]  read_last_i,
  output logic [1:0]                  read_ready_o,
  output logic [1:0][2*WordW-1:0]     read_data_o
);
  localparam int unsigned HalfWords = BankWords / 2;
  localparam int unsigned HalfW = (HalfWords > 1) ? $clog2(HalfWords) : 1;

  // A local address is {bank, word in bank, byte in word}.
  function automatic logic [BankW-1:0] bank_of(input logic [LocalAddrW-1:0] addr);
    bank_of = BankW'((addr >> (WordShift + BankWordShift)) % LocalAddrW'(NumBanks));
  endfunction
  function automatic logic [HalfW-1:0] row_of(input logic [LocalAddrW-1:0] addr);
    row_of = HalfW'((addr >> (WordShift + 1)) % LocalAddrW'(HalfWords));
  endfunction
  function automatic logic is_odd(input logic [LocalAddrW-1:0] addr);
    is_odd = addr[WordShift];
  endfunction

  logic [NumBanks-1:0] load_mask, store_mask;
  logic [1:0][NumBanks-1:0] read_mask;
  logic [1:0][LocalAddrW-1:0] even_addr, odd_addr;
  logic [1:0] has_even, has_odd;

  assign load_mask = load_valid_i ? NumBanks'(1) << bank_of(load_addr_i) : '0;
  assign store_mask = store_valid_i ? NumBanks'(1) << bank_of(store_addr_i) : '0;
  for (genvar i = 0; i < 2; i++) begin : gen_read_mask
    logic is_two;
    assign is_two = (read_first_i[i] >> WordShift) != (read_last_i[i] >> WordShift);
    assign even_addr[i] = is_odd(read_first_i[i]) ? read_last_i[i] : read_first_i[i];
    assign odd_addr[i] = is_odd(read_first_i[i]) ? read_first_i[i] : read_last_i[i];
    assign has_even[i] = is_two || !is_odd(read_first_i[i]);
    assign has_odd[i] = is_two || is_odd(read_first_i[i]);
    assign read_mask[i] = read_valid_i[i]
        ? (NumBanks'(1) << bank_of(read_first_i[i])) | (NumBanks'(1) << bank_of(read_last_i[i])) : '0;
  end

  logic [1:0][NumBanks-1:0] read_grant;
  logic [NumBanks-1:0] store_grant;
  tpe_arbiter #(.NumBanks(NumBanks), .SinglePort(ScratchpadSinglePort)) u_arbiter (
    .load_i(load_mask), .read_i(read_mask), .store_i(store_mask),
    .read_ready_o, .store_ready_o, .read_grant_o(read_grant), .store_grant_o(store_grant)
  );

  // Which bank each reader's words come from.
  logic [1:0][BankW-1:0] even_bank_q, odd_bank_q;
  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      even_bank_q <= '0;
      odd_bank_q <= '0;
    end else begin
      for (int unsigned i = 0; i < 2; i++) begin
        even_bank_q[i] <= bank_of(even_addr[i]);
        odd_bank_q[i] <= bank_of(odd_addr[i]);
      end
    end
  end

  // The word to write, with the beat in its place.
  logic [WordW-1:0] load_word;
  logic [WordBytes-1:0] load_strobe;
  always_comb begin
    load_word = '0;
    load_strobe = '0;
    for (int unsigned k = 0; k < WordBytes / BusBytes; k++) begin
      load_word[k*BusW +: BusW] = load_data_i;
      if (LocalAddrW'(k) == (load_addr_i >> BusShift) % LocalAddrW'(WordBytes / BusBytes)) begin
        load_strobe[k*BusBytes +: BusBytes] = '1;
      end
    end
  end

  logic [NumBanks-1:0][WordW-1:0] even_data, odd_data;
  for (genvar b = 0; b < NumBanks; b++) begin : gen_bank
    logic [WordW-1:0] even_mem [HalfWords];
    logic [WordW-1:0] odd_mem [HalfWords];
    logic is_load, is_store, write_is_odd;
    logic [HalfW-1:0] write_row, even_row, odd_row;
    logic even_read, odd_read;
    logic [WordW-1:0] write_data;
    logic [WordBytes-1:0] write_strobe;

    assign is_load = load_mask[b];
    assign is_store = store_grant[b];
    assign write_is_odd = is_load ? is_odd(load_addr_i) : is_odd(store_addr_i);
    assign write_row = is_load ? row_of(load_addr_i) : row_of(store_addr_i);
    assign write_data = is_load ? load_word : store_data_i;
    assign write_strobe = is_load ? load_strobe : is_store ? store_strobe_i : '0;

    always_comb begin
      even_read = 1'b0;
      odd_read = 1'b0;
      even_row = '0;
      odd_row = '0;
      for (int unsigned i = 0; i < 2; i++) begin
        if (read_grant[i][b] && has_even[i] && bank_of(even_addr[i]) == BankW'(b)) begin
          even_read = 1'b1;
          even_row = row_of(even_addr[i]);
        end
        if (read_grant[i][b] && has_odd[i] && bank_of(odd_addr[i]) == BankW'(b)) begin
          odd_read = 1'b1;
          odd_row = row_of(odd_addr[i]);
        end
      end
    end

    always_ff @(posedge clk_i) begin
      for (int unsigned k = 0; k < WordBytes; k++) begin
        if (write_strobe[k] && !write_is_odd) even_mem[write_row][k*8 +: 8] <= write_data[k*8 +: 8];
        if (write_strobe[k] && write_is_odd) odd_mem[write_row][k*8 +: 8] <= write_data[k*8 +: 8];
      end
      if (even_read) even_data[b] <= even_mem[even_row];
      if (odd_read) odd_data[b] <= odd_mem[odd_row];
    end
  end

  for (genvar i = 0; i < 2; i++) begin : gen_read_data
    assign read_data_o[i] = {odd_data[odd_bank_q[i]], even_data[even_bank_q[i]]};
  end
endmodule
