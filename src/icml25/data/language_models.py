r"""Pretrained causal language models with the sampler interface of :mod:`icml25.theory.critical_windows`.

:func:`load_hf_lm` wraps any causal model of the Hugging Face hub, or one saved in a folder. The wrapper samples and
scores *answers*: everything after a prompt, which plays the part that the start symbol plays for a small model. The
paper ran this on 400 questions a set with Llama-3.1-8B-Instruct, Phi-3 and Qwen2.5-7B-Instruct;
:func:`chain_of_thought_curves` is that experiment for any model and any list of questions.

Needs the extra ``llm`` (``pip install "icml25[llm]"``); a model of 7 or 8 billion weights is a download of about 16 GB
and wants a GPU of 24 GB or more.
"""

from __future__ import annotations

import copy
import inspect
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from icml25 import _arguments as check
from icml25.theory.critical_windows.experiment import AutoregressiveSampler, fraction_cuts
from icml25.theory.critical_windows.language import next_token_probabilities

__all__ = ["HuggingFaceLM", "chain_of_thought_curves", "load_hf_lm", "read_questions"]


@dataclass(frozen=True, eq=False)
class HuggingFaceLM:
    """A causal language model, its tokenizer, and the prompt that its strings follow.

    Parameters
    ----------
    model, tokenizer : transformers model and tokenizer
    prompt : (P,) int64 tensor
        Tokens before every string, at least one.
    length : int
        Largest number of tokens in a string, prompt not counted.
    """

    model: Any
    tokenizer: Any
    prompt: Tensor
    length: int = 256

    def __post_init__(self) -> None:
        if self.prompt.ndim != 1 or len(self.prompt) == 0:
            raise ValueError(f"prompt must hold at least one token, got the shape {tuple(self.prompt.shape)}")
        room = getattr(self.model.config, "max_position_embeddings", None)
        if self.length < 1 or (room is not None and len(self.prompt) + self.length > room):
            raise ValueError(
                f"length must be at least 1 and fit with the prompt's {len(self.prompt)} tokens into the model's "
                f"{room} positions, got {self.length}"
            )

    @property
    def end(self) -> int:
        """Token that ends a string and fills it up."""
        return int(self.tokenizer.eos_token_id)

    @property
    def _cache_name(self) -> str:
        # transformers 5.2x renamed the argument and the output field, and warns at the old name.
        return "cache" if "cache" in inspect.signature(self.model.forward).parameters else "past_key_values"

    def after(self, text: str, *, chat: bool = False) -> HuggingFaceLM:
        """The same model behind another prompt; with ``chat`` the text is put as a user's turn."""
        if chat and self.tokenizer.chat_template is None:
            raise ValueError("this tokenizer has no chat template: use chat=False and write the prompt out")
        if chat:
            turn = [{"role": "user", "content": text}]
            text = self.tokenizer.apply_chat_template(turn, tokenize=False, add_generation_prompt=True)
        # A chat template writes its own start token; plain text gets it here.
        ids = self.encode(text)
        start = [] if chat else _start_token(self.tokenizer)
        return replace(self, prompt=torch.cat([ids.new_tensor(start), ids]))

    def encode(self, text: str) -> Tensor:
        """Tokens of a text, without special tokens added: (T,) int64, on the model's device."""
        ids = self.tokenizer(text, add_special_tokens=False)["input_ids"]
        return torch.tensor(ids, dtype=torch.int64, device=self.model.device)

    def decode(self, tokens: Tensor) -> str:
        """Text of one string, special tokens left out."""
        return str(self.tokenizer.decode(tokens.tolist(), skip_special_tokens=True))

    @torch.no_grad()
    def sequence_log_prob(self, tokens: Tensor) -> Tensor:
        """Log-probability of each token given the prompt and those before: (B, T) to (B, T) nats.

        Tokens after an end token are filling and get 0.
        """
        if tokens.ndim != 2 or tokens.shape[1] == 0:
            raise ValueError(f"tokens must be (B, T) with T >= 1, got {tuple(tokens.shape)}")
        whole = torch.cat([self.prompt.expand(len(tokens), -1), tokens], 1)
        logits = self.model(input_ids=whole, use_cache=False).logits[:, len(self.prompt) - 1 : -1]
        log_prob: Tensor = torch.log_softmax(logits.float(), -1).gather(-1, tokens[..., None])[..., 0]
        ended = (tokens == self.end).cumsum(1) - (tokens == self.end).long() > 0
        return log_prob.masked_fill(ended, 0.0)

    def sample(
        self,
        prefix: Tensor,
        n: int,
        *,
        generator: int | torch.Generator,
        temperature: float = 1.0,
        top_p: float = 1.0,
    ) -> Tensor:
        """Go on from a prefix ``n`` times, until the end token or the full length.

        Parameters
        ----------
        prefix : (k,) or (B, k) int64 tensor
        n, generator, temperature, top_p
            As for :meth:`icml25.theory.critical_windows.language.CausalLM.sample`.

        Returns
        -------
        (n, length) or (B, n, length) int64 tensor
            Whole strings, prefix included, filled up with the end token.
        """
        single = prefix.ndim == 1
        strings = prefix[None] if single else prefix
        drawn = self.resample_cuts(
            strings, [strings.shape[1]], n, generator=generator, temperature=temperature, top_p=top_p
        )[:, 0]
        return drawn[0] if single else drawn

    @torch.no_grad()
    def resample_cuts(
        self,
        tokens: Tensor,
        cuts: Sequence[int],
        n: int,
        *,
        generator: int | torch.Generator,
        temperature: float = 1.0,
        top_p: float = 1.0,
    ) -> Tensor:
        """Continuations of every string from every cut, (B, len(cuts), n, length).

        The network reads each string once; every cut starts from that key-value cache, shortened, and its ``n`` draws
        go on as one batch, from which draws that have ended are dropped.
        """
        if tokens.ndim != 2 or tokens.shape[1] > self.length:
            raise ValueError(f"tokens must be (B, T) with T <= {self.length}, got {tuple(tokens.shape)}")
        cuts = [check.integer("an entry of cuts", cut, -(2**62)) for cut in cuts]
        if not cuts or min(cuts) < 0 or max(cuts) > tokens.shape[1]:
            raise ValueError(f"cuts must be non-empty and lie in 0..{tokens.shape[1]}, got {list(cuts)}")
        check.integer("n", n, 1)
        rng = check.torch_generator(generator, tokens.device)
        law = partial(next_token_probabilities, temperature=temperature, top_p=top_p)
        strings = tokens.new_full((len(tokens), len(cuts), n, self.length), self.end)
        for row, string in enumerate(tokens):
            whole = torch.cat([self.prompt, string])[None]
            read = self.model(input_ids=whole, use_cache=True)
            for column, cut in enumerate(cuts):
                strings[row, column, :, :cut] = string[:cut]
                if bool((string[:cut] == self.end).any()):
                    continue
                cache = copy.deepcopy(read[self._cache_name])
                if cut < len(string):
                    cache.crop(cut - len(string))  # a negative number is the count to remove
                cache.batch_repeat_interleave(n)
                logits = read.logits[:, len(self.prompt) + cut - 1].expand(n, -1)
                self._go_on(strings[row, column], cut, logits, cache, law, rng)
        return strings

    def _go_on(
        self,
        strings: Tensor,
        start: int,
        logits: Tensor,
        cache: Any,
        law: Callable[[Tensor], Tensor],
        rng: torch.Generator,
    ) -> None:
        alive = torch.arange(len(strings), device=strings.device)
        for i in range(start, self.length):
            if not torch.isfinite(logits).all():
                raise RuntimeError(f"non-finite logits at step {i}")
            drawn = torch.multinomial(law(logits), 1, generator=rng)
            strings[alive, i] = drawn[:, 0]
            going = (drawn[:, 0] != self.end).nonzero()[:, 0]
            if len(going) == 0 or i + 1 == self.length:
                return
            if len(going) < len(alive):
                alive, drawn = alive[going], drawn[going]
                cache.batch_select_indices(going)
            logits = self.model(input_ids=drawn, use_cache=True, **{self._cache_name: cache}).logits[:, -1]

    @torch.no_grad()
    def extract(self, strings: Tensor, cue: str, max_new_tokens: int = 8) -> list[str]:
        """Final answers read greedily: what the model writes after each string followed by ``cue``.

        Equal strings are asked once, all in one batch padded on the left.

        Parameters
        ----------
        strings : (N, T) int64 tensor
        cue : str
            For example ``" The answer is"``.
        max_new_tokens : int
            Length of an answer.

        Returns
        -------
        list of N str
            Answers, stripped.
        """
        asked, back = torch.unique(strings, dim=0, return_inverse=True)
        tail = self.encode(cue)
        rows = [torch.cat([self.prompt, row[: _until(row, self.end)], tail]) for row in asked]
        width = max(map(len, rows))
        ids = torch.stack([torch.cat([row.new_full((width - len(row),), self.end), row]) for row in rows])
        mask = torch.stack([torch.arange(width, device=ids.device) >= width - len(row) for row in rows]).long()
        written = self.model.generate(
            input_ids=ids,
            attention_mask=mask,
            do_sample=False,
            max_new_tokens=max_new_tokens,
            pad_token_id=self.end,
        )[:, width:]
        answers = [self.decode(row).strip() for row in written]
        return [answers[i] for i in back.tolist()]


