"""Resampling a language model at all cuts in one sweep, beside the loops one would write first.

The input is the chain-of-thought experiment of the chapter: 400 questions x 9 cuts x 100 continuations of a GRU. The
peers draw the same number of continuations from the same network:

``one draw at a time``   for each question, cut and draw: read the prefix, then token by token.
``no state kept``        for each question and cut: 100 draws as one batch, read again from the start for each token.
``state kept``           the same, with the prefix read once and the recurrent state carried along.

``python benchmarks/bench_critical_windows_lm.py`` compares, ``--large`` adds the digits at full size.
"""

from __future__ import annotations

import argparse
import resource
from functools import partial

import numpy as np
import pytest
import torch
from timing import growth_slope, peak_memory, seconds

from icml25.data.digits import load_digits_mixture
from icml25.theory.critical_windows import (
    NoisyAdder,
    TinyLM,
    next_token_probabilities,
    resample_cuts,
    train_lm,
)

QUESTIONS, CUTS, DRAWS = 400, range(9), 100


def trained(steps=600):
    adder = NoisyAdder()
    model = TinyLM(10, 8, context_size=10)
    train_lm(model, adder.sample, steps=steps, lr=5e-3, batch_size=256)
    asked = adder.questions(QUESTIONS, 1)
    chain = model.sample(asked[:, :0], 1, generator=2, context=asked)[:, 0]
    return model, asked, chain


@torch.no_grad()
def with_state(model, prefix, context, rows, rng):
    """Read a prefix once, then sample ``rows`` continuations token by token as one batch."""
    inputs = torch.cat([prefix.new_full((1, 1), model.vocab_size), prefix[None]], 1)
    logits, state = model(inputs, context=context[None, : inputs.shape[1]])
    logits, state = logits[:, -1].expand(rows, -1), state.expand(rows, -1)
    strings = prefix.repeat(rows, 1)
    while strings.shape[1] < model.length:
        token = torch.multinomial(next_token_probabilities(logits), 1, generator=rng)
        strings = torch.cat([strings, token], 1)
        if strings.shape[1] < model.length:
            stepped, state = model(token, state, context[strings.shape[1]].expand(rows, 1))
            logits = stepped[:, -1]
    return strings


@torch.no_grad()
def without_state(model, prefix, context, rows, rng):
    """The same, reading the whole string again for each token."""
    strings = prefix.repeat(rows, 1)
    start = prefix.new_full((rows, 1), model.vocab_size)
    while strings.shape[1] < model.length:
        inputs = torch.cat([start, strings], 1)
        logits, _ = model(inputs, context=context[: inputs.shape[1]].expand(rows, -1))
        token = torch.multinomial(next_token_probabilities(logits[:, -1]), 1, generator=rng)
        strings = torch.cat([strings, token], 1)
    return strings


def one_by_one(model, prefix, context, rows, rng):
    return torch.cat([with_state(model, prefix, context, 1, rng) for _ in range(rows)])


def loop(go_on, model, asked, chain, draws, rng):
    """Every question and every cut in turn."""
    return torch.stack(
        [
            torch.stack([go_on(model, x[:k], a, draws, rng) if k < len(x) else x.repeat(draws, 1) for k in CUTS])
            for x, a in zip(chain, asked, strict=True)
        ]
    )


PEERS = {"one draw at a time": (one_by_one, 5), "no state kept": (without_state, 100), "state kept": (with_state, 100)}


@pytest.fixture(scope="module")
def task():
    return trained(100)


def bench_sweep(benchmark, task):
    model, asked, chain = task
    benchmark(resample_cuts, model, chain[:40], CUTS, DRAWS, generator=0, context=asked[:40])


def bench_peer_loop(benchmark, task):
    model, asked, chain = task
    benchmark(loop, with_state, model, asked[:40], chain[:40], DRAWS, torch.Generator().manual_seed(0))


def curves(drawn, chain):
    return (drawn[..., -1] == chain[:, None, None, -1]).double().mean(-1).numpy()


