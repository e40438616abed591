// Main memory of the simulation: several requests under way, a latency, one bus for reads and writes in turn, and
// jitter on request.
module tpe_memory #(
  parameter int unsigned BusBytes = 8,
  parameter int unsigned AddrW = 32,
  parameter int unsigned BeatsW = 12,
  parameter int unsigned NumBeats = 65536,
  parameter int unsigned NumRequests = 8
) (
  input  logic                  clk_i,
  input  logic                  rst_ni,
  input  logic [15:0]           latency_i,
  input  logic [7:0]            cycles_per_beat_i,
  input  logic [31:0]           jitter_seed_i,  // 0 for none
  input  logic                  req_valid_i,
  output logic                  req_ready_o,
  input  logic [AddrW-1:0]      req_addr_i,
  input  logic [BeatsW-1:0]     req_beats_i,
  output logic                  data_valid_o,
  output logic [BusBytes*8-1:0] data_o,
  input  logic                  write_valid_i,
  output logic                  write_ready_o,
  input  logic [AddrW-1:0]      write_addr_i,
  input  logic [BusBytes*8-1:0] write_data_i,
  input  logic [BusBytes-1:0]   write_strobe_i
);
  localparam int unsigned Shift = $clog2(BusBytes);
  localparam int unsigned IdxW = $clog2(NumBeats);
  typedef struct packed {
    logic [31:0] ready_cycle;
    logic [IdxW-1:0] idx;
    logic [BeatsW-1:0] beats;
  } request_t;

  logic [BusBytes*8-1:0] mem [NumBeats];

  logic [31:0] now_q, lfsr_q;
  logic [7:0] gap_q;
  logic is_write_turn_q;
  logic [BeatsW-1:0] beat_q;
  request_t pushed, head;
  logic head_valid, emit, is_last, has_jitter;
  assign has_jitter = jitter_seed_i != '0;
  assign pushed = {now_q + 32'(latency_i) + (has_jitter ? {28'b0, lfsr_q[3:0]} : '0), IdxW'(req_addr_i >> Shift), req_beats_i};
  tpe_fifo #(.Width($bits(request_t)), .Depth(NumRequests)) u_requests (
    .clk_i, .rst_ni,
    .wvalid_i(req_valid_i), .wready_o(req_ready_o), .wdata_i(pushed),
    .rvalid_o(head_valid), .rready_i(is_last), .rdata_o(head)
  );
  logic is_read_ready, is_bus_free, write;
  assign is_bus_free = gap_q == '0 && !(has_jitter && lfsr_q[7:5] == '0);
  assign is_read_ready = head_valid && now_q >= head.ready_cycle;
  assign emit = is_bus_free && is_read_ready && !(write_valid_i && is_write_turn_q);
  assign write_ready_o = is_bus_free && !(is_read_ready && !is_write_turn_q);
  assign write = write_valid_i && write_ready_o;
  assign is_last = emit && beat_q == head.beats - 1'b1;

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      now_q <= '0;
      lfsr_q <= '0;
      gap_q <= '0;
      is_write_turn_q <= 1'b0;
      beat_q <= '0;
      data_valid_o <= 1'b0;
    end else begin
      now_q <= now_q + 1;
      if (has_jitter) lfsr_q <= (lfsr_q == '0) ? jitter_seed_i : {lfsr_q[30:0], lfsr_q[31] ^ lfsr_q[21] ^ lfsr_q[1] ^ lfsr_q[0]};
      data_valid_o <= emit;
      if (emit) beat_q <= is_last ? '0 : beat_q + 1'b1;
      if (emit) is_write_turn_q <= 1'b1;
      else if (write) is_write_turn_q <= 1'b0;
      if (emit || write) gap_q <= cycles_per_beat_i - 1'b1;
      else if (gap_q != '0) gap_q <= gap_q - 1'b1;
    end
  end
  always_ff @(posedge clk_i) begin
    if (emit) data_o <= mem[head.idx + IdxW'(beat_q)];
    for (int unsigned k = 0; k < BusBytes; k++) begin
      if (write && write_strobe_i[k]) begin
        mem[IdxW'(write_addr_i >> Shift)][k*8 +: 8] <= write_data_i[k*8 +: 8];
      end
    end
  end
endmodule
