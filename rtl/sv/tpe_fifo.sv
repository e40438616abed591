// First-in first-out queue; the head shows without a read.
module tpe_fifo #(
  parameter int unsigned Width = 8,
  parameter int unsigned Depth = 4
) (
  input  logic             clk_i,
  input  logic             rst_ni,
  input  logic             wvalid_i,
  output logic             wready_o,
  input  logic [Width-1:0] wdata_i,
  output logic             rvalid_o,
  input  logic             rready_i,
  output logic [Width-1:0] rdata_o
);
  localparam int unsigned PtrW = (Depth > 1) ? $clog2(Depth) : 1;
  localparam int unsigned CountW = $clog2(Depth + 1);

  logic [Width-1:0] mem [Depth];
  logic [PtrW-1:0] wptr_q, rptr_q;
  logic [CountW-1:0] count_q;
  logic push, pop;

  assign wready_o = count_q != CountW'(Depth);
  assign rvalid_o = count_q != '0;
  assign rdata_o = mem[rptr_q];
  assign push = wvalid_i && wready_o;
  assign pop = rready_i && rvalid_o;

  function automatic logic [PtrW-1:0] next(input logic [PtrW-1:0] ptr);
    next = (ptr == PtrW'(Depth - 1)) ? '0 : ptr + 1'b1;
  endfunction

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      wptr_q <= '0;
      rptr_q <= '0;
      count_q <= '0;
    end else begin
      if (push) wptr_q <= next(wptr_q);
      if (pop) rptr_q <= next(rptr_q);
      count_q <= count_q + CountW'(push) - CountW'(pop);
    end
  end

  always_ff @(posedge clk_i) begin
    if (push) mem[wptr_q] <= wdata_i;
  end
endmodule
