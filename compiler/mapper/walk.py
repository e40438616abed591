"""The compiled core of the search: the best outer tiling around each of many inner ones, with a proof.

It knows no dims and no windows. A chain of holders is a list of *terms*, each the product of one factor per
group of dims: refills of a tile over the whole nest, or elements of a tile. Per group of dims there is a table of options,
one row of factors each. Choosing one row per group is a mapping; a partial choice is bounded by the least
factors of the groups still open. What cannot fit or cannot beat the best is not entered.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ...models import compiled

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]


class ChainForm(NamedTuple):
    """What the terms of a chain mean; arrays over its points, outermost first.

    Attributes:
        parent: Level from which the point's tile is filled.
        child: Level that it fills.
        is_output: Whether it is an output's.
        is_raised: Whether it stands for a holder below the fan-outs.
        moved: [points + 1] where the point's refill terms begin; several are alternatives, of which the least
            counts. A raised point has three: refills of all instances, refills that cross at the parent, and refills
            of each reduction group.
        held: Term of its tile's bytes; -1 for raised points.
        base: Bytes per unit of the refill terms.
        whole: Bytes of its whole tensor, once.
        is_rounded: Whether its tile takes whole bytes only.
        element_bytes, sum_bytes: Of an output, finished and unfinished. Of outputs `held`, `base` and `whole` are in elements.
        holds_sums: Per level whether it holds sums in any case.
    """

    parent: Ints
    child: Ints
    is_output: Bools
    is_raised: Bools
    moved: Ints
    held: Ints
    base: Floats
    whole: Floats
    is_rounded: Bools
    element_bytes: float
    sum_bytes: float
    holds_sums: Bools


class Goal(NamedTuple):
    """Prices and objective; arrays over levels.

    Attributes:
        read_pj, write_pj: Energy [pJ/B].
        read_rate, write_rate: Bandwidth [B/cycle].
        shares_port: Whether reads and writes take turns.
        capacity: Bytes for tiles.
        powers: Exponents of energy, latency and main-memory bytes.
        first_reads: Convention: the first accumulation reads.
        is_one: Convention: a returning sum goes to one instance of its group.
        drain_reads: Convention: the final drain is read.
    """

    read_pj: Floats
    write_pj: Floats
    read_rate: Floats
    write_rate: Floats
    shares_port: Bools
    capacity: Floats
    powers: Floats
    first_reads: bool
    is_one: bool
    drain_reads: bool


class Inner(NamedTuple):
    """Inner tilings.

    Attributes:
        energy: [n] energy of all that they decide [pJ].
        cycles: [n] cycles of the compute units.
        read, write: [n, levels] bytes that they move.
        instances: [n, levels] instances in use.
        scale: [n, 5] for the raised point: bytes (of outputs elements) per refill of all instances, of what crosses, of
            each reduction group; what starts from nothing where every instance takes returning sums; last, the bytes of
            one output element at the innermost level outside the fan-outs that keeps it, or at the raised holder.
    """

    energy: Floats
    cycles: Floats
    read: Floats
    write: Floats
    instances: Floats
    scale: Floats


@compiled
def best_outer(
    form: ChainForm,
    goal: Goal,
    inner: Inner,
    bounds: Floats,
    start: Ints,
    stop: Ints,
    pool: Floats,
    best: Floats,
    most_nodes: int,
    scores: Floats,
    rows: Ints,
) -> tuple[int, int]:
    """Completes inner tilings by the outer tiling with the least score.

    Args:
        form: The chain.
        goal: What is minimised.
        inner: The inner tilings.
        bounds: [n] no outer tiling takes them below this score, ascending.
        start: [n, groups] the first row of `pool` that is an option around them.
        stop: [n, groups] the row after the last; it holds the least of their factors.
        pool: [options and least, terms] factors.
        best: The best scores so far, ascending; only what scores below the last is of interest. Updated.
        most_nodes: Stop when so many partial choices have been looked at.
        scores: [n] the best score of each inner tiling; left alone where it is not below the last of `best`.
        rows: [n, groups] the options chosen.

    Returns:
        Inner tilings that were finished, and partial choices that were looked at.
    """
    num, num_groups = start.shape
    num_terms = pool.shape[1]
    least = np.ones((num_groups + 1, num_terms))
    product = np.ones((num_groups + 1, num_terms))
    terms = np.ones(num_terms)
    at = np.zeros(num_groups, dtype=np.int64)
    used = np.zeros(goal.capacity.shape[0])
    read = np.zeros(goal.capacity.shape[0])
    write = np.zeros(goal.capacity.shape[0])
    nodes = 0
    for k in range(num):
        if bounds[k] >= best[-1]:
            return num, nodes
        if nodes >= most_nodes:
            return k, nodes
        for j in range(num_groups - 1, -1, -1):
            for m in range(num_terms):
                least[j, m] = least[j + 1, m] * pool[stop[k, j], m]
        # Most have no outer tiling below the limit, and their least factors already tell.
        if (
            not _fits(form, goal, inner, k, least[0], used)
            or _score(form, goal, inner, k, least[0], read, write) >= best[-1]
        ):
            continue
        limit = best[-1]
        is_found = False
        depth = 0
        at[0] = start[k, 0] - 1
        while depth >= 0:
            at[depth] += 1
            if at[depth] >= stop[k, depth]:
                depth -= 1
                continue
            nodes += 1
            row = at[depth]
            for m in range(num_terms):
                product[depth + 1, m] = product[depth, m] * pool[row, m]
                terms[m] = product[depth + 1, m] * least[depth + 1, m]
            if not _fits(form, goal, inner, k, terms, used):
                continue
            score = _score(form, goal, inner, k, terms, read, write)
            if score >= limit:
                continue
            if depth + 1 < num_groups:
                depth += 1
                at[depth] = start[k, depth] - 1
                continue
            limit, is_found = score, True
            rows[k] = at
        if is_found:
            scores[k] = limit
            # The best scores stay sorted: the new one sinks to its place.
            place = best.shape[0] - 1
            while place > 0 and best[place - 1] > limit:
                best[place] = best[place - 1]
                place -= 1
            best[place] = limit
    return num, nodes


@compiled
def _fits(form: ChainForm, goal: Goal, inner: Inner, k: int, terms: Floats, used: Floats) -> bool:
    used[:] = 0.0
    # The width of an output's tile is known at the next holder inside it.
    level, held, is_rounded = -1, 0.0, False
    for i in range(form.child.shape[0]):
        if form.is_output[i]:
            if level >= 0:
                amount = held * _width(form, level, _crossing(form, inner, k, terms, i), form.whole[i])
                used[level] += np.ceil(amount) if is_rounded else amount
            level = -1
            if form.held[i] >= 0:
                level, held, is_rounded = form.child[i], terms[form.held[i]], form.is_rounded[i]
        elif form.held[i] >= 0:
            amount = terms[form.held[i]]
            used[form.child[i]] += np.ceil(amount) if form.is_rounded[i] else amount
    if level >= 0:
        amount = held * _last_width(form, inner, k, level)
        used[level] += np.ceil(amount) if is_rounded else amount
    fits = True
    for at in range(used.shape[0]):
        fits = fits and used[at] <= goal.capacity[at]
    return fits


@compiled
def _crossing(form: ChainForm, inner: Inner, k: int, terms: Floats, i: int) -> float:
    """What a point moves across at its parent."""
    first, last = form.moved[i], form.moved[i + 1]
    if form.is_raised[i]:
        return terms[first + 1] * inner.scale[k, 1]
    least = terms[first]
    for m in range(first + 1, last):
        least = min(least, terms[m])
    return least * form.base[i]


@compiled
def _width(form: ChainForm, level: int, arrivals: float, whole: float) -> float:
    """Bytes of one output element at a level into which so many arrive."""
    return form.sum_bytes if form.holds_sums[level] or arrivals > whole else form.element_bytes


@compiled
def _last_width(form: ChainForm, inner: Inner, k: int, level: int) -> float:
    """The same at the output's innermost point."""
    return form.sum_bytes if form.holds_sums[level] else inner.scale[k, 4]


