// Takes a vector that starts at any byte out of an even and an odd word, and unpacks elements of 8 or 4 bits.
module tpe_align #(
  parameter int unsigned Lanes = 8,
  parameter int unsigned WordBytes = 8,
  parameter int unsigned ElemW = 8,
  localparam int unsigned LineShift = $clog2(2 * WordBytes)
) (
  input  logic [2*WordBytes*8-1:0]   line_i,    // {odd word, even word}
  input  logic [LineShift-1:0]       offset_i,  // first byte of lane 0
  input  logic                       is_nibbles_i,
  output logic [Lanes-1:0][ElemW-1:0] lanes_o
);
  for (genvar i = 0; i < Lanes; i++) begin : gen_lane
    logic [LineShift-1:0] wide_at, narrow_at;
    logic [7:0] wide, narrow;
    logic [3:0] nibble;
    assign wide_at = offset_i + LineShift'(i);
    assign narrow_at = offset_i + LineShift'(i / 2);
    assign wide = line_i[{wide_at, 3'b000} +: 8];
    assign narrow = line_i[{narrow_at, 3'b000} +: 8];
    assign nibble = (i % 2 == 0) ? narrow[3:0] : narrow[7:4];
    assign lanes_o[i] = is_nibbles_i ? ElemW'({{4{nibble[3]}}, nibble}) : ElemW'(wide);
  end
endmodule
