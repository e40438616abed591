"""Areas of 45 nm standard cells, and the liberty file that Yosys maps to.

Widths of the AND cells were read in the library's LEF file, DFF_X1 and MUX2_X1 stand among the anchors of the component
models, the others are recalled.
"""

from __future__ import annotations

from dataclasses import dataclass

SOURCE = "NanGate 45 nm open cell library, cells of drive strength 1: width x 1.4 um of row height"
ROW_UM = 1.4
SITE_UM = 0.19


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """A standard cell.

    Attributes:
        name: Name of the cell.
        sites: Width in placement sites.
        inputs: Its inputs, a letter each.
        function: Its output Z as liberty writes it; a flip-flop has none.
        clear: What clears a flip-flop, as liberty writes it.
        preset: What sets a flip-flop.
    """

    name: str
    sites: int
    inputs: str
    function: str = ""
    clear: str = ""
    preset: str = ""

    @property
    def area_um2(self) -> float:
        """Area of the cell."""
        return self.sites * SITE_UM * ROW_UM

    def liberty(self) -> str:
        """The cell in a liberty file."""
        pins = " ".join(f"pin({name}) {{ direction: input; }}" for name in self.inputs)
        if self.function:
            output = f'pin(Z) {{ direction: output; function: "{self.function}"; }}'
            return f"cell({self.name}) {{ area: {self.area_um2:.3f}; {pins} {output} }}"
        extra = f" clear: {self.clear};" if self.clear else f" preset: {self.preset};" if self.preset else ""
        state = f"ff(IQ, IQN) {{ clocked_on: C; next_state: D;{extra} }}"
        return (
            f"cell({self.name}) {{ area: {self.area_um2:.3f}; {state} {pins} "
            'pin(Q) { direction: output; function: "IQ"; } }'
        )


CELLS = (
    Cell(name="INV", sites=2, inputs="A", function="!A"),
    Cell(name="BUF", sites=3, inputs="A", function="A"),
    Cell(name="NAND2", sites=3, inputs="AB", function="!(A*B)"),
    Cell(name="NAND3", sites=4, inputs="ABC", function="!(A*B*C)"),
    Cell(name="NAND4", sites=5, inputs="ABCD", function="!(A*B*C*D)"),
    Cell(name="NOR2", sites=3, inputs="AB", function="!(A+B)"),
    Cell(name="NOR3", sites=4, inputs="ABC", function="!(A+B+C)"),
    Cell(name="NOR4", sites=5, inputs="ABCD", function="!(A+B+C+D)"),
    Cell(name="AND2", sites=4, inputs="AB", function="A*B"),
    Cell(name="AND3", sites=5, inputs="ABC", function="A*B*C"),
    Cell(name="AND4", sites=6, inputs="ABCD", function="A*B*C*D"),
    Cell(name="OR2", sites=4, inputs="AB", function="A+B"),
    Cell(name="OR3", sites=5, inputs="ABC", function="A+B+C"),
    Cell(name="OR4", sites=6, inputs="ABCD", function="A+B+C+D"),
    Cell(name="XOR2", sites=6, inputs="AB", function="A^B"),
    Cell(name="XNOR2", sites=6, inputs="AB", function="!(A^B)"),
    Cell(name="MUX2", sites=7, inputs="ABS", function="(A*!S)+(B*S)"),
    Cell(name="AOI21", sites=4, inputs="ABC", function="!((A*B)+C)"),
    Cell(name="OAI21", sites=4, inputs="ABC", function="!((A+B)*C)"),
    Cell(name="AOI22", sites=5, inputs="ABCD", function="!((A*B)+(C*D))"),
    Cell(name="OAI22", sites=5, inputs="ABCD", function="!((A+B)*(C+D))"),
    Cell(name="AOI211", sites=5, inputs="ABCD", function="!((A*B)+C+D)"),
    Cell(name="OAI211", sites=5, inputs="ABCD", function="!((A+B)*C*D)"),
    Cell(name="DFF", sites=17, inputs="CD"),
    Cell(name="DFFR", sites=20, inputs="CDR", clear='"!R"'),
    Cell(name="DFFS", sites=20, inputs="CDS", preset='"!S"'),
)


def liberty() -> str:
    """The cells as a liberty file: areas and functions, no timing."""
    lines = [f"/* Areas: {SOURCE}. */", "library(cells) {", *(f"  {cell.liberty()}" for cell in CELLS), "}"]
    return "\n".join(lines) + "\n"