def load_hf_lm(
    name: str,
    *,
    prompt: str = "",
    length: int = 256,
    device: str | torch.device = "cpu",
    dtype: torch.dtype | None = None,
    revision: str = "main",
    local_files_only: bool = False,
) -> HuggingFaceLM:
    """Load a causal language model from a folder, the local cache, or the Hugging Face hub.

    Parameters
    ----------
    name : str
        Such as ``"meta-llama/Llama-3.1-8B-Instruct"``, ``"Qwen/Qwen2.5-7B-Instruct"``, or a path.
    prompt : str
        Text before every string; see :meth:`HuggingFaceLM.after`.
    length : int
        Largest number of tokens in a string.
    device, dtype
        Where the weights go, and their precision; by default that in which they were saved.
    revision : str
        Commit or tag on the hub: name one to have the same weights again.
    local_files_only : bool
        Do not try the network.

    Returns
    -------
    HuggingFaceLM

    Raises
    ------
    ImportError
        If the extra ``llm`` is not installed.
    OSError
        If the model is not there; the message says where was looked and what to do.
    """
    try:
        from transformers import AutoModelForCausalLM, AutoTokenizer
    except ImportError as error:
        raise ImportError('load_hf_lm needs the extra "llm": pip install "icml25[llm]"') from error
    where = {"revision": revision, "local_files_only": local_files_only}
    try:
        tokenizer = AutoTokenizer.from_pretrained(name, **where)
        model: Any = AutoModelForCausalLM.from_pretrained(name, dtype="auto" if dtype is None else dtype, **where)
    except (OSError, ValueError) as error:
        tried = "the local cache" if local_files_only else "the local cache and the hub"
        raise OSError(
            f"no language model {name!r}: it is not a folder with a saved model, and {tried} did not give it. "
            "Download it once where there is a network (some models ask you to accept a licence and to log in first), "
            f"or pass the folder of a saved model. The library said: {error}"
        ) from error
    model = model.to(device).eval()
    start = torch.tensor(_start_token(tokenizer), dtype=torch.int64, device=model.device)
    return HuggingFaceLM(model, tokenizer, start, length).after(prompt)


