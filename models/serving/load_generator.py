"""A load test of an engine, step by step: so many users start at once, and each asks again as soon as it is answered; or
requests come when they come.

Requests of one length keep together: prompts that entered the batch in one step end in one step, and the next prompts of
their users wait for each other again. A steady state of arrivals one by one knows nothing of this, nor of the burst that a
load generator starts with; both decide the mean time to first token that it reports. What steps cost is an affine function
of what is in them, taken from the prices of the steady state, so that runs of equal steps are taken at once.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from ..gpu.times import Floats
from ..parts import Part, sum_of
from .engine import Engine, SteadyState, Traffic
from .parallel import Layouts
from .steps import StepTimer, make_steps

REQUESTS_PER_USER = 10
"""Requests that each user sends. Source: aiconfigurator, src/aiconfigurator/eval/benchmarks/genai_perf_runner.py: genai-perf
with a request count of ten times the concurrency, prompts and answers of fixed lengths, a warm-up of its own before."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StepCosts:
    """What a step of one attention group costs: affine in what is in it.

    Attributes:
        first_s: A step with one sequence that decodes [s].
        sequence_s: Each further one, the host's work on it included [s].
        token_s: Each token of a prompt, where sequences decode beside it [s].
        lone_s: A step of prompts alone, its tokens aside [s].
        lone_token_s: Each token of a prompt where no sequence decodes beside it [s].
        prompt_s: The host's work on a prompt that ends in the step [s].
    """

    first_s: float
    sequence_s: float
    token_s: float
    lone_s: float
    lone_token_s: float
    prompt_s: float

    def step_s(self, batch: int, prompt_tokens: int, num_prompts: int) -> float:
        """Time of a step [s].

        Args:
            batch: Sequences that decode.
            prompt_tokens: Tokens of prompts.
            num_prompts: Prompts that end.
        """
        if batch == 0:
            return self.lone_s + prompt_tokens * self.lone_token_s + num_prompts * self.prompt_s
        decode_s = self.first_s + (batch - 1) * self.sequence_s
        return decode_s + prompt_tokens * self.token_s + num_prompts * self.prompt_s


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadTest:
    """What a load generator reports: means over all requests.

    Attributes:
        waiting_s: From asking to the first step that works on the prompt [s].
        own_s: From there to the first token [s].
        tpot_s: Time per output token after the first [s].
        makespan_s: Until the last answer [s].
    """

    waiting_s: float
    own_s: float
    tpot_s: float
    makespan_s: float

    @property
    def ttft_s(self) -> float:
        """Time to first token [s]."""
        return self.waiting_s + self.own_s

    @property
    def ttft(self) -> Part:
        """Time to first token as a tree [s]."""
        parts = (("waiting", self.waiting_s), ("own steps", self.own_s))
        return sum_of("TTFT, load test", "s", [Part(name=name, amount=amount, unit="s") for name, amount in parts])


def step_costs(
    timer: StepTimer, layouts: Layouts, engine: Engine, traffic: Traffic, state: SteadyState, idx: int
) -> StepCosts:
    """Costs of the steps of one layout: from its steady state, and the prices of a step with one sequence, with one prompt, and
    with as many tokens of prompts as a step has room for.

    Args:
        timer: Prices steps.
        layouts: The layouts of the steady state.
        engine: How they batch.
        traffic: What users ask for.
        state: The steady state.
        idx: The layout.
    """
    host_s, new, room = engine.scheduler_s_per_sequence, traffic.new_tokens, float(engine.max_step_tokens)
    first, whole = min(new, room), max(1.0, room / new)
    steps = make_steps(
        layouts.take(np.array([idx] * 3)),
        prompt_tokens=np.array([0.0, first, room]),
        past_tokens=np.array([0.0, traffic.cached_tokens, traffic.cached_tokens]),
        num_prompts=np.array([1.0, 1.0, whole]),
        batch=np.array([1.0, 0.0, 0.0]),
        context_tokens=traffic.isl + traffic.osl / 2,
        queries=engine.speculation.queries,
    )
    one_s, prompt_s, full_s = (float(time_s) for time_s in timer.times(steps).time_s)
    first_s = one_s * (1 + engine.speculation.draft_share) + host_s
    others = max(0.0, float(state.decoding[idx]) - 1)
    if whole > 1:
        lone_token_s = min(max(0.0, full_s - prompt_s) / (room - first), prompt_s / first)
    else:
        # A prompt fills its steps, so that the means of its chunks are what a full one costs.
        lone_token_s = (float(state.lone_prompt_s[idx]) / math.ceil(new / room) - host_s) / first
        prompt_s = lone_token_s * first
    # The host's work is part of what a prompt adds, and is stated apart here.
    shared_s = max(0.0, float(state.prompt_s[idx]) - host_s) / new
    return StepCosts(
        first_s=first_s,
        sequence_s=max(0.0, float(state.decode_step_s[idx]) - first_s) / others if others else host_s,
        token_s=shared_s if engine.policy == "chunked" else lone_token_s,
        lone_s=prompt_s - lone_token_s * first,
        lone_token_s=lone_token_s,
        prompt_s=host_s,
    )


