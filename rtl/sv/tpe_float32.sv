// A sum of floating-point products as an IEEE 754 number of 32 bits, rounded once to nearest, ties to even.
module tpe_float32
  import tpe_pkg::*;
  import tpe_number_pkg::*;
(
  input  logic [SumW-1:0] sum_i,
  output logic [31:0]     bits_o
);
  localparam int unsigned PlaceW = $clog2(AccW);
  localparam logic [7:0] LeastExponent = 8'd127 - 8'(SumShift);

  flags_t flags;
  logic is_negative, is_up;
  logic [AccW-1:0] magnitude, aligned;
  logic [PlaceW-1:0] first;
  logic [30:0] code;
  assign flags = flags_of(sum_i);
  assign is_negative = sum_i[AccW-1];
  assign magnitude = is_negative ? -sum_i[AccW-1:0] : sum_i[AccW-1:0];
  always_comb begin
    first = '0;
    for (int unsigned i = 0; i < AccW; i++) if (magnitude[i]) first = PlaceW'(i);
  end
  // The first one at the top: 24 bits of significand, then the half, then the rest.
  assign aligned = magnitude << (PlaceW'(AccW - 1) - first);
  assign is_up = aligned[AccW-25] && (aligned[AccW-26:0] != '0 || aligned[AccW-24]);
  assign code = {8'(first) + LeastExponent, aligned[AccW-2 -: 23]} + 31'(is_up);
  always_comb begin
    if (is_nan_sum(flags)) bits_o = 32'h7FC0_0000;
    else if (flags.plus_infinity || flags.minus_infinity) bits_o = {flags.minus_infinity, 31'h7F80_0000};
    else if (magnitude == '0) bits_o = '0;
    else bits_o = {is_negative, code};
  end
endmodule
