r"""Language models small enough to know exactly, for watching where a generation commits.

Two causal networks (:class:`TinyLM`, a GRU, and :class:`TinyTransformer`), the training that fits them to the laws of
:mod:`~icml25.theory.critical_windows.exact_languages`, and one sampling kernel (:func:`resample_cuts`) that answers,
for every string and every cut :math:`k` at once, "how would this have gone on from its first :math:`k` tokens?". In the
terms of the paper the truncation :math:`Y_t = x_{1:T-t}` is the forward process of autoregression, and sampling on from
it is the reverse process.

Reference: Li, Karan & Chen, "Blink of an eye", ICML 2025 (arXiv:2502.00921), Section 4 and Figures 4 to 6.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from icml25 import _arguments as check
from icml25.theory.critical_windows import arguments

__all__ = [
    "CausalLM",
    "TinyLM",
    "TinyTransformer",
    "choice_jump_report",
    "next_token_probabilities",
    "prefix_sharing_curve",
    "resample_cuts",
    "suffix_curve",
    "train_lm",
]

Batch = Tensor | tuple[Tensor, Tensor]
Array = NDArray[np.float64]


# Causal networks ------------------------------------------------------------------------------------------------------


class CausalLM(nn.Module, ABC):
    r"""A network for :math:`\prod_i P(x_i \mid x_{<i}, a_{\le i})` over strings of one fixed length.

    ``a`` is an optional *aligned context*: one known symbol per position (the addends of a sum, say) that the network
    reads in the step that predicts the token there. A start symbol, index ``vocab_size`` of the embedding, stands
    before each string.

    Parameters
    ----------
    vocab_size, length : int
        Number of tokens A and string length T.
    context_size : int
        Number of context symbols; 0 for none.
    """

    def __init__(self, vocab_size: int, length: int, *, width: int, context_size: int = 0) -> None:
        super().__init__()
        for name, value, low in (
            ("vocab_size", vocab_size, 2),
            ("length", length, 1),
            ("width", width, 1),
            ("context_size", context_size, 0),
        ):
            check.integer(name, value, low)
        self.vocab_size, self.length, self.context_size = vocab_size, length, context_size
        self.embedding = nn.Embedding(vocab_size + 1, width)
        self.context_embedding = nn.Embedding(context_size, width) if context_size else None
        self.head = nn.Linear(width, vocab_size)

    @abstractmethod
    def run(self, inputs: Tensor, state: Tensor | None = None, context: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Logits (B, L, A) after each of ``inputs`` (B, L), and the trace that :meth:`state_after` reads."""

    @abstractmethod
    def state_after(self, trace: Tensor, n_inputs: int | None = None) -> Tensor:
        """State (B, ...) once the first ``n_inputs`` inputs since the start symbol were read; by default all."""

    def forward(
        self, tokens: Tensor, state: Tensor | None = None, context: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """Scores of the token that follows each position.

        Parameters
        ----------
        tokens : (B, L) int64 tensor
            Input symbols in 0..A, with A the start symbol.
        state : (B, ...) tensor, optional
            What was read before, as an earlier call returned it; the start of a string if absent.
        context : (B, L) int64 tensor
            Aligned context; required exactly when the model has ``context_size > 0``.

        Returns
        -------
        logits : (B, L, A) tensor
            ``logits[:, i]`` scores the token after ``tokens[:, :i + 1]``.
        state : (B, ...) tensor
            What has been read now.
        """
        if tokens.ndim != 2 or tokens.dtype != torch.int64:
            raise ValueError(f"tokens must be a (B, L) int64 tensor, got {tuple(tokens.shape)} of {tokens.dtype}")
        if tokens.numel() and (int(tokens.min()) < 0 or int(tokens.max()) > self.vocab_size):
            raise ValueError(f"tokens must lie in 0..{self.vocab_size}, got {int(tokens.min())}..{int(tokens.max())}")
        self._check_context(context, tokens.shape)
        logits, trace = self.run(tokens, state, context)
        return logits, self.state_after(trace)

    def sequence_log_prob(self, tokens: Tensor, context: Tensor | None = None) -> Tensor:
        """Log-probability of each token given those before it: (B, T) strings to (B, T) nats, differentiable."""
        if tokens.shape[-1] > self.length:
            raise ValueError(f"strings are at most {self.length} tokens long, got {tokens.shape[-1]}")
        arguments.tokens("tokens", tokens, self.vocab_size)
        logits, _ = self(self.shifted(tokens), context=context)
        return torch.log_softmax(logits, -1).gather(-1, tokens[..., None])[..., 0]

    @torch.no_grad()
    def sample(
        self,
        prefix: Tensor,
        n: int,
        *,
        generator: int | torch.Generator,
        temperature: float = 1.0,
        top_p: float = 1.0,
        context: Tensor | None = None,
    ) -> Tensor:
        """Go on from a prefix to the full length, ``n`` times.

        Parameters
        ----------
        prefix : (k,) or (B, k) int64 tensor
            First tokens, 0 <= k <= T.
        n : int
            Completions per prefix.
        generator : int or torch.Generator
            Seed or source of randomness, on the model's device.
        temperature, top_p : float
            See :func:`next_token_probabilities`.
        context : (T,) or (B, T) int64 tensor, optional
            Aligned context of the whole string.

        Returns
        -------
        (n, T) or (B, n, T) int64 tensor
            Whole strings, prefix included.
        """
        single = prefix.ndim == 1
        prefix = prefix[None] if single else prefix
        if prefix.ndim != 2 or prefix.shape[1] > self.length:
            raise ValueError(f"prefix must be (k,) or (B, k) with k <= {self.length}, got {tuple(prefix.shape)}")
        if context is not None and context.ndim == 1:
            context = context.expand(len(prefix), -1)
        blank = prefix.new_zeros(len(prefix), self.length - prefix.shape[1])
        strings = resample_cuts(
            self,
            torch.cat([prefix, blank], 1),
            [prefix.shape[1]],
            n,
            generator=generator,
            temperature=temperature,
            top_p=top_p,
            context=context,
        )[:, 0]
        return strings[0] if single else strings

    def resample_cuts(
        self,
        tokens: Tensor,
        cuts: Sequence[int],
        n: int,
        *,
        generator: int | torch.Generator,
        temperature: float = 1.0,
        top_p: float = 1.0,
        context: Tensor | None = None,
    ) -> Tensor:
        """See :func:`resample_cuts`."""
        return resample_cuts(
            self, tokens, cuts, n, generator=generator, temperature=temperature, top_p=top_p, context=context
        )

    def shifted(self, tokens: Tensor) -> Tensor:
        """Inputs that predict ``tokens``: the start symbol, then all tokens but the last."""
        start = tokens.new_full((len(tokens), 1), self.vocab_size)
        return torch.cat([start, tokens[:, :-1]], 1)

    def embed(self, inputs: Tensor, context: Tensor | None) -> Tensor:
        """Sum of the token's and the context symbol's vectors, (B, L, width)."""
        x: Tensor = self.embedding(inputs)
        if self.context_embedding is not None:
            x = x + self.context_embedding(context)
        return x

    def _check_context(self, context: Tensor | None, shape: torch.Size) -> None:
        if (context is None) != (self.context_size == 0):
            raise ValueError(f"a model with context_size={self.context_size} got context={context}")
        if context is not None:
            if context.shape != shape:
                raise ValueError(f"context must have the shape {tuple(shape)} of tokens, got {tuple(context.shape)}")
            if context.numel() and (int(context.min()) < 0 or int(context.max()) >= self.context_size):
                raise ValueError(f"context must lie in 0..{self.context_size - 1}")


class TinyLM(CausalLM):
    r"""One-layer GRU language model.

    Parameters
    ----------
    vocab_size, length, context_size : int
        See :class:`CausalLM`.
    hidden : int
        Units of the GRU and width of the embeddings.
    seed : int or torch.Generator
        Source of the initial weights.

    Examples
    --------
    >>> model = TinyLM(vocab_size=3, length=4, hidden=8, seed=0)
    >>> tuple(model.sample(torch.tensor([2, 1]), n=5, generator=0).shape)
    (5, 4)
    """

    def __init__(
        self,
        vocab_size: int,
        length: int,
        *,
        hidden: int = 64,
        context_size: int = 0,
        seed: int | torch.Generator = 0,
    ) -> None:
        # The layers' own initial values, which are drawn from the global generator, are not used: leave it as it was.
        with torch.random.fork_rng(devices=[]):
            super().__init__(vocab_size, length, width=hidden, context_size=context_size)
            self.gru = nn.GRU(hidden, hidden, batch_first=True)
        bound, generator = hidden**-0.5, check.torch_generator(seed)
        with torch.no_grad():
            for name, parameter in self.named_parameters():
                if "embedding" in name:
                    parameter.normal_(generator=generator)
                else:
                    parameter.uniform_(-bound, bound, generator=generator)

    def run(self, inputs: Tensor, state: Tensor | None = None, context: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """See :meth:`CausalLM.run`; the trace is the (B, L, hidden) output of the GRU."""
        outputs, _ = self.gru(self.embed(inputs, context), None if state is None else state[None].contiguous())
        return self.head(outputs), outputs

    def state_after(self, trace: Tensor, n_inputs: int | None = None) -> Tensor:
        """See :meth:`CausalLM.state_after`: a one-layer GRU's state is its output."""
        return trace[:, -1 if n_inputs is None else n_inputs - 1]


class TinyTransformer(CausalLM):
    """Pre-norm causal transformer with learned positions and a key-value cache.

    Parameters
    ----------
    vocab_size, length, context_size : int
        See :class:`CausalLM`.
    width, layers, heads : int
        Model width (a multiple of ``heads``), number of blocks, attention heads.
    seed : int or torch.Generator
        Source of the initial weights.
    """

    def __init__(
        self,
        vocab_size: int,
        length: int,
        *,
        width: int = 64,
        layers: int = 2,
        heads: int = 4,
        context_size: int = 0,
        seed: int | torch.Generator = 0,
    ) -> None:
        check.integer("heads", heads, 1)
        check.integer("layers", layers, 1)
        if check.integer("width", width, 1) % heads:
            raise ValueError(f"width must be a multiple of heads, got width={width}, heads={heads}")
        with torch.random.fork_rng(devices=[]):  # as for the GRU
            super().__init__(vocab_size, length, width=width, context_size=context_size)
            self.positions = nn.Embedding(length, width)
            self.blocks = nn.ModuleList(_Block(width, heads) for _ in range(layers))
        self.heads = heads
        self.norm = nn.LayerNorm(width)
        generator = check.torch_generator(seed)
        with torch.no_grad():
            for name, parameter in self.named_parameters():
                if parameter.ndim == 1:
                    parameter.fill_(1.0 if "norm" in name and name.endswith("weight") else 0.0)
                else:
                    # The branches that end in the residual stream start smaller, so that depth adds no variance.
                    scale = (2 * layers) ** -0.5 if name.endswith("out.weight") else 1.0
                    std = 0.5 if "embedding" in name or "positions" in name else parameter.shape[1] ** -0.5
                    parameter.normal_(0.0, std * scale, generator=generator)

    def run(self, inputs: Tensor, state: Tensor | None = None, context: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """See :meth:`CausalLM.run`; the trace is the cache (B, layers, 2, heads, inputs so far, width / heads)."""
        past = 0 if state is None else state.shape[-2]
        if past + inputs.shape[1] > self.length:
            raise ValueError(f"at most {self.length} tokens fit, got {past} + {inputs.shape[1]}")
        where = torch.arange(past, past + inputs.shape[1], device=inputs.device)
        x = self.embed(inputs, context) + self.positions(where)
        caches = []
        for layer, block in enumerate(self.blocks):
            x, cache = block(x, None if state is None else state[:, layer])
            caches.append(cache)
        return self.head(self.norm(x)), torch.stack(caches, 1)

    def state_after(self, trace: Tensor, n_inputs: int | None = None) -> Tensor:
        """See :meth:`CausalLM.state_after`: the cache up to that position."""
        return trace[..., :n_inputs, :]


class _Block(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm_attention, self.norm_mlp = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.attention_out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp_in, self.mlp_out = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: Tensor, cache: Tensor | None) -> tuple[Tensor, Tensor]:
        batch, length, width = x.shape
        qkv = self.qkv(self.norm_attention(x)).view(batch, length, 3, self.heads, width // self.heads)
        query, new = qkv[:, :, 0].transpose(1, 2), qkv[:, :, 1:].permute(0, 2, 3, 1, 4)
        cache = new if cache is None else torch.cat([cache, new], -2)
        past = cache.shape[-2] - length
        # Row i of the new positions sees the past and the new positions up to i.
        mask = torch.ones(length, past + length, dtype=torch.bool, device=x.device).tril(past)
        y = nn.functional.scaled_dot_product_attention(query, cache[:, 0], cache[:, 1], attn_mask=mask)
        x = x + self.attention_out(y.transpose(1, 2).reshape(batch, length, width))
        return x + self.mlp_out(nn.functional.gelu(self.mlp_in(self.norm_mlp(x)))), cache


# Training and sampling ------------------------------------------------------------------------------------------------


def train_lm(
    model: CausalLM,
    draw: Callable[[int, torch.Generator], Batch],
    *,
    steps: int,
    batch_size: int = 128,
    lr: float = 1e-2,
    lr_final: float | None = None,
    seed: int | torch.Generator = 0,
    progress: bool = False,
) -> Array:
    r"""Fit a model to a law that can be sampled: Adam on :math:`-\log P(x \mid a)` of fresh samples.

    Parameters
    ----------
    model : CausalLM
        Trained in place.
    draw : callable
        ``draw(n, generator)`` gives (n, T) strings, or a pair of strings and (n, T) aligned context.
    steps, batch_size : int
        Gradient steps and fresh strings in each.
    lr, lr_final : float
        Step size, moved from the first to the second along half a cosine; constant without the second.
    seed : int or torch.Generator
        Source of the samples, on the CPU.
    progress : bool
        Show a progress bar.

    Returns
    -------
    (steps,) float array
        Mean negative log-probability per token of each batch, in nats.

    Raises
    ------
    RuntimeError
        If the loss stops being finite.
    """
    check.integer("steps", steps, 1)
    check.integer("batch_size", batch_size, 1)
    check.positive("lr", lr)
    check.at_least_zero("lr_final", lr if lr_final is None else lr_final)
    generator = check.torch_generator(seed)
    device = model.head.weight.device
    optimiser = torch.optim.Adam(model.parameters(), lr=lr)
    lr_final = lr if lr_final is None else lr_final
    losses = np.empty(steps)
    for step in _track(range(steps), progress):
        for group in optimiser.param_groups:
            group["lr"] = lr_final + (lr - lr_final) * 0.5 * (1.0 + math.cos(math.pi * step / steps))
        batch = draw(batch_size, generator)
        tokens, context = batch if isinstance(batch, tuple) else (batch, None)
        log_prob = model.sequence_log_prob(tokens.to(device), None if context is None else context.to(device))
        loss = -log_prob.mean()
        losses[step] = loss.item()
        if not math.isfinite(losses[step]):
            raise RuntimeError(f"the loss is not finite at step {step}: lower lr={lr}")
        optimiser.zero_grad(set_to_none=True)
        loss.backward()  # type: ignore[no-untyped-call]
        optimiser.step()
    return losses


def next_token_probabilities(logits: Tensor, temperature: float = 1.0, top_p: float = 1.0) -> Tensor:
    """Law of the next token: softmax at a temperature, cut to its nucleus.

    Parameters
    ----------
    logits : (..., A) tensor
    temperature : float >= 0
        Divides the logits; 0 puts all mass on the largest (greedy decoding).
    top_p : float in (0, 1]
        Keep the fewest most likely tokens whose mass reaches ``top_p``, and renormalise.

    Returns
    -------
    (..., A) float64 tensor

    Raises
    ------
    ValueError
        If the rule is out of range, or logits are NaN or +inf, or all -inf: then there is no law.

    Examples
    --------
    >>> next_token_probabilities(torch.tensor([0.5, 0.3, 0.2]).log(), top_p=0.7)
    tensor([0.6250, 0.3750, 0.0000], dtype=torch.float64)
    """
    if not 0.0 <= check.number("temperature", temperature) < math.inf:
        raise ValueError(f"temperature must be finite and at least 0, got {temperature}")
    if not 0.0 < check.number("top_p", top_p) <= 1.0:
        raise ValueError(f"top_p must lie in (0, 1], got {top_p}")
    peak = logits.max(-1, keepdim=True).values
    if not bool(torch.isfinite(peak).all()):
        raise ValueError("logits must not be NaN or +inf, and one of each row must be finite")
    if temperature == 0.0:
        return nn.functional.one_hot(logits.argmax(-1), logits.shape[-1]).double()
    # Logits against the largest: a small temperature then sends the others to -inf, not all of them to +inf.
    probabilities = torch.softmax((logits.double() - peak.double()) / temperature, -1)
    if top_p < 1.0:
        ordered, order = probabilities.sort(-1, descending=True)
        # A token stays while the mass ahead of it is short of top_p, so the one that reaches it is in.
        kept = ordered * (ordered.cumsum(-1) - ordered < top_p)
        probabilities = torch.zeros_like(kept).scatter(-1, order, kept / kept.sum(-1, keepdim=True))
    return probabilities


@torch.no_grad()
def resample_cuts(
    model: CausalLM,
    tokens: Tensor,
    cuts: Sequence[int],
    n: int,
    *,
    generator: int | torch.Generator,
    temperature: float = 1.0,
    top_p: float = 1.0,
    context: Tensor | None = None,
    chunk: int = 32,
) -> Tensor:
    r"""Cut every string at every cut and sample ``n`` ways to go on, all pairs in one sweep over the positions.

    The sweep follows each string itself and all of its continuations together. A (string, cut) pair enters at its cut,
    from the state that the string has there, and draws that have agreed so far share one state, whatever their cuts:
    the network is evaluated once per *distinct* prefix, and at most about once per token generated.

    Parameters
    ----------
    model : CausalLM
    tokens : (B, T) int64 tensor
        Whole strings.
    cuts : sequence of int
        Numbers of tokens to keep, strictly increasing, each in 0..T.
    n : int
        Continuations per pair.
    generator : int or torch.Generator
        Seed or source of randomness, on the model's device.
    temperature, top_p : float
        See :func:`next_token_probabilities`.
    context : (B, T) int64 tensor, optional
        Aligned context.
    chunk : int
        Strings worked on together: the states in memory are at most ``chunk * len(cuts) * n``.

    Returns
    -------
    (B, len(cuts), n, T) int64 tensor
        ``[b, j, :, :cuts[j]]`` is the kept part of string ``b``.

    Raises
    ------
    ValueError
        If the cuts are not increasing or out of range, a string is longer than the model's or holds a token that the
        model does not have, or the context does not fit.
    RuntimeError
        If the network returns non-finite logits.
    """
    cuts = [check.integer("an entry of cuts", cut, -(2**62)) for cut in cuts]
    arguments.tokens("tokens", tokens, model.vocab_size)
    if tokens.ndim != 2 or tokens.shape[1] > model.length:
        raise ValueError(f"tokens must be (B, T) with T <= {model.length}, got {tuple(tokens.shape)}")
    if len(tokens) == 0:
        raise ValueError("tokens must hold at least one string")
    model._check_context(context, tokens.shape)
    if not cuts or any(a >= b for a, b in pairwise(cuts)):
        raise ValueError(f"cuts must be non-empty and strictly increasing, got {cuts}")
    if cuts[0] < 0 or cuts[-1] > tokens.shape[1]:
        raise ValueError(f"cuts must lie in 0..{tokens.shape[1]}, got {cuts}")
    check.integer("n", n, 1)
    check.integer("chunk", chunk, 1)
    generator = check.torch_generator(generator, tokens.device)
    law = partial(next_token_probabilities, temperature=temperature, top_p=top_p)
    parts = []
    for start in range(0, len(tokens), chunk):
        rows = slice(start, start + chunk)
        some_context = None if context is None else context[rows]
        parts.append(_resample(model, tokens[rows], cuts, n, generator, law, some_context))
    return torch.cat(parts)


def _resample(
    model: CausalLM,
    tokens: Tensor,
    cuts: list[int],
    n: int,
    generator: torch.Generator,
    law: Callable[[Tensor], Tensor],
    context: Tensor | None,
) -> Tensor:
    batch, length = tokens.shape
    vocab, first = model.vocab_size, cuts[0]
    strings = tokens.repeat(len(cuts), 1, 1).repeat_interleave(n, 1).reshape(len(cuts) * batch * n, length)
    if first == length:
        return strings.view(len(cuts), batch, n, length).transpose(0, 1)
    read = None if context is None else context[:, : first + 1]
    logits, trace = model.run(model.shifted(tokens)[:, : first + 1], None, read)
    logits, state = logits[:, -1], model.state_after(trace)
    # A node is one distinct prefix of one string's continuations; `path` is the node of the string itself, which is
    # kept until the last cut so that the draws of a later cut start from it.
    string = path = torch.arange(batch, device=tokens.device)
    node_of_draw = path[:0]
    for i in range(first, length):
        if i in cuts:
            node_of_draw = torch.cat([node_of_draw, path.repeat_interleave(n)])
        if not torch.isfinite(logits).all():
            raise RuntimeError(f"non-finite logits at step {i}")
        drawn = _draw(law(logits), node_of_draw, generator)
        strings[: len(drawn), i] = drawn
        if i + 1 == length:
            break
        # Children that were drawn at least once are the next nodes; marking them is linear where a sort is not.
        key = node_of_draw * vocab + drawn
        born = torch.zeros(len(string) * vocab, dtype=torch.bool, device=tokens.device)
        born[key] = True
        path = path * vocab + tokens[:, i] if i < cuts[-1] else path[:0]
        born[path] = True
        number = born.cumsum(0) - 1
        node_of_draw, path = number[key], number[path]
        child = born.nonzero()[:, 0]
        parent, token = child // vocab, child % vocab
        string, state = string[parent], state[parent]
        now = None if context is None else context[string, i + 1][:, None]
        stepped, trace = model.run(token[:, None], state, now)
        logits, state = stepped[:, -1], model.state_after(trace)
    return strings.view(len(cuts), batch, n, length).transpose(0, 1)


def _draw(probabilities: Tensor, rows: Tensor, generator: torch.Generator) -> Tensor:
    """One token per entry of ``rows`` from the law in that row, by inverting the distribution function."""
    ladder = probabilities.cumsum(-1)
    u = torch.rand(len(rows), dtype=ladder.dtype, device=ladder.device, generator=generator) * ladder[rows, -1]
    return (ladder[rows] <= u[:, None]).sum(-1).clamp_(max=probabilities.shape[-1] - 1)


def _track(items: range, progress: bool) -> Any:
    if not progress:
        return items
    from tqdm import tqdm

    return tqdm(items)


# Reading curves off log-probabilities and samples ---------------------------------------------------------------------


def suffix_curve(log_prob: object) -> Array:
    r"""Probability of ending at the string itself, given each of its prefixes.

    :math:`g_k = P(x \mid x_{1:k}) = \exp \sum_{i > k} \log P(x_i \mid x_{<i})`: the forward-reverse curve of an
    autoregressive model without any sampling.

    Parameters
    ----------
    log_prob : (..., T) array or tensor
        Log-probability of each token given those before it, in nats.

    Returns
    -------
    (..., T + 1) float array
        Index k = tokens kept; the last entry is 1.

    Examples
    --------
    >>> suffix_curve(np.log([0.5, 1.0, 0.25]))
    array([0.125, 0.25 , 0.25 , 1.   ])
    """
    steps = _log_probabilities(log_prob)
    tail = np.cumsum(steps[..., ::-1], axis=-1)[..., ::-1]
    return np.concatenate([np.exp(tail), np.ones((*steps.shape[:-1], 1))], -1)


def choice_jump_report(log_prob: object, choices: object) -> dict[str, NDArray[Any]]:
    r"""Do the curves :math:`\log g_k` rise at the choice tokens and nowhere else?

    The rise over token i is its surprisal :math:`-\log P(x_i \mid x_{<i})`.

    Parameters
    ----------
    log_prob : (B, T) array or tensor
        Log-probability of each token given those before it.
    choices : (B, J) or (J,) int array
        Positions of the choice tokens.

    Returns
    -------
    dict
        ``exact`` (B,) bool: the J largest rises are exactly the choice tokens. ``elsewhere`` (B,): share of the
        total rise that falls on the other tokens; 0 where a curve does not rise at all, which is not ``exact``.

    Raises
    ------
    ValueError
        If the shapes do not fit, a token is impossible, or a choice is out of range or named twice.
    """
    rises = -_log_probabilities(log_prob)
    if not np.isfinite(rises).all():
        raise ValueError("log_prob must be finite: an impossible token has no share of the rise")
    where = check.whole_numbers("choices", choices)
    if rises.ndim != 2 or where.ndim not in (1, 2):
        raise ValueError(f"log_prob must be (B, T) and choices (B, J) or (J,), got {rises.shape} and {where.shape}")
    where = np.broadcast_to(where, (len(rises), where.shape[-1]))
    if where.size and not (where.min() >= 0 and where.max() < rises.shape[1]):
        raise ValueError(f"choices must lie in 0..{rises.shape[1] - 1}, got {where.min()}..{where.max()}")
    if (np.diff(np.sort(where, 1), axis=1) == 0).any():
        raise ValueError("choices must not name a position twice")
    largest = np.argsort(-rises, axis=1, kind="stable")[:, : where.shape[1]]
    on_choices = np.take_along_axis(rises, where, 1).sum(1)
    total = rises.sum(1)
    share = np.divide(on_choices, total, out=np.ones_like(total), where=total > 0.0)
    return {
        "exact": (np.sort(largest, 1) == np.sort(where, 1)).all(1) & (total > 0.0),
        "elsewhere": 1.0 - share,
    }


def prefix_sharing_curve(samples: object, string: object) -> tuple[Array, Array, NDArray[np.int64]]:
    r"""Estimate of :func:`suffix_curve` from whole generations alone, as for a model whose probabilities are hidden.

    :math:`\hat g_k` is the share of ``string`` among the generations that start with its first k tokens. Long prefixes
    of a rare string are shared by few generations: look at the standard errors.

    Parameters
    ----------
    samples : (N, T) int array or tensor
    string : (T,) int array or tensor

    Returns
    -------
    prob, stderr : (T + 1,) float arrays
    counts : (T + 1,) int array
        Generations that share the prefix.

    Raises
    ------
    ValueError
        If no sample equals ``string``: nothing could then be said about it but that it is rare.
    """
    drawn, target = np.asarray(samples), np.asarray(string)
    if drawn.ndim != 2 or target.shape != drawn.shape[1:]:
        raise ValueError(f"samples must be (N, T) and string (T,), got {drawn.shape} and {target.shape}")
    shared = np.cumprod(drawn == target, axis=1).sum(0)
    counts = np.concatenate([[len(drawn)], shared]).astype(np.int64)
    if counts[-1] == 0:
        raise ValueError(f"string is none of the {len(drawn)} samples: draw more, or take a likelier string")
    prob = counts[-1] / counts
    return prob, np.sqrt(prob * (1.0 - prob) / counts), counts


def _log_probabilities(log_prob: object) -> Array:
    values = log_prob.detach().cpu() if isinstance(log_prob, Tensor) else log_prob
    steps = np.asarray(values, dtype=np.float64)
    if steps.ndim < 1 or not (steps <= 1e-6).all():
        raise ValueError("log_prob must be an array of log-probabilities, none above 0 and none NaN")
    return np.asarray(np.minimum(steps, 0.0))