def run_load_test(
    costs: StepCosts, engine: Engine, traffic: Traffic, users: int, requests_per_user: int = REQUESTS_PER_USER
) -> LoadTest:
    """Run a load test.

    Args:
        costs: What its steps cost.
        engine: How it batches.
        traffic: What users ask for.
        users: Users of one attention group and pipeline slot, at least 1.
        requests_per_user: Requests of each.
    """
    run = _Run(costs=costs, engine=engine, traffic=traffic, total=users * requests_per_user)
    run.ask(0.0, users)
    while run.num_answered < run.total:
        run.work()
    tokens = max(1, traffic.osl - 1)
    return LoadTest(
        waiting_s=run.waited_s / run.total,
        own_s=run.own_s / run.total,
        tpot_s=run.decoded_s / (run.total * tokens),
        makespan_s=max(run.now_s, run.front_end_free_s),
    )


def run_arrivals(
    costs: StepCosts, engine: Engine, traffic: Traffic, arrivals_s: Sequence[float], warm_up: int = 0
) -> LoadTest:
    """Run requests that arrive at given times, whether or not others are answered.

    Args:
        costs: What steps cost.
        engine: How it batches.
        traffic: What users ask for.
        arrivals_s: When they arrive, rising [s].
        warm_up: Requests that are answered before any is counted; fewer than there are.
    """
    total = len(arrivals_s)
    run = _Run(costs=costs, engine=engine, traffic=traffic, total=total, num_asked=total)
    run.waiting.extend(arrivals_s)
    sums, answered = list[Floats](), list[int]()
    for until in (warm_up, total):
        while run.num_answered < until:
            run.work()
        sums.append(np.array([run.waited_s, run.own_s, run.decoded_s]))
        answered.append(run.num_answered)
    waited_s, own_s, decoded_s = (sums[1] - sums[0]) / (answered[1] - answered[0])
    return LoadTest(
        waiting_s=float(waited_s),
        own_s=float(own_s),
        tpot_s=float(decoded_s) / max(1, traffic.osl - 1),
        makespan_s=max(run.now_s, run.front_end_free_s),
    )