@compiled
def _score(form: ChainForm, goal: Goal, inner: Inner, k: int, terms: Floats, read: Floats, write: Floats) -> float:
    """The objective of inner tiling `k` with the outer transfers that `terms` stand for."""
    read[:] = 0.0
    write[:] = 0.0
    # What the output's innermost holder so far reads and writes, in elements: its width is known at the next one.
    holder, taken, given = -1, 0.0, 0.0
    for i in range(form.child.shape[0]):
        parent, child, whole = form.parent[i], form.child[i], form.whole[i]
        first = form.moved[i]
        crossing = _crossing(form, inner, k, terms, i)
        filled = terms[first] * inner.scale[k, 0] if form.is_raised[i] else crossing
        if not form.is_output[i]:
            read[parent] += crossing
            write[child] += filled
            continue
        groups = terms[first + 2] * inner.scale[k, 2] if form.is_raised[i] else filled
        if goal.first_reads:
            is_partial = crossing > whole
            back = crossing if is_partial else 0.0
            sent = 0.0
            if is_partial:
                sent = groups if goal.is_one else filled
            drained = filled
        else:
            back = crossing - whole
            sent = groups - whole
            if form.is_raised[i] and not goal.is_one:
                sent = filled - inner.scale[k, 3]
            # The inner tiling's own accumulations were charged as if nothing started at a raised holder.
            drained = sent if form.is_raised[i] else filled
        width = _width(form, parent, crossing, whole)
        read[parent] += back * width
        write[parent] += crossing * width
        if parent == 0:
            write[parent] -= whole * (width - form.element_bytes)
        if holder >= 0:
            read[holder] += given * width
            write[holder] += taken * width
        holder, taken, given = child, sent, drained if goal.drain_reads else drained - whole
    if holder >= 0:
        width = _last_width(form, inner, k, holder)
        read[holder] += given * width
        write[holder] += taken * width
    energy = inner.energy[k]
    for level in range(read.shape[0]):
        energy += read[level] * goal.read_pj[level] + write[level] * goal.write_pj[level]
    total = 1.0
    if goal.powers[0] > 0:
        total *= energy if goal.powers[0] == 1.0 else energy ** goal.powers[0]
    if goal.powers[1] > 0:
        cycles = inner.cycles[k]
        for level in range(read.shape[0]):
            into = (read[level] + inner.read[k, level]) / goal.read_rate[level]
            out = (write[level] + inner.write[k, level]) / goal.write_rate[level]
            both = into + out if goal.shares_port[level] else max(into, out)
            cycles = max(cycles, both / inner.instances[k, level])
        total *= cycles if goal.powers[1] == 1.0 else cycles ** goal.powers[1]
    if goal.powers[2] > 0:
        moved = read[0] + write[0] + inner.read[k, 0] + inner.write[k, 0]
        total *= moved if goal.powers[2] == 1.0 else moved ** goal.powers[2]
    return total
