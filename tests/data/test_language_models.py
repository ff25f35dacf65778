"""The wrapper of pretrained models, on tiny random models saved in the real format: no network, no download."""

import json
import sys
from dataclasses import replace

import numpy as np
import pytest
import torch

from icml25.data.language_models import HuggingFaceLM, chain_of_thought_curves, load_hf_lm, read_questions
from icml25.theory.critical_windows.experiment import AutoregressiveSampler, forward_reverse_curve, fraction_cuts

transformers = pytest.importorskip("transformers")
tokenizers = pytest.importorskip("tokenizers")

TEXTS = ["two and three is five", "the answer is five", "the answer is two", "three and two is five"] * 5
DRAWS = 4000
CHAT = "<s>{% for turn in messages %}[{{ turn.role }}] {{ turn.content }} {% endfor %}[model]"


def tiny_model(family, vocab_size):
    torch.manual_seed(0)
    if family == "gpt2":
        config = transformers.GPT2Config(
            vocab_size=vocab_size, n_positions=64, n_embd=16, n_layer=2, n_head=2, bos_token_id=0, eos_token_id=0
        )
        return transformers.GPT2LMHeadModel(config)
    config = transformers.LlamaConfig(
        vocab_size=vocab_size,
        hidden_size=16,
        intermediate_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=64,
        bos_token_id=0,
        eos_token_id=1,
    )
    return transformers.LlamaForCausalLM(config)


@pytest.fixture(scope="module", params=["gpt2", "llama"])
def folder(request, tmp_path_factory):
    """A saved model and tokenizer: config.json, model.safetensors, tokenizer.json, tokenizer_config.json."""
    path = tmp_path_factory.mktemp(request.param)
    special = ["<s>"] if request.param == "gpt2" else ["<s>", "</s>"]
    bpe = tokenizers.Tokenizer(tokenizers.models.BPE())
    bpe.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    bpe.decoder = tokenizers.decoders.ByteLevel()
    alphabet = tokenizers.pre_tokenizers.ByteLevel.alphabet()
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=300, special_tokens=special, initial_alphabet=alphabet, show_progress=False
    )
    bpe.train_from_iterator(TEXTS, trainer)
    fast = transformers.PreTrainedTokenizerFast(
        tokenizer_object=bpe,
        bos_token=None if request.param == "gpt2" else "<s>",
        eos_token=special[-1],
        chat_template=CHAT if request.param == "llama" else None,
    )
    fast.save_pretrained(path)
    model = tiny_model(request.param, len(fast))
    with torch.no_grad():
        # Random weights give a nearly flat law; sharper logits make the tests of the law tell laws apart.
        for parameter in model.parameters():
            if parameter.ndim == 2:
                parameter.mul_(12.0)
    model.save_pretrained(path)
    return path


@pytest.fixture
def lm(folder):
    return load_hf_lm(str(folder), prompt="two and", length=8, local_files_only=True)


def next_law(lm, kept):
    """Law of the next token from one plain forward pass, without any cache."""
    with torch.no_grad():
        logits = lm.model(input_ids=torch.cat([lm.prompt, kept])[None]).logits[0, -1]
    return torch.softmax(logits.double(), -1)


def test_the_saved_layout_is_the_real_one(folder):
    names = {path.name for path in folder.iterdir()}
    assert {"config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json"} <= names


def test_text_goes_round(lm):
    assert lm.decode(lm.encode(" three is five")) == " three is five"


def test_prompt_opens_with_a_start_token_and_the_text(lm, folder):
    assert lm.prompt[0] == 0
    assert lm.decode(lm.prompt[1:]) == "two and"
    assert len(load_hf_lm(str(folder), local_files_only=True, length=4).prompt) == 1


def test_log_prob_is_the_plain_forward_pass(lm):
    string = lm.encode(" three is")
    got = lm.sequence_log_prob(string[None])[0]
    expected = [next_law(lm, string[:i])[token].log() for i, token in enumerate(string)]
    torch.testing.assert_close(got.double(), torch.stack(expected), atol=1e-4, rtol=1e-4)


def test_log_prob_counts_nothing_after_the_end(lm):
    string = torch.cat([lm.encode(" three"), torch.tensor([lm.end, lm.end, 5])])
    got = lm.sequence_log_prob(string[None])[0]
    ended = len(lm.encode(" three"))
    assert got[ended] < 0
    assert (got[ended + 1 :] == 0).all()