@dataclass(slots=True, kw_only=True)
class _Run:
    """A load test under way; requests are served in the order in which they came."""

    costs: StepCosts
    engine: Engine
    traffic: Traffic
    total: int
    now_s: float = 0.0
    front_end_free_s: float = 0.0
    """When the front end has sent all tokens that it was given."""
    waiting: deque[float] = field(default_factory=deque[float])
    """When those ask whose prompts are not begun, some of them later than now."""
    begun: tuple[float, int] | None = None
    """When the prompt was begun that is worked on in more than one step, and its tokens that are left."""
    decoding: deque[tuple[int, float, int]] = field(default_factory=deque[tuple[int, float, int]])
    """In which decoding step those end that decode, when they had their first token, and how many they are."""
    batch: int = 0
    decode_steps: int = 0
    num_asked: int = 0
    num_answered: int = 0
    waited_s: float = 0.0
    own_s: float = 0.0
    decoded_s: float = 0.0

    def ask(self, now_s: float, users: int) -> None:
        """Requests come in, as long as there are any left."""
        users = min(users, self.total - self.num_asked)
        self.num_asked += users
        self.waiting.extend([now_s] * users)

    def work(self) -> None:
        """One step, or as many equal ones as nothing changes in."""
        if self.batch == 0 and self.begun is None:
            self.now_s = max(self.now_s, self.waiting[0])
        prompt_tokens, begun_s = self._take_prompts()
        decodes = self.batch > 0 and (self.engine.policy == "chunked" or not prompt_tokens)
        step_s = self.costs.step_s(self.batch if decodes else 0, prompt_tokens, len(begun_s))
        steps = 1 if prompt_tokens else self._steps_until_change(step_s)
        self.now_s += steps * step_s
        decoded = self.batch * self.engine.speculation.tokens_per_step if decodes else 0.0
        sent_s = self._send(decoded + len(begun_s), steps, step_s)
        self.own_s += sum(sent_s - one for one in begun_s)
        if decodes:
            self.decode_steps += steps
            self._answer(sent_s)
        if begun_s:
            self.batch += len(begun_s)
            self.decoding.append((self.decode_steps + self.steps_per_request, sent_s, len(begun_s)))

    def _steps_until_change(self, step_s: float) -> int:
        """Steps in which nobody is answered and nobody asks for whom there is room."""
        steps = self.decoding[0][0] - self.decode_steps
        if self.waiting and self._free_slots > 0:
            steps = min(steps, max(1, math.ceil((self.waiting[0] - self.now_s) / step_s)))
        return steps

    def _send(self, tokens: float, steps: int, step_s: float) -> float:
        """The front end sends the tokens of some equal steps, just ended: when those of the last one come, in the mean."""
        if self.engine.front_end_tokens_per_s is None:
            return self.now_s
        sending_s = tokens / self.engine.front_end_tokens_per_s
        first_end_s = self.now_s - (steps - 1) * step_s
        # Busy since before the first step, since its end, or only since the end of the last one.
        begun_s = max(self.front_end_free_s, first_end_s) + (steps - 1) * sending_s
        self.front_end_free_s = max(begun_s, self.now_s) + sending_s
        return self.front_end_free_s - sending_s / 2

    @property
    def steps_per_request(self) -> int:
        """Steps in which a request decodes."""
        return max(1, math.ceil((self.traffic.osl - 1) / self.engine.speculation.tokens_per_step))

    def _take_prompts(self) -> tuple[int, list[float]]:
        """Tokens of prompts of the next step, and when those were begun whose last tokens are among them."""
        room = self.engine.max_step_tokens
        if self.engine.policy == "chunked":
            room -= math.ceil(self.batch * self.engine.speculation.queries)
        room = max(1, room)  # a batch that fills its steps lets prompts in a token at a time, as every request ends
        taken, ended = 0, list[float]()
        while taken < room and (self.begun is not None or self._may_begin(len(ended))):
            begun_s, left = self.begun or self._begin()
            part = min(left, room - taken)
            taken += part
            if part < left:
                self.begun = (begun_s, left - part)
            else:
                self.begun = None
                ended.append(begun_s)
        return taken, ended

    @property
    def _free_slots(self) -> int:
        """Sequences for which there is room in the batch."""
        return (self.engine.max_sequences or self.total) - self.batch

    def _may_begin(self, others: int) -> bool:
        """Whether somebody has asked for whom there is room beside others.

        Who asks again at the end of a step is too late for the next one, which an engine prepares while that step runs.
        """
        if not self.waiting or others >= self._free_slots:
            return False
        return self.waiting[0] < self.now_s or (self.batch == 0 and self.waiting[0] <= self.now_s)

    def _begin(self) -> tuple[float, int]:
        """The next prompt: when it is begun, and its tokens."""
        self.waited_s += self.now_s - self.waiting.popleft()
        return self.now_s, math.ceil(self.traffic.new_tokens)

    def _answer(self, sent_s: float) -> None:
        """Those whose last token was made are answered when it comes, and ask again."""
        while self.decoding and self.decoding[0][0] <= self.decode_steps:
            _, first_s, count = self.decoding.popleft()
            self.batch -= count
            self.num_answered += count
            self.decoded_s += count * (sent_s - first_s)
            self.ask(sent_s, count)
