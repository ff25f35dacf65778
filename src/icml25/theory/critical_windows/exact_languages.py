r"""Two languages whose every probability is known, to train small models on and to hold them against.

:class:`StructuredLanguage` fills five blanks in five fixed sentences; :class:`NoisyAdder` adds modulo m, aloud, and
slips now and then. :func:`direct_answer_curve` is the baseline of a model that answers such a sum at once.

Reference: Li, Karan & Chen, "Blink of an eye", ICML 2025 (arXiv:2502.00921), Section 4 and Figures 4 to 6.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from itertools import product

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from icml25 import _arguments as check
from icml25.theory.critical_windows.language import CausalLM, suffix_curve

__all__ = ["NoisyAdder", "StructuredLanguage", "direct_answer_curve"]

Array = NDArray[np.float64]

_SENTENCES = (
    ("The {} jumped across the ship.", "Pirate", "Ninja"),
    ("She adopted a {} from the shelter.", "Dog", "Cat"),
    ("The {} sparkled under the sun.", "River", "Bridge"),
    ("A {} guarded the castle gates.", "Dragon", "Knight"),
    ("He ordered {} for dinner.", "Pizza", "Sushi"),
)


@dataclass(frozen=True)
class StructuredLanguage:
    """Five numbered sentences with one binary blank each, under a known joint law of the blanks.

    The sentences are those that the paper has its language models fill in. The law is ours: a Markov chain over the
    blanks, so that an early choice bears on the later ones.

    Parameters
    ----------
    level : {"word", "char"}
        What a token is. Character strings are filled up with an end symbol to one length.
    first : float
        Probability of the first option in the first blank.
    stay : float
        Probability that a blank takes the same option (first or second) as the blank before.

    Examples
    --------
    >>> language = StructuredLanguage()
    >>> language.length, len(language.vocabulary)
    (35, 36)
    >>> language.decode(language.strings[0])[:40]
    '1. The Pirate jumped across the ship. 2.'
    >>> language.curve(0)[[0, 3, 35]].round(4)
    array([0.1441, 0.2401, 1.    ])
    """

    level: str = "word"
    first: float = 0.6
    stay: float = 0.7
    sentences: tuple[tuple[str, str, str], ...] = field(default=_SENTENCES, repr=False)

    def __post_init__(self) -> None:
        if self.level not in ("word", "char"):
            raise ValueError(f"level must be 'word' or 'char', got {self.level!r}")
        for name in ("first", "stay"):
            check.open_unit(name, getattr(self, name))

    @cached_property
    def fillings(self) -> NDArray[np.int64]:
        """All (32, 5) choices, 0 = first option."""
        return np.array(list(product((0, 1), repeat=len(self.sentences))))

    @cached_property
    def law(self) -> Array:
        """Probability of each filling, (32,)."""
        law: Array = np.prod(self._choice_probabilities, axis=1)
        return law

    @cached_property
    def _choice_probabilities(self) -> Array:
        start = np.where(self.fillings[:, :1] == 0, self.first, 1.0 - self.first)
        same = self.fillings[:, 1:] == self.fillings[:, :-1]
        return np.concatenate([start, np.where(same, self.stay, 1.0 - self.stay)], 1)

    @cached_property
    def _texts(self) -> list[list[str]]:
        """Each filling's tokens, without the filling up."""
        texts = []
        for filling in self.fillings:
            lines = [
                f"{i}. {sentence.format(options[choice])}"
                for i, ((sentence, *options), choice) in enumerate(zip(self.sentences, filling, strict=True), 1)
            ]
            texts.append(" ".join(lines).split() if self.level == "word" else list("\n".join(lines)))
        return texts

    @cached_property
    def vocabulary(self) -> tuple[str, ...]:
        """Tokens by index; at character level the first is the end symbol, an empty text."""
        tokens = sorted({token for text in self._texts for token in text})
        return tuple(tokens) if self.level == "word" else ("", *tokens)

    @cached_property
    def strings(self) -> NDArray[np.int64]:
        """The 32 strings as token indices, (32, T)."""
        index = {token: i for i, token in enumerate(self.vocabulary)}
        length = max(map(len, self._texts))
        return np.array([[index[token] for token in text] + [0] * (length - len(text)) for text in self._texts])

    @property
    def length(self) -> int:
        """Tokens in a string, T."""
        return int(self.strings.shape[1])

    @cached_property
    def choices(self) -> NDArray[np.int64]:
        """Position of the first token that tells the two options of each blank apart, (32, 5).

        By Definition 4 blank j of string i is decided between ``choices[i, j]`` tokens kept (T_before) and one more
        (T_after).
        """
        positions = np.empty_like(self.fillings)
        for blank in range(self.fillings.shape[1]):
            # The string that differs in this blank alone: rows of fillings count in binary.
            other = self.fillings.copy()
            other[:, blank] ^= 1
            twin = other @ (1 << np.arange(other.shape[1])[::-1])
            positions[:, blank] = (self.strings != self.strings[twin]).argmax(1)
        return positions

    def curve(self, index: int) -> Array:
        """Exact P(this string | its first k tokens) for k = 0..T, (T + 1,)."""
        log_prob = np.zeros(self.length)
        log_prob[self.choices[index]] = np.log(self._choice_probabilities[index])
        return suffix_curve(log_prob)

    def sample(self, n: int, seed: int | torch.Generator) -> Tensor:
        """Draw (n, T) strings; this is a ``draw`` for :func:`train_lm`."""
        law = torch.from_numpy(self.law)
        check.integer("n", n, 1)
        chosen = torch.multinomial(law, n, replacement=True, generator=check.torch_generator(seed))
        return torch.from_numpy(self.strings)[chosen]

    def decode(self, tokens: object) -> str:
        """Text of one string."""
        tokens = check.whole_numbers("tokens", tokens)
        if tokens.ndim != 1 or (tokens.size and not 0 <= tokens.min() <= tokens.max() < len(self.vocabulary)):
            raise ValueError(f"tokens must be one string of symbols in 0..{len(self.vocabulary) - 1}, got {tokens}")
        separator = " " if self.level == "word" else ""
        return separator.join(self.vocabulary[int(token)] for token in tokens).strip()


