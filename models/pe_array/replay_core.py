"""The control of the tensor PE array, cycle by cycle and without data; compiled.

Every register that decides when something happens stands here under the RTL's name, and is updated in the RTL's
order: combinational values of a cycle from the registers at its start, then all registers at once.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..compiled import compiled
from .replay_records import Program, Record, Sizes

LOAD, EXECUTE, STORE, BARRIER = 0, 1, 2, 3
NOP, CFG, LD, CFG_TILE, CFG_WALK, PRELOAD, COMPUTE, CFG_ST, ST, FENCE, HALT, CFG_ALU, ALU = range(13)
TOKEN, UNIT, BANK, EMPTY = 0, 1, 2, 3
"""Causes of a cycle without issue: a token lacks, the unit is busy, a bank is taken, the queue is empty."""
RUNNING, DONE, HUNG = 0, 1, 2


@compiled
def replay_core(sizes: Sizes, program: Program, is_static: bool, max_cycles: int, record: Record) -> tuple[int, int]:
    """Replays a program.

    Args:
        sizes: The PE array.
        program: Its instructions.
        is_static: Whether issue cycles gate issue too.
        max_cycles: When to give up.
        record: Filled in.

    Returns:
        How it ended, and the cycle.
    """
    num = program.kind.shape[0]
    # Fetch.
    pc, fetched, is_ended = 0, -1, False
    # Queues.
    queue = np.zeros((3, sizes.queue_depth), dtype=np.int64)
    head, count = np.zeros(3, dtype=np.int64), np.zeros(3, dtype=np.int64)
    tokens = np.zeros(4, dtype=np.int64)
    push = np.zeros(4, dtype=np.int64)
    is_issued = np.zeros(3, dtype=np.bool_)
    ready = np.zeros(3, dtype=np.bool_)
    has_conflict = np.zeros(3, dtype=np.bool_)
    # Load.
    cfg_ld = -1
    req_insn, req_left = -1, 0
    transfers = np.zeros(sizes.loads_in_flight, dtype=np.int64)
    transfer_stride = np.zeros(sizes.loads_in_flight, dtype=np.int64)
    transfer_head, transfer_count = 0, 0
    row, beat = 0, 0
    # Main memory.
    req_ready_at = np.zeros(sizes.requests_in_flight, dtype=np.int64)
    req_beats = np.zeros(sizes.requests_in_flight, dtype=np.int64)
    req_head, req_count = 0, 0
    mem_beat, bus_gap, is_write_turn, data_valid = 0, 0, False, False
    # Execute.
    tile, walk, cfg_alu = -1, -1, -1
    reserved, complete = False, False
    pre_insn, pre_row, pre_addr, pre_narrow = -1, 0, 0, False
    cp_insn, cp_swap, cp_x, cp_y, cp_left_x, cp_left_y, cp_row_addr, cp_dest = -1, False, 0, 0, 0, 0, 0, 0
    cp_tile_rows, cp_width, cp_row_step, cp_x_step, cp_y_step, cp_bits = 0, 0, 0, 0, 0, 8
    cp_is_alu, cp_fetch, cp_operand, cp_operand_narrow, cp_operand_step = False, False, 0, False, 0
    cp_is_sequence, cp_accumulate, alu_1, alu_2, alu_3 = False, False, False, False, False
    latency = sizes.rows + sizes.cols
    tag_insn = np.full(latency, -1, dtype=np.int64)  # by cycle modulo the latency; -1 for none
    tag_last = np.zeros(latency, dtype=np.bool_)
    tag_accumulate = np.zeros(latency, dtype=np.bool_)
    tag_dest = np.zeros(latency, dtype=np.int64)
    num_tags = 0
    end_insn = -1
    # Store.
    cfg_st = -1
    rd_insn, rd_addr, rd_left, gap, under_way = -1, 0, 0, 0, 0
    post = np.zeros(sizes.out_depth + 1, dtype=np.int64)  # cycles at which vectors reach the output queue
    post_head, post_count, out_count = 0, 0, 0
    targets = np.zeros(2, dtype=np.int64)
    target_x, target_y = np.zeros(2, dtype=np.int64), np.zeros(2, dtype=np.int64)
    target_head, target_count = 0, 0
    st_x, st_y, st_beat, st_row_addr, st_addr = 0, 0, 0, 0, 0
    post_latency = sizes.num_passes + 4

    for cycle in range(max_cycles):
        push[:] = 0
        has_conflict[:] = False
        # ---- Main memory.
        is_read_ready = req_count > 0 and cycle >= req_ready_at[req_head]
        wants_write = out_count > 0 and not program.is_other[targets[target_head]]
        emit = bus_gap == 0 and is_read_ready and not (wants_write and is_write_turn)
        write_ready = bus_gap == 0 and not (is_read_ready and not is_write_turn)
        mem_last = emit and mem_beat == req_beats[req_head] - 1
        req_ready = req_count != sizes.requests_in_flight
        # ---- Load.
        accept = req_insn >= 0 and req_ready
        req_last = accept and req_left == 1
        load_done, load_mask = False, 0
        if data_valid:
            insn = transfers[transfer_head]
            is_row_end = beat == program.row_beats[insn] - 1
            load_done = is_row_end and row == program.rows[insn] - 1
            if not program.is_other[insn]:
                at = program.address[insn] + row * transfer_stride[transfer_head] + beat * sizes.bus_bytes
                load_mask = 1 << _bank(sizes, at)
        # ---- Scratchpad: inputs first, then weights, then stores.
        cp_wants, cp_mask = False, 0
        if cp_fetch:
            cp_wants = True
            width = (sizes.cols + 1) // 2 if cp_operand_narrow else sizes.cols
            cp_mask = (1 << _bank(sizes, cp_operand)) | (1 << _bank(sizes, cp_operand + width - 1))
        elif cp_insn >= 0:
            num_bytes = program.rows[cp_insn]
            if cp_bits == 4:
                num_bytes = (num_bytes + 1) >> 1
            elif cp_bits == 32 and cp_is_alu:
                num_bytes = num_bytes << 2
            low = max(-cp_x, 0)
            high = min(cp_width - cp_x, num_bytes)
            if 0 <= cp_y < cp_tile_rows and low < high:
                cp_wants = True
                cp_mask = (1 << _bank(sizes, cp_row_addr + cp_x + low)) | (
                    1 << _bank(sizes, cp_row_addr + cp_x + high - 1)
                )
        taken = load_mask if sizes.is_single_port else 0
        cp_granted = cp_wants and cp_mask & taken == 0
        cp_fetched = cp_fetch and cp_granted
        cp_step = cp_insn >= 0 and not cp_fetch and (not cp_wants or cp_granted)
        cp_first = cp_step and cp_swap
        is_held = cp_insn >= 0 and cp_swap and not cp_first
        if not sizes.is_single_port or cp_granted:
            taken |= cp_mask
        pre_wants, pre_mask = False, 0
        if pre_insn >= 0 and not is_held and pre_row < program.rows[pre_insn]:
            pre_wants = True
            width = (sizes.cols + 1) // 2 if pre_narrow else sizes.cols
            pre_mask = (1 << _bank(sizes, pre_addr)) | (1 << _bank(sizes, pre_addr + width - 1))
        pre_granted = pre_wants and pre_mask & taken == 0
        pre_step = pre_insn >= 0 and not is_held and (not pre_wants or pre_granted)
        pre_last = pre_step and pre_row == sizes.rows - 1
        if cp_wants and not cp_granted or pre_wants and not pre_granted:
            has_conflict[EXECUTE] = True
        if sizes.is_single_port:
            if pre_granted:
                taken |= pre_mask
        else:
            taken = load_mask
        cp_last = cp_step and cp_left_x == 1 and cp_left_y == 1
        # ---- Sums.
        slot = cycle % latency
        sum_insn = tag_insn[slot]
        sum_bank = -1
        if sum_insn >= 0 and tag_accumulate[slot]:
            sum_bank = _acc_bank(sizes, tag_dest[slot])
        # ---- Store.
        rd_wants = rd_insn >= 0 and gap == 0 and under_way != sizes.out_depth
        rd_granted = rd_wants and _acc_bank(sizes, rd_addr) != sum_bank
        rd_last = rd_granted and rd_left == 1
        is_sent, is_popped, st_done = False, False, False
        if out_count > 0:
            insn = targets[target_head]
            is_first = st_x == 0 and st_y == 0
            vector_addr = program.address[insn] if is_first else st_addr
            if program.format[insn] == 2:
                num_bytes = program.columns[insn] * 4
            elif program.format[insn] == 1:
                num_bytes = (program.columns[insn] + 1) >> 1
            else:
                num_bytes = program.columns[insn]
            if program.is_other[insn]:
                is_sent = (1 << _bank(sizes, vector_addr)) & taken == 0
                is_popped = is_sent
                if not is_sent:
                    has_conflict[STORE] = True
            else:
                is_sent = write_ready
                is_popped = is_sent and (st_beat + 1) * sizes.bus_bytes >= num_bytes + vector_addr % sizes.bus_bytes
            st_done = is_popped and st_x == program.x_count[insn] - 1 and st_y == program.y_count[insn] - 1
        if rd_wants and not rd_granted:
            has_conflict[STORE] = True
        is_store_idle = rd_insn < 0 and target_count == 0
        # ---- Issue.
        ready[:] = True
        if count[LOAD] and program.kind[queue[LOAD, head[LOAD]]] == LD:
            ready[LOAD] = (req_insn < 0 or req_last) and transfer_count != sizes.loads_in_flight
        if count[EXECUTE]:
            insn = queue[EXECUTE, head[EXECUTE]]
            if program.kind[insn] == PRELOAD:
                ready[EXECUTE] = (pre_insn < 0 or pre_last) and not reserved
            elif program.kind[insn] == COMPUTE:
                ready[EXECUTE] = (cp_insn < 0 or cp_last) and (not program.swap[insn] or complete or pre_last)
            elif program.kind[insn] == ALU:
                ready[EXECUTE] = cp_insn < 0 and num_tags == 0 and not alu_1
        if count[STORE]:
            insn = queue[STORE, head[STORE]]
            if program.kind[insn] == HALT:
                ready[STORE] = is_store_idle
            elif program.kind[insn] == ST:
                ready[STORE] = (rd_insn < 0 or rd_last) and target_count != 2
        for q in range(3):
            is_issued[q] = False
            record.occupancy[q] += count[q]
            if count[q] == 0:
                record.stalls[q, EMPTY] += 1
                continue
            insn = queue[q, head[q]]
            prev = (q == EXECUTE and tokens[0] > 0) or (q == STORE and tokens[2] > 0)
            next = (q == LOAD and tokens[1] > 0) or (q == EXECUTE and tokens[3] > 0)
            has_tokens = (not program.pop_prev[insn] or prev) and (not program.pop_next[insn] or next)
            is_issued[q] = ready[q] and has_tokens and (not is_static or cycle >= program.issue_cycle[insn])
            if not is_issued[q]:
                cause = TOKEN if not has_tokens else BANK if has_conflict[q] else UNIT
                record.stalls[q, cause] += 1
        # ---- Dispatch.
        is_idle = (
            count[0] == 0 and count[1] == 0 and count[2] == 0 and req_insn < 0 and transfer_count == 0 and pre_insn < 0
            and cp_insn < 0 and num_tags == 0 and not alu_1 and not alu_2 and not alu_3 and end_insn < 0 and is_store_idle
        )  # fmt: skip
        is_taken = False
        if fetched >= 0:
            target = program.queue[fetched]
            is_taken = is_idle if target == BARRIER else count[target] != sizes.queue_depth
            if is_taken and target == BARRIER:
                record.issue[fetched] = cycle
                record.end[fetched] = cycle

        # ---- Work done.
        record.busy[0] += data_valid
        record.busy[1] += pre_step
        record.busy[2] += cp_step
        record.busy[3] += is_sent
        record.beats[0] += data_valid
        if is_sent and not program.is_other[targets[target_head]]:
            record.beats[1] += 1

        # ======== Registers.
        # Load and main memory.
        if data_valid:
            insn = transfers[transfer_head]
            if beat == program.row_beats[insn] - 1:
                beat = 0
                row += 1
            else:
                beat += 1
            if load_done:
                record.end[insn] = cycle
                push[0] += program.push_next[insn]
                row = 0
                transfer_head = (transfer_head + 1) % sizes.loads_in_flight
                transfer_count -= 1
        if accept:
            place = (req_head + req_count) % sizes.requests_in_flight
            req_ready_at[place] = cycle + sizes.latency
            req_beats[place] = program.row_beats[req_insn]
            req_left -= 1
            if req_last:
                req_insn = -1
        if mem_last:
            req_head = (req_head + 1) % sizes.requests_in_flight
        req_count += int(accept) - int(mem_last)
        data_valid = emit
        if emit:
            mem_beat = 0 if mem_last else mem_beat + 1
            is_write_turn = True
        elif wants_write and write_ready:
            is_write_turn = False
        if emit or (wants_write and write_ready):
            bus_gap = sizes.cycles_per_beat - 1
        elif bus_gap > 0:
            bus_gap -= 1
        # Array.
        if end_insn >= 0:
            record.end[end_insn] = cycle
            push[2] += program.push_next[end_insn]
            end_insn = -1
        if sum_insn >= 0:
            if tag_last[slot]:
                end_insn = sum_insn
            if program.kind[sum_insn] == COMPUTE:
                num_tags -= 1
        tag_insn[slot] = -1
        alu_3, alu_2, alu_1 = alu_2, alu_1, cp_step and cp_is_alu
        if cp_fetched:
            cp_fetch = False
            cp_operand += cp_operand_step
        if cp_step:
            # Vectors come three cycles behind their step, sums when they have gone through the array.
            place = (cycle + 3) % latency if cp_is_alu else slot
            tag_accumulate[place] = cp_accumulate
            tag_insn[place] = cp_insn
            tag_last[place] = cp_last
            tag_dest[place] = cp_dest
            num_tags += int(not cp_is_alu)
            cp_swap = False
            cp_fetch = cp_is_sequence and not cp_last
            if program.hold[cp_insn]:
                cp_accumulate = True
            else:
                cp_dest += 1
            if cp_last:
                push[1] += program.push_prev[cp_insn]
                cp_insn = -1
            elif cp_left_x == 1:
                cp_left_x = program.x_count[cp_insn]
                cp_left_y -= 1
                cp_x = program.x[cp_insn]
                cp_y += cp_y_step
                cp_row_addr += cp_row_step
            else:
                cp_left_x -= 1
                cp_x += cp_x_step
        if pre_step:
            pre_row += 1
            pre_addr += program.row_bytes[pre_insn]
            if pre_last:
                complete = True
                record.end[pre_insn] = cycle
                push[1] += program.push_prev[pre_insn]
                push[2] += program.push_next[pre_insn]
                pre_insn = -1
        # Store.
        if is_sent:
            insn = targets[target_head]
            st_beat = 0 if is_popped else st_beat + 1
            if is_popped:
                is_first = st_x == 0 and st_y == 0
                row_addr = program.address[insn] if is_first else st_row_addr
                vector_addr = program.address[insn] if is_first else st_addr
                is_row_end = st_x == program.x_count[insn] - 1
                if is_row_end:
                    st_row_addr = row_addr + target_y[target_head]
                    st_addr = st_row_addr
                    st_x = 0
                    st_y = 0 if st_done else st_y + 1
                else:
                    st_row_addr = row_addr
                    st_addr = vector_addr + target_x[target_head]
                    st_x += 1
                if st_done:
                    record.end[insn] = cycle
                    push[3] += program.push_prev[insn]
                    target_head = (target_head + 1) % 2
                    target_count -= 1
        arrives = post_count > 0 and post[post_head] == cycle
        if arrives:
            post_head = (post_head + 1) % post.shape[0]
            post_count -= 1
        out_count += int(arrives) - int(is_popped)
        under_way += int(rd_granted) - int(is_popped)
        if rd_granted:
            post[(post_head + post_count) % post.shape[0]] = cycle + post_latency
            post_count += 1
            gap = sizes.num_passes - 1
            rd_addr += 1
            rd_left -= 1
            if rd_last:
                rd_insn = -1
        elif gap > 0:
            gap -= 1
        # Issue.
        is_done = False
        for q in range(3):
            if not is_issued[q]:
                continue
            insn = queue[q, head[q]]
            kind = program.kind[insn]
            record.issue[insn] = cycle
            head[q] = (head[q] + 1) % sizes.queue_depth
            count[q] -= 1
            if program.pop_prev[insn]:
                push[0 if q == EXECUTE else 2] -= 1
            if program.pop_next[insn]:
                push[1 if q == LOAD else 3] -= 1
            if kind == LD:
                req_insn, req_left = insn, program.rows[insn]
                place = (transfer_head + transfer_count) % sizes.loads_in_flight
                transfers[place] = insn
                transfer_stride[place] = program.local_row_bytes[cfg_ld] if cfg_ld >= 0 else 0
                transfer_count += 1
            elif kind == PRELOAD:
                pre_insn, pre_row, pre_addr = insn, 0, program.address[insn]
                pre_narrow = walk >= 0 and program.bits[walk, 1] == 4
                reserved = True
            elif kind in (COMPUTE, ALU):
                cp_insn, cp_swap, cp_dest = insn, program.swap[insn] > 0, program.vector[insn]
                cp_is_alu = kind == ALU
                cp_fetch = cp_is_alu and program.is_other[insn] > 0
                cp_operand = program.address[cfg_alu] if cfg_alu >= 0 else 0
                cp_operand_step = program.step_bytes[cfg_alu] if cfg_alu >= 0 else 0
                cp_operand_narrow = walk >= 0 and program.bits[walk, 1] == 4
                cp_is_sequence = cp_is_alu and program.is_other[insn] == 2
                cp_accumulate = program.accumulate[insn] > 0
                cp_x, cp_y = program.x[insn], program.y[insn]
                cp_left_x, cp_left_y = program.x_count[insn], program.y_count[insn]
                cp_tile_rows = program.rows[tile] if tile >= 0 else 0
                cp_width = program.width_bytes[tile] if tile >= 0 else 0
                row_bytes = program.row_bytes[tile] if tile >= 0 else 0
                cp_x_step = program.x_step[walk] if walk >= 0 else 0
                cp_y_step = program.y_step[walk] if walk >= 0 else 0
                cp_bits = program.bits[walk, 0] if walk >= 0 else 8
                cp_row_addr = (program.address[tile] if tile >= 0 else 0) + cp_y * row_bytes
                cp_row_step = cp_y_step * row_bytes
                if cp_swap:
                    reserved, complete = False, False
            elif kind == ST:
                rd_insn, rd_addr = insn, program.vector[insn]
                rd_left = program.x_count[insn] * program.y_count[insn]
                place = (target_head + target_count) % 2
                targets[place] = insn
                target_x[place] = program.x_step[cfg_st] if cfg_st >= 0 else 0
                target_y[place] = program.y_step[cfg_st] if cfg_st >= 0 else 0
                target_count += 1
            else:
                record.end[insn] = cycle
                if q != LOAD:
                    push[1 if q == EXECUTE else 3] += program.push_prev[insn]
                if q != STORE:
                    push[0 if q == LOAD else 2] += program.push_next[insn]
                if kind == CFG:
                    cfg_ld = insn
                elif kind == CFG_TILE:
                    tile = insn
                elif kind == CFG_WALK:
                    walk = insn
                elif kind == CFG_ALU:
                    cfg_alu = insn
                elif kind == CFG_ST:
                    cfg_st = insn
                elif kind == HALT:
                    is_done = True
        for k in range(4):
            tokens[k] += push[k]
        # Fetch and dispatch.
        if is_taken and program.queue[fetched] != BARRIER:
            target = program.queue[fetched]
            queue[target, (head[target] + count[target]) % sizes.queue_depth] = fetched
            count[target] += 1
        if fetched < 0 or is_taken:
            fetched = -1
            if not is_ended and pc < num:
                fetched = pc
                is_ended = program.kind[pc] == HALT
                pc += 1
        if is_done:
            return DONE, cycle + 1
    for q in range(3):
        record.last[q] = count[q]
    for k in range(4):
        record.last[3 + k] = tokens[k]
    record.last[7] = pc
    return HUNG, max_cycles


@compiled
def _bank(sizes: Sizes, address: Any) -> int:
    return (address >> (sizes.word_shift + sizes.bank_word_shift)) % sizes.num_banks


@compiled
def _acc_bank(sizes: Sizes, vector: Any) -> int:
    return (vector // sizes.acc_bank_vectors) % sizes.acc_banks