def read_questions(path: str | Path) -> list[dict[str, str]]:
    """Questions with their right answers from a JSON Lines file: ``{"question": ..., "answer": ...}`` in each line.

    Raises
    ------
    FileNotFoundError
        If there is no such file.
    ValueError
        If a line is not such an object; the message names the line.
    """
    questions = []
    for number, line in enumerate(Path(path).read_text(encoding="utf-8-sig").splitlines(), 1):
        if not line.strip():
            continue
        try:
            entry = json.loads(line)
        except json.JSONDecodeError as error:
            raise ValueError(f"{Path(path).name}, line {number}: not JSON: {error}") from error
        if not isinstance(entry, Mapping) or not all(isinstance(entry.get(k), str) for k in ("question", "answer")):
            raise ValueError(f"{Path(path).name}, line {number}: need texts under 'question' and 'answer'")
        questions.append({"question": entry["question"], "answer": entry["answer"]})
    if not questions:
        raise ValueError(f"{Path(path).name} holds no question")
    return questions


def chain_of_thought_curves(
    lm: HuggingFaceLM,
    questions: Sequence[Mapping[str, str]],
    *,
    generator: int | torch.Generator,
    n_samples: int = 100,
    fractions: Sequence[float] = (0.05, 0.1, 0.3, 0.5, 0.7, 0.9),
    cue: str = "\nThe final answer is",
    temperature: float = 0.6,
    top_p: float = 0.9,
    chat: bool = False,
    progress: bool = False,
) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """The paper's chain-of-thought experiment with a real model (Figures 5 and 6, Table 1).

    For each question the model answers once; its own answer is cut at each fraction of its tokens and resampled; the
    curve is the share of resamples whose final answer, read greedily after ``cue``, is the first one's.

    Parameters
    ----------
    lm : HuggingFaceLM
    questions : sequence of {"question": text, "answer": text}
    generator, n_samples, fractions, temperature, top_p
        Sampling rule and size; ``n_samples`` and ``fractions`` are the paper's by default.
    cue, chat
        See :meth:`HuggingFaceLM.extract` and :meth:`HuggingFaceLM.after`.
    progress : bool
        Show a progress bar over the questions.

    Returns
    -------
    curves : (B, len(fractions)) float array
        In the order of growing fractions, for :func:`~icml25.theory.critical_windows.window_accuracy_table`.
    correct : (B,) bool array
        Whether the first answer is the right one, compared as stripped text without case.
    """
    check.integer("n_samples", n_samples, 1)
    if len(questions) == 0:
        raise ValueError("questions must hold at least one question")
    rng = check.torch_generator(generator, lm.model.device)
    curves, correct = [], []
    for question in _track(questions, progress):
        asked = lm.after(question["question"], chat=chat)
        first = asked.sample(asked.prompt[:0], 1, generator=rng, temperature=temperature, top_p=top_p)
        answer = asked.extract(first, cue)[0]
        own = _until(first[0], asked.end) or 1
        cuts = [max(fraction_cuts(own, [fraction])) for fraction in sorted(fractions)]
        sampler = AutoregressiveSampler(asked, temperature=temperature, top_p=top_p)
        levels = np.array([own - cut for cut in cuts], dtype=np.float64)
        drawn = sampler.resample_levels(first[:, :own], levels, n_samples, rng)[0]
        again = asked.extract(drawn.flatten(0, 1), cue)
        curves.append(np.reshape([other == answer for other in again], (len(cuts), n_samples)).mean(1))
        correct.append(answer.casefold() == question["answer"].strip().casefold())
    return np.array(curves), np.array(correct)


def _start_token(tokenizer: Any) -> list[int]:
    for token in (tokenizer.bos_token_id, tokenizer.eos_token_id):
        if token is not None:
            return [int(token)]
    raise ValueError("the tokenizer has neither a start nor an end token: set one before sampling")


def _until(row: Tensor, end: int) -> int:
    """Tokens before the first end token."""
    ends = (row == end).nonzero()
    return int(ends[0]) if len(ends) else len(row)


def _track(items: Sequence[Mapping[str, str]], progress: bool) -> Any:
    if not progress:
        return items
    from tqdm import tqdm

    return tqdm(items)