def compare():
    """Same law, then time: all on the same network and questions, repeats interleaved."""
    model, asked, chain = trained()
    sweep = partial(resample_cuts, model, chain, CUTS, DRAWS, generator=3, context=asked)
    rng = torch.Generator().manual_seed(4)
    ours, times = [], {name: [] for name in PEERS}
    for _ in range(5):
        ours.append(seconds(sweep))
        for name, (go_on, few) in PEERS.items():
            # A loop costs the same for every question: it is timed on a few and scaled.
            run = partial(loop, go_on, model, asked[:few], chain[:few], DRAWS, rng)
            times[name].append(seconds(run) * len(chain) / few)
    taken = float(np.median(ours))
    print(f"{len(chain)} questions x {len(CUTS)} cuts x {DRAWS} draws: {taken:.3f} s")
    for name, (go_on, few) in PEERS.items():
        peer = float(np.median(times[name]))
        print(f"  loop, {name:19s}{peer:8.2f} s   ratio {peer / taken:6.1f}   (timed on {few} questions, scaled)")
        same_law(
            curves(sweep(), chain)[:few], curves(loop(go_on, model, asked[:few], chain[:few], DRAWS, rng), chain[:few])
        )
    bound(model, asked, chain, taken)


def same_law(ours, peer):
    """Shares of the same answer from both, in standard errors of their difference."""
    pooled = 0.5 * (ours + peer)
    inner = (pooled > 0.05) & (pooled < 0.95)
    z = (ours - peer)[inner] / np.sqrt(2 * (pooled * (1 - pooled))[inner] / DRAWS)
    print(f"    {inner.sum()} shares differ by {z.mean():+.2f} +- {z.std():.2f} standard errors (0 +- 1 if one law)")


def bound(model, asked, chain, taken):
    """What the sweep's time is made of: rows that the network evaluates against the tokens it returns."""
    rows = 0
    run = model.run

    def counting(inputs, state=None, context=None):
        nonlocal rows
        rows += len(inputs) if state is not None else 0
        return run(inputs, state, context)

    model.run = counting
    resample_cuts(model, chain, CUTS, DRAWS, generator=3, context=asked)
    model.run = run
    tokens = sum(model.length - k for k in CUTS) * len(chain) * DRAWS
    state = torch.zeros(1000, model.head.in_features)
    one = torch.zeros(1000, 1, dtype=torch.int64)
    with torch.no_grad():
        step = np.median([seconds(lambda: run(one, state, one)) for _ in range(20)])
    print(
        f"  {tokens} tokens returned, {rows} rows through the network ({rows / tokens:.2f} each): alone, in batches of"
    )
    print(f"  1000, they take {rows / 1000 * step:.3f} s of the {taken:.3f} s")


def growth():
    model, asked, chain = trained(200)
    sizes = [10, 30, 100, 400]

    def call(b, n):
        return partial(resample_cuts, model, chain[:b], CUTS, n, generator=0, context=asked[:b])

    by_questions = [np.median([seconds(call(b, DRAWS)) for _ in range(5)]) for b in sizes]
    draws = [10, 40, 160, 640]
    by_draws = [np.median([seconds(call(100, n)) for _ in range(5)]) for n in draws]
    print(
        f"time grows as questions^{growth_slope(by_questions, sizes):.2f} and draws^{growth_slope(by_draws, draws):.2f}"
    )
    length = [8, 16, 32, 64, 256]
    times = []
    for t in length:
        long = TinyLM(10, t)
        x = torch.zeros(20, t, dtype=torch.int64)
        times.append(np.median([seconds(partial(resample_cuts, long, x, [t // 2], 20, generator=0)) for _ in range(5)]))
    print(f"one cut in the middle: time grows as length^{growth_slope(times, length):.2f}")


def large():
    digits = load_digits_mixture()
    levels = np.geomspace(0.05, 3.2, 60)
    run = partial(digits.forward_reverse, levels, 60, 0)
    memory = peak_memory(run)
    print(f"digits, 600 starts x 60 levels x 1797 points: {seconds(run):.2f} s, peak {memory / 2**20:.0f} MiB")
    print(f"peak resident memory of this process: {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**10:.0f} MiB")


def main() -> None:
    """Compare on one thread, so that the ratios do not depend on the number of cores."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--large", action="store_true", help="also run the digits at full size")
    torch.set_num_threads(1)
    args = parser.parse_args()
    compare()
    growth()
    if args.large:
        large()


if __name__ == "__main__":
    main()