@pytest.mark.parametrize("kept_text", ["", " three"])
def test_first_sampled_token_has_the_model_s_law(lm, kept_text):
    kept = lm.encode(kept_text) if kept_text else lm.prompt[:0]
    drawn = lm.sample(kept, DRAWS, generator=1)
    assert drawn.shape == (DRAWS, lm.length)
    assert (drawn[:, : len(kept)] == kept).all()
    law = next_law(lm, kept)
    share = torch.bincount(drawn[:, len(kept)], minlength=len(law)) / DRAWS
    assert ((share - law).abs() <= 4.5 * (law * (1 - law) / DRAWS).sqrt() + 1e-3).all()


def test_cached_steps_continue_the_right_context(lm):
    """Greedy decoding through the cache is greedy decoding by whole forward passes."""
    string = lm.encode(" three is")
    greedy = lm.resample_cuts(string[None], [0, 1, 2], 3, generator=0, temperature=0.0)[0]
    for row, cut in enumerate([0, 1, 2]):
        expected = string[:cut]
        while len(expected) < lm.length and (len(expected) == cut or expected[-1] != lm.end):
            expected = torch.cat([expected, next_law(lm, expected).argmax()[None]])
        expected = torch.nn.functional.pad(expected, (0, lm.length - len(expected)), value=lm.end)
        assert (greedy[row] == expected).all()


def test_draws_that_ended_stay_ended_and_the_others_are_not_disturbed(lm):
    """After some draws of a batch have ended, the next token of the rest still has the model's law."""
    with torch.no_grad():
        # Lift the end token's score so that three draws in ten end at once.
        head = torch.nn.Linear(lm.model.lm_head.in_features, lm.model.lm_head.out_features)
        head.weight.copy_(lm.model.lm_head.weight)
        head.bias.zero_()
        head.bias[lm.end] = np.log(0.3 / 0.7) - next_law(lm, lm.prompt[:0])[lm.end].logit()
        lm.model.lm_head = head
    drawn = lm.sample(lm.prompt[:0], DRAWS, generator=3)
    ended = (drawn == lm.end).cumsum(1) > 0
    assert 0.25 < ended[:, 0].double().mean() < 0.35
    assert (drawn[ended] == lm.end).all()
    firsts, counts = drawn[:, 0][~ended[:, 0]].unique(return_counts=True)
    first = firsts[counts.argmax()]
    second = drawn[drawn[:, 0] == first][:, 1]
    law = next_law(lm, first[None])
    share = torch.bincount(second, minlength=len(law)) / len(second)
    assert ((share - law).abs() <= 4.5 * (law * (1 - law) / len(second)).sqrt() + 2 / len(second)).all()


def test_a_prefix_that_has_ended_is_left_alone(lm):
    string = torch.tensor([[5, lm.end, 7]])
    drawn = lm.resample_cuts(string, [2, 3], 4, generator=0)
    assert (drawn[0, 0, :, :2] == string[0, :2]).all()
    assert (drawn[0, 0, :, 2:] == lm.end).all()


def test_same_seed_same_strings(lm):
    run = lambda seed: lm.sample(lm.prompt[:0], 5, generator=seed)
    assert torch.equal(run(3), run(3))
    assert not torch.equal(run(3), run(4))


def test_serves_the_forward_reverse_experiment(lm):
    string = lm.encode(" three is")
    sampler = AutoregressiveSampler(lm)
    t = len(string)
    curve = forward_reverse_curve(sampler, string, [0, t], 500, lambda x: x[:, 0], generator=0)
    share = next_law(lm, string[:0])[string[0]].item()
    assert curve.prob[0] == 1.0
    assert curve.prob[1] == pytest.approx(share, abs=4.5 * np.sqrt(share * (1 - share) / 500) + 1e-3)


def test_extracts_greedily_whatever_else_is_in_the_batch(lm):
    long, short = lm.encode(" three is five"), lm.encode(" two")
    strings = torch.full((3, 8), lm.end)
    strings[0, : len(long)], strings[1, : len(short)], strings[2, : len(short)] = long[:8], short, short
    together = lm.extract(strings, " is", max_new_tokens=3)
    alone = [lm.extract(row[None], " is", max_new_tokens=3)[0] for row in strings]
    assert together == alone
    assert together[1] == together[2]