@dataclass(frozen=True)
class NoisyAdder:
    r"""A reasoner that adds a list of numbers modulo m, aloud, and slips now and then.

    The question is :math:`a_1, \ldots, a_n`, uniform. The reasoning is the chain of partial sums
    :math:`c_i = c_{i-1} + a_i + e_i \bmod m` from :math:`c_0 = 0`, where the slip :math:`e_i` is 0 with probability
    1 - q and uniform over 1..m-1 otherwise. The answer is :math:`c_n`; it is right if it is the true sum.

    Parameters
    ----------
    n_steps, modulus : int
        n and m.
    noise : float
        q, the probability of a slip.

    Examples
    --------
    >>> adder = NoisyAdder(n_steps=2, modulus=3, noise=0.25)
    >>> adder.kernel(1)
    array([0.75 , 0.125, 0.125])
    >>> adder.answer_probability([[1, 1]], [[1, 2]])
    array([[0.59375, 0.75   , 1.     ]])
    """

    n_steps: int = 8
    modulus: int = 10
    noise: float = 0.12

    def __post_init__(self) -> None:
        check.integer("n_steps", self.n_steps, 1)
        check.integer("modulus", self.modulus, 2)
        check.between("noise", self.noise, 0.0, 1.0)

    def kernel(self, steps: int) -> Array:
        """Law of the sum of ``steps`` slips modulo m, (m,): the cyclic convolution power of one slip's law."""
        check.integer("steps", steps, 0)
        m = self.modulus
        slip = np.full(m, self.noise / (m - 1))
        slip[0] = 1.0 - self.noise
        circulant = slip[(np.arange(m)[:, None] - np.arange(m)) % m]
        return np.asarray(np.linalg.matrix_power(circulant, steps)[:, 0])

    def questions(self, n: int, seed: int | torch.Generator) -> Tensor:
        """Uniform (n, n_steps) addends."""
        shape = (check.integer("n", n, 1), self.n_steps)
        return torch.randint(self.modulus, shape, generator=check.torch_generator(seed))

    def sample(self, n: int, seed: int | torch.Generator) -> tuple[Tensor, Tensor]:
        """Draw ``n`` chains and their questions, (n, n_steps) each; this is a ``draw`` for :func:`train_lm`."""
        generator = check.torch_generator(seed)
        addends = self.questions(n, generator)
        return self.resample(addends, torch.zeros_like(addends), 0, 1, generator)[:, 0], addends

    def resample(self, addends: Tensor, chain: Tensor, kept: int, n: int, seed: int | torch.Generator) -> Tensor:
        """Go on from the first ``kept`` partial sums by the true process: (B, n, n_steps) chains."""
        check.integer("kept", kept, 0, self.n_steps)
        check.integer("n", n, 1)
        self._check(addends, chain)
        generator, m = check.torch_generator(seed), self.modulus
        shape = (len(addends), n, self.n_steps - kept)
        slips = torch.randint(1, m, shape, generator=generator)
        slips = slips * (torch.rand(shape, generator=generator, dtype=torch.float64) < self.noise)
        last = chain[:, kept - 1] if kept else torch.zeros_like(chain[:, 0])
        new = (last[:, None, None] + (addends[:, None, kept:] + slips).cumsum(-1)) % m
        return torch.cat([chain[:, None, :kept].expand(-1, n, -1), new], -1)

    def answer_probability(self, addends: object, chain: object) -> Array:
        r"""Exact probability to reach the same answer again from the first k partial sums, k = 0..n.

        :math:`\kappa_{n-k}[(c_n - c_k - \sum_{i>k} a_i) \bmod m]` with :math:`\kappa_r` = :meth:`kernel` (r).

        Parameters
        ----------
        addends, chain : (B, n_steps) int arrays or tensors

        Returns
        -------
        (B, n_steps + 1) float array
        """
        a, c = self._check(addends, chain)
        before = np.concatenate([np.zeros((len(c), 1), dtype=np.int64), c], 1)
        ahead = np.concatenate([np.cumsum(a[:, ::-1], 1)[:, ::-1], np.zeros((len(a), 1), dtype=np.int64)], 1)
        gap = (c[:, -1:] - before - ahead) % self.modulus
        kernels = np.stack([self.kernel(self.n_steps - k) for k in range(self.n_steps + 1)])
        return np.asarray(kernels[np.arange(self.n_steps + 1), gap])

    def correct(self, addends: object, chain: object) -> NDArray[np.bool_]:
        """Whether each chain's answer is the true sum, (B,)."""
        a, c = self._check(addends, chain)
        return np.asarray(c[:, -1] == a.sum(1) % self.modulus)

    def slips(self, addends: object, chain: object) -> NDArray[np.bool_]:
        """Which steps are not the sum of the step before and the addend, (B, n_steps)."""
        a, c = self._check(addends, chain)
        before = np.concatenate([np.zeros((len(c), 1), dtype=np.int64), c[:, :-1]], 1)
        return np.asarray((c - before - a) % self.modulus != 0)

    def direct_batch(self, n: int, seed: int | torch.Generator) -> tuple[Tensor, Tensor]:
        """Training strings for answering at once: the chain up to a random cut, blanks for the rest, the answer.

        Returns
        -------
        tokens : (n, n_steps + 1) tensor
            Symbols 0..m-1, and m for a blank.
        context : (n, n_steps + 1) tensor
            The addends, and m beside the answer.
        """
        generator = check.torch_generator(seed)
        chain, addends = self.sample(n, generator)
        kept = torch.randint(self.n_steps + 1, (n, 1), generator=generator)
        hidden = torch.arange(self.n_steps) >= kept
        return self.direct_prompt(chain, addends, hidden)

    def direct_prompt(self, chain: Tensor, addends: Tensor, hidden: Tensor) -> tuple[Tensor, Tensor]:
        """Strings of :meth:`direct_batch` with the partial sums blanked where ``hidden``."""
        tokens = torch.cat([chain.masked_fill(hidden, self.modulus), chain[:, -1:]], 1)
        return tokens, nn.functional.pad(addends, (0, 1), value=self.modulus)

    def _check(self, addends: object, chain: object) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        a, c = (check.whole_numbers(name, value) for name, value in (("addends", addends), ("chain", chain)))
        if a.ndim != 2 or a.shape != c.shape or a.shape[1] != self.n_steps:
            raise ValueError(f"addends and chain must be (B, {self.n_steps}), got {a.shape} and {c.shape}")
        for name, value in (("addends", a), ("chain", c)):
            if value.size and not (value.min() >= 0 and value.max() < self.modulus):
                raise ValueError(f"{name} must lie in 0..{self.modulus - 1}, got {value.min()}..{value.max()}")
        return a, c


@torch.no_grad()
def direct_answer_curve(model: CausalLM, adder: NoisyAdder, addends: Tensor, chain: Tensor) -> Array:
    """Baseline without further reasoning: P(the chain's own answer, given at once after k partial sums), k = 0..n.

    The early-answering test of Lanham et al. (2023) for a model trained on :meth:`NoisyAdder.direct_batch`. Where it
    differs from resampling, the steps that are left do real work.

    Returns
    -------
    (B, n_steps + 1) float array
    """
    steps = torch.arange(adder.n_steps, device=chain.device)
    columns = []
    for kept in range(adder.n_steps + 1):
        tokens, context = adder.direct_prompt(chain, addends, (steps >= kept).expand(len(chain), -1))
        columns.append(model.sequence_log_prob(tokens, context)[:, -1].exp())
    return np.asarray(torch.stack(columns, 1).cpu(), dtype=np.float64)