def test_the_paper_s_experiment_runs_end_to_end(lm):
    questions = [{"question": "two and three", "answer": "five"}, {"question": "three", "answer": "?"}]
    kwargs = {"generator": 0, "n_samples": 4, "cue": " is", "temperature": 1.0, "top_p": 1.0}
    curves, correct = chain_of_thought_curves(lm, questions, **kwargs)
    assert curves.shape == (2, len(fraction_cuts(1000)))
    assert correct.shape == (2,)
    assert correct.dtype == np.bool_
    assert ((curves >= 0) & (curves <= 1)).all()
    whole, _ = chain_of_thought_curves(lm, questions, fractions=(1.0,), **kwargs)
    assert (whole == 1.0).all(), "with every token kept the answer is the same"


def test_chat_template_is_used_where_there_is_one(lm):
    if lm.tokenizer.chat_template is None:
        with pytest.raises(ValueError, match="no chat template"):
            lm.after("two", chat=True)
    else:
        text = lm.tokenizer.decode(lm.after("two", chat=True).prompt)
        assert text.replace(" ", "") == "<s>[user]two[model]"


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda lm: replace(lm, length=64), "fit with the prompt's"),
        (lambda lm: replace(lm, prompt=lm.prompt[:0]), "at least one token"),
        (lambda lm: lm.resample_cuts(torch.ones(1, 9, dtype=torch.int64), [0], 1, generator=0), "T <= 8"),
        (lambda lm: lm.resample_cuts(torch.ones(1, 4, dtype=torch.int64), [5], 1, generator=0), r"lie in 0\.\.4"),
        (lambda lm: lm.sample(lm.prompt, 0, generator=0), "n must be at least 1"),
        (lambda lm: lm.sequence_log_prob(lm.prompt), r"tokens must be \(B, T\)"),
    ],
)
def test_refuses(lm, call, message):
    with pytest.raises(ValueError, match=message):
        call(lm)


def test_names_the_step_of_non_finite_logits(lm):
    with torch.no_grad():
        next(lm.model.parameters()).fill_(float("nan"))
    with pytest.raises(RuntimeError, match="non-finite logits at step 0"):
        lm.sample(lm.prompt[:0], 2, generator=0)


def test_missing_model_says_what_to_do(tmp_path):
    with pytest.raises(OSError, match=r"no language model 'nobody/nothing'.*the local cache did not give it"):
        load_hf_lm("nobody/nothing", local_files_only=True)
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(OSError, match="not a folder with a saved model"):
        load_hf_lm(str(tmp_path), local_files_only=True)


def test_missing_extra_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "transformers", None)
    with pytest.raises(ImportError, match=r"icml25\[llm\]"):
        load_hf_lm("anything")


def test_importing_the_module_does_not_import_the_extra():
    import subprocess

    code = "import sys, icml25.data.language_models; sys.exit('transformers' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_reads_questions(tmp_path):
    path = tmp_path / "set.jsonl"
    rows = [{"question": "2+3?", "answer": "5", "level": 1}, {"question": "1+1?", "answer": "2"}]
    path.write_text("\n\n".join(json.dumps(row) for row in rows))
    assert read_questions(path) == [{"question": "2+3?", "answer": "5"}, {"question": "1+1?", "answer": "2"}]
    path.write_text('{"question": "2+3?", "answer": "5"}\n{"question": "x"}')
    with pytest.raises(ValueError, match=r"set\.jsonl, line 2: need texts"):
        read_questions(path)
    path.write_text("nonsense")
    with pytest.raises(ValueError, match="line 1: not JSON"):
        read_questions(path)
    path.write_text("\n")
    with pytest.raises(ValueError, match="holds no question"):
        read_questions(path)


def test_the_wrapper_is_what_the_loader_returns(lm):
    assert isinstance(lm, HuggingFaceLM)
    assert lm.length == 8


def test_a_question_file_may_carry_a_byte_order_mark(tmp_path):
    path = tmp_path / "set.jsonl"
    path.write_text('{"question": "1 + 1?", "answer": "2"}\n', encoding="utf-8-sig")
    assert read_questions(path) == [{"question": "1 + 1?", "answer": "2"}]


def test_no_questions_and_no_samples_are_refused():
    with pytest.raises(ValueError, match="at least one question"):
        chain_of_thought_curves(None, [], generator=0)
    with pytest.raises(ValueError, match="n_samples"):
        chain_of_thought_curves(None, [{"question": "1 + 1?", "answer": "2"}], generator=0, n_samples=0)
