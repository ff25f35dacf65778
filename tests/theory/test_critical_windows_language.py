"""Small language models: known laws, causality, sampling at many cuts, curves."""

import itertools

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from icml25.theory.critical_windows import (
    NoisyAdder,
    StructuredLanguage,
    TinyLM,
    TinyTransformer,
    choice_jump_report,
    direct_answer_curve,
    next_token_probabilities,
    prefix_sharing_curve,
    resample_cuts,
    suffix_curve,
    train_lm,
)

N = 40_000


def small(kind, **kwargs):
    if kind == "gru":
        return TinyLM(4, 5, hidden=8, **kwargs)
    return TinyTransformer(4, 5, width=8, layers=2, heads=2, **kwargs)


both = pytest.mark.parametrize("kind", ["gru", "transformer"])


def all_strings(vocab, length):
    return torch.tensor(list(itertools.product(range(vocab), repeat=length)))


def agrees(share, probability, n):
    """Within 4.5 standard errors, with room for probabilities so small that none may be drawn."""
    return bool((abs(share - probability) <= 4.5 * (probability * (1 - probability) / n) ** 0.5 + 3 / n).all())


# Networks -------------------------------------------------------------------------------------------------------------


@both
def test_probabilities_of_all_strings_sum_to_one(kind):
    model = small(kind)
    total = model.sequence_log_prob(all_strings(4, 5)).sum(1).double().exp().sum()
    assert total.item() == pytest.approx(1.0, abs=1e-5)


@both
@pytest.mark.parametrize("k", [0, 2, 4])
def test_causal(kind, k):
    model = small(kind, context_size=3)
    tokens, context = torch.tensor([[1, 0, 3, 2, 1]]), torch.tensor([[0, 2, 1, 0, 2]])
    before = model(tokens, context=context)[0]
    for changed in ("token", "context"):
        other, other_context = tokens.clone(), context.clone()
        if changed == "token":
            other[0, k] = (other[0, k] + 1) % 4
        else:
            other_context[0, k] = (other_context[0, k] + 1) % 3
        after = model(other, context=other_context)[0]
        assert torch.equal(before[:, :k], after[:, :k])
        assert not torch.allclose(before[:, k], after[:, k])


@both
def test_state_carries_what_was_read(kind):
    model = small(kind)
    tokens = torch.randint(4, (3, 5), generator=torch.Generator().manual_seed(0))
    whole, _ = model(tokens)
    first, state = model(tokens[:, :2])
    second, state = model(tokens[:, 2:3], state)
    third, _ = model(tokens[:, 3:], state)
    torch.testing.assert_close(torch.cat([first, second, third], 1), whole, atol=1e-5, rtol=1e-5)


@both
def test_state_at_every_cut_of_one_trace(kind):
    model = small(kind)
    inputs = model.shifted(torch.randint(4, (3, 5), generator=torch.Generator().manual_seed(0)))
    _, trace = model.run(inputs)
    for k in range(1, 5):
        _, state = model(inputs[:, :k])
        torch.testing.assert_close(model.state_after(trace, k), state, atol=1e-5, rtol=1e-5)


@both
def test_weights_come_from_the_seed_and_touch_no_global_state(kind):
    torch.manual_seed(1)
    first = small(kind, seed=5)
    torch.manual_seed(2)
    second, other = small(kind, seed=5), small(kind, seed=6)
    assert all(torch.equal(a, b) for a, b in zip(first.parameters(), second.parameters(), strict=True))
    assert not torch.equal(first.head.weight, other.head.weight)


@both
@pytest.mark.parametrize(("temperature", "top_p"), [(1.0, 1.0), (0.5, 1.0), (1.0, 0.7), (0.0, 1.0)])
def test_samples_follow_the_product_of_the_rule_s_laws(kind, temperature, top_p):
    model = small(kind)
    prefix = torch.tensor([2, 1, 3])
    drawn = model.sample(prefix, N, generator=1, temperature=temperature, top_p=top_p)
    assert drawn.shape == (N, 5)
    assert (drawn[:, :3] == prefix).all()
    inputs = model.shifted(torch.cat([prefix.expand(4, -1), torch.arange(4)[:, None], torch.zeros(4, 1).long()], 1))
    with torch.no_grad():
        laws = next_token_probabilities(model(inputs)[0], temperature, top_p)
    expected = laws[0, 3][:, None] * laws[:, 4]
    share = torch.bincount(drawn[:, 3] * 4 + drawn[:, 4], minlength=16).view(4, 4) / N
    assert agrees(share, expected, N)


def test_sampling_reads_the_context_of_its_own_question():
    model = small("gru", context_size=4)
    with torch.no_grad():
        # Make the network an echo: the next token is the context symbol, whatever else was read.
        for p in model.parameters():
            p.zero_()
        model.context_embedding.weight.copy_(torch.eye(4, 8) * 50)
        model.gru.weight_ih_l0[16:].copy_(torch.eye(8))
        model.gru.bias_ih_l0[8:16].fill_(-50.0)  # update gate: take the new state
        model.head.weight.copy_(torch.eye(4, 8) * 50)
    context = torch.tensor([[0, 1, 2, 3, 0], [3, 3, 2, 1, 1]])
    drawn = model.sample(torch.zeros(2, 0, dtype=torch.int64), 3, generator=0, context=context)
    assert (drawn == context[:, None]).all()
    cut = resample_cuts(model, context.flip(1), [1, 4], 2, generator=0, context=context)
    assert (cut[:, 0, :, 1:] == context[:, None, 1:]).all()
    assert (cut[:, 1, :, 4:] == context[:, None, 4:]).all()


# Resampling at many cuts ----------------------------------------------------------------------------------------------


@both
def test_all_cuts_at_once_have_the_law_of_each_cut_alone(kind):
    model = small(kind)
    tokens = torch.tensor([[0, 1, 2, 3, 0], [3, 2, 2, 0, 1], [1, 1, 1, 1, 1]])
    cuts, n = [0, 2, 3, 5], 8000
    drawn = resample_cuts(model, tokens, cuts, n, generator=0, chunk=2)
    assert drawn.shape == (3, 4, n, 5)
    strings = all_strings(4, 5)
    log_prob = model.sequence_log_prob(strings).detach().double()
    for b, string in enumerate(tokens):
        for j, cut in enumerate(cuts):
            assert (drawn[b, j, :, :cut] == string[:cut]).all()
            fits = (strings[:, :cut] == string[:cut]).all(1)
            law = log_prob[:, cut:].sum(1).exp() * fits
            index = (drawn[b, j] * 4 ** torch.arange(4, -1, -1)).sum(1)
            assert agrees(torch.bincount(index, minlength=4**5) / n, law, n)


def test_draws_of_one_pair_are_independent():
    """Sharing the state of draws that agree must not share their randomness."""
    model = small("gru")
    drawn = resample_cuts(model, torch.zeros(1, 5, dtype=torch.int64), [0], N, generator=3)[0, 0]
    halves = drawn[: N // 2], drawn[N // 2 :]
    same = (halves[0] == halves[1]).all(1).double().mean().item()
    expected = model.sequence_log_prob(all_strings(4, 5)).sum(1).double().exp().square().sum().item()
    assert same == pytest.approx(expected, abs=4.5 * (expected / (N // 2)) ** 0.5)


@both
def test_same_seed_same_draws_and_other_seed_others(kind):
    model = small(kind)
    run = lambda seed: resample_cuts(model, torch.zeros(2, 5, dtype=torch.int64), [0, 3], 20, generator=seed)
    assert torch.equal(run(1), run(1))
    assert not torch.equal(run(1), run(2))


class Counting(TinyLM):
    """Counts the rows the network evaluates in the sweep."""

    rows = 0

    def run(self, inputs, state=None, context=None):
        if state is not None:
            self.rows += len(inputs)
        return super().run(inputs, state, context)


def test_cost_is_distinct_prefixes_not_draws():
    model = Counting(4, 5, hidden=8)
    tokens = torch.zeros(2, 5, dtype=torch.int64)
    drawn = resample_cuts(model, tokens, [0, 2], 1000, generator=0)
    distinct = 0
    for b, k in itertools.product(range(2), range(1, 5)):
        entered = [drawn[b, j] for j, cut in enumerate([0, 2]) if cut < k]
        # The string itself is followed up to the last cut, drawn or not.
        own = [tokens[b : b + 1]] if k <= 2 else []
        distinct += len(torch.cat([*entered, *own])[:, :k].unique(dim=0))
    assert model.rows == distinct
    assert distinct < 2 * (4 + 2) * 1000 / 4


@pytest.mark.parametrize(
    ("kwargs", "message"),
    [
        ({"cuts": []}, "non-empty and strictly increasing"),
        ({"cuts": [2, 1]}, "strictly increasing"),
        ({"cuts": [1, 1]}, "strictly increasing"),
        ({"cuts": [0, 6]}, r"lie in 0\.\.5"),
        ({"cuts": [-1, 2]}, r"lie in 0\.\.5"),
        ({"n": 0}, "must be at least 1"),
        ({"chunk": 0}, "must be at least 1"),
        ({"tokens": torch.zeros(1, 6, dtype=torch.int64)}, "T <= 5"),
        ({"temperature": -1.0}, "temperature must be finite and at least 0"),
        ({"top_p": 0.0}, r"top_p must lie in \(0, 1\]"),
        ({"context": torch.zeros(1, 5, dtype=torch.int64)}, "context_size=0"),
    ],
)
def test_resampling_refuses(kwargs, message):
    args = {"tokens": torch.zeros(1, 5, dtype=torch.int64), "cuts": [0], "n": 1, "generator": 0} | kwargs
    with pytest.raises(ValueError, match=message):
        resample_cuts(small("gru"), **args)


@pytest.mark.parametrize(("cut", "step"), [(0, 0), (3, 3)])
def test_names_the_step_of_non_finite_logits(cut, step):
    model = small("gru")
    with torch.no_grad():
        model.head.bias[1] = float("nan")
    with pytest.raises(RuntimeError, match=f"non-finite logits at step {step}"):
        model.sample(torch.zeros(cut, dtype=torch.int64), 2, generator=0)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: TinyLM(1, 5), "vocab_size must be at least 2"),
        (lambda: TinyLM(4, 0), "length must be at least 1"),
        (lambda: TinyTransformer(4, 5, width=6, heads=4), "multiple of heads"),
        (lambda: TinyTransformer(4, 5, layers=0), "layers must be at least 1"),
        (lambda: small("gru")(torch.tensor([[5]])), r"tokens must lie in 0\.\.4"),
        (lambda: small("gru")(torch.tensor([[0.5]])), "int64"),
        (lambda: small("gru").sequence_log_prob(torch.zeros(1, 6).long()), "at most 5 tokens"),
        (lambda: small("transformer")(torch.zeros(1, 6).long()), "at most 5 tokens fit"),
        (lambda: small("gru", context_size=2)(torch.zeros(1, 3).long()), "context_size=2 got context=None"),
        (
            lambda: small("gru", context_size=2)(torch.zeros(1, 3).long(), context=torch.full((1, 3), 2)),
            r"context must lie in 0\.\.1",
        ),
        (
            lambda: small("gru", context_size=2)(torch.zeros(1, 3).long(), context=torch.zeros(1, 2).long()),
            "context must have the shape",
        ),
        (lambda: small("gru").sample(torch.zeros(6).long(), 1, generator=0), "k <= 5"),
    ],
)
def test_networks_refuse(call, message):
    with pytest.raises(ValueError, match=message):
        call()


# The next token's law -------------------------------------------------------------------------------------------------


@settings(max_examples=60, deadline=None)
@given(st.lists(st.floats(-5, 5), min_size=1, max_size=8), st.floats(0.05, 1.0), st.floats(0.1, 3.0))
def test_nucleus_is_the_smallest_set_of_enough_mass(logits, top_p, temperature):
    scores = torch.tensor(logits, dtype=torch.float64)
    full = torch.softmax(scores / temperature, -1)
    law = next_token_probabilities(scores, temperature, top_p)
    kept = law > 0
    assert law.sum().item() == pytest.approx(1.0)
    assert full[kept].sum() >= top_p - 1e-12
    if kept.sum() > 1:
        assert full[kept].sum() - full[kept].min() < top_p
    assert not (~kept).any() or full[~kept].max() <= full[kept].min()
    torch.testing.assert_close(law[kept], full[kept] / full[kept].sum())


def test_temperature_zero_is_greedy():
    assert next_token_probabilities(torch.tensor([0.0, 2.0, 1.0]), 0.0).tolist() == [0.0, 1.0, 0.0]


# Training -------------------------------------------------------------------------------------------------------------


def test_training_reaches_the_entropy_of_a_known_law():
    law = torch.tensor([0.7, 0.2, 0.1])
    draw = lambda n, g: torch.multinomial(law, n * 2, replacement=True, generator=g).view(n, 2)
    model = TinyLM(3, 2, hidden=8)
    losses = train_lm(model, draw, steps=150, batch_size=64, lr=2e-2, lr_final=1e-4, seed=0)
    entropy = -(law * law.log()).sum().item()
    assert losses.shape == (150,)
    assert losses[-30:].mean() == pytest.approx(entropy, abs=0.06)
    torch.testing.assert_close(model.sequence_log_prob(torch.tensor([[0, 2]])).exp()[0], law[[0, 2]], atol=0.05, rtol=0)


def test_training_is_repeatable_and_the_step_size_falls_to_the_last_one():
    def run(lr_final):
        model = TinyLM(3, 2, hidden=4)
        draw = lambda n, g: torch.randint(3, (n, 2), generator=g)
        train_lm(model, draw, steps=5, batch_size=4, lr=1e-2, lr_final=lr_final, seed=1)
        return model.head.weight.detach()

    assert torch.equal(run(1e-4), run(1e-4))
    assert not torch.equal(run(1e-4), run(None))


def test_training_refuses():
    draw = lambda n, g: torch.zeros(n, 2).long()
    with pytest.raises(ValueError, match="steps must be at least 1"):
        train_lm(TinyLM(3, 2), draw, steps=0)
    model = TinyLM(3, 2)
    model.head.bias.data.fill_(torch.nan)
    with pytest.raises(RuntimeError, match="not finite at step 0"):
        train_lm(model, draw, steps=3)


# Curves ---------------------------------------------------------------------------------------------------------------


def test_suffix_curve_is_the_product_of_what_is_left():
    p = np.array([[0.5, 0.25, 0.8], [1.0, 0.1, 0.2]])
    expected = [[np.prod(row[k:]) for k in range(4)] for row in p]
    np.testing.assert_allclose(suffix_curve(np.log(p)), expected, rtol=1e-12)
    np.testing.assert_allclose(suffix_curve(torch.tensor(np.log(p), requires_grad=True)), expected, rtol=1e-12)


@pytest.mark.parametrize("bad", [[0.1, -1.0], [np.nan, -1.0], -1.0])
def test_suffix_curve_refuses(bad):
    with pytest.raises(ValueError, match="log_prob must be"):
        suffix_curve(bad)


def test_choice_report_reads_the_largest_rises():
    rises = np.array([[0.1, 2.0, 0.2, 1.0], [3.0, 2.0, 0.0, 1.0]])
    report = choice_jump_report(-rises, [1, 3])
    assert report["exact"].tolist() == [True, False]
    np.testing.assert_allclose(report["elsewhere"], [0.3 / 3.3, 3.0 / 6.0])
    assert choice_jump_report(-rises, [[1, 3], [1, 0]])["exact"].tolist() == [True, True]
    with pytest.raises(ValueError, match=r"choices must lie in 0\.\.3"):
        choice_jump_report(-rises, [4])
    with pytest.raises(ValueError, match=r"log_prob must be \(B, T\)"):
        choice_jump_report(-rises[0], [1])


def test_prefix_sharing_counts_by_hand():
    samples = np.array([[0, 1], [0, 1], [0, 0], [1, 1]])
    prob, stderr, counts = prefix_sharing_curve(samples, [0, 1])
    assert counts.tolist() == [4, 3, 2]
    np.testing.assert_allclose(prob, [2 / 4, 2 / 3, 1.0])
    np.testing.assert_allclose(stderr, [0.25, np.sqrt(2 / 27), 0.0])
    with pytest.raises(ValueError, match="none of the 4 samples"):
        prefix_sharing_curve(samples, [1, 0])
    with pytest.raises(ValueError, match="samples must be"):
        prefix_sharing_curve(samples, [1, 0, 1])


# The two laws ---------------------------------------------------------------------------------------------------------


def test_structured_language_is_the_one_of_the_specification():
    language = StructuredLanguage()
    assert (language.length, len(language.vocabulary)) == (35, 36)
    assert language.strings.shape == (32, 35)
    assert language.law.sum() == pytest.approx(1.0)
    first = language.fillings[:, 0] == 0
    assert language.law[first].sum() == pytest.approx(0.6)
    for j in range(1, 5):
        same = language.fillings[:, j] == language.fillings[:, j - 1]
        assert language.law[same].sum() == pytest.approx(0.7)
    words = [language.vocabulary[i] for i in language.strings[0][language.choices[0]]]
    assert words == ["Pirate", "Dog", "River", "Dragon", "Pizza"]
    words = [language.vocabulary[i] for i in language.strings[31][language.choices[31]]]
    assert words == ["Ninja", "Cat", "Bridge", "Knight", "Sushi"]


@pytest.mark.parametrize("level", ["word", "char"])
def test_exact_curve_is_bayes_over_the_32_strings(level):
    language = StructuredLanguage(level, first=0.8, stay=0.4)
    for index in (0, 11, 31):
        for k in range(language.length + 1):
            shares = (language.strings[:, :k] == language.strings[index, :k]).all(1)
            expected = language.law[index] / language.law[shares].sum()
            assert language.curve(index)[k] == pytest.approx(expected, rel=1e-12)


def test_character_strings_decode_to_the_same_text():
    word, char = StructuredLanguage(), StructuredLanguage("char")
    for i in (0, 13, 31):
        assert char.decode(char.strings[i]).replace("\n", " ") == word.decode(word.strings[i])
        first_letters = [char.vocabulary[t] for t in char.strings[i][char.choices[i]]]
        assert first_letters == [word.vocabulary[t][0] for t in word.strings[i][word.choices[i]]]


def test_structured_samples_follow_the_law():
    language = StructuredLanguage()
    drawn = language.sample(N, 0).numpy()
    share = [(drawn == string).all(1).mean() for string in language.strings]
    assert agrees(np.array(share), language.law, N)


@pytest.mark.parametrize(
    ("kwargs", "message"), [({"level": "token"}, "level must be"), ({"first": 0.0}, "first"), ({"stay": 1.0}, "stay")]
)
def test_structured_language_refuses(kwargs, message):
    with pytest.raises(ValueError, match=message):
        StructuredLanguage(**kwargs)


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 5), st.integers(2, 7), st.floats(0, 1))
def test_kernel_is_the_law_of_a_sum_of_slips(steps, modulus, noise):
    adder = NoisyAdder(3, modulus, noise)
    slip = np.array([1 - noise] + [noise / (modulus - 1)] * (modulus - 1))
    law = np.zeros(modulus)
    law[0] = 1.0
    for _ in range(steps):
        law = np.array([sum(law[j] * slip[(i - j) % modulus] for j in range(modulus)) for i in range(modulus)])
    np.testing.assert_allclose(adder.kernel(steps), law, atol=1e-12)


def test_oracle_agrees_with_the_true_process():
    adder, n = NoisyAdder(), 4000
    chain, addends = adder.sample(20, 3)
    oracle = adder.answer_probability(addends, chain)
    for kept in range(9):
        again = adder.resample(addends, chain, kept, n, 7 + kept)
        assert (again[:, :, :kept] == chain[:, None, :kept]).all()
        share = (again[:, :, -1] == chain[:, None, -1]).double().mean(1).numpy()
        assert agrees(share, oracle[:, kept], n)


def test_slips_and_right_answers():
    adder = NoisyAdder(3)
    addends, chain = [[1, 2, 3], [9, 9, 9], [5, 0, 0]], [[1, 3, 6], [9, 9, 8], [4, 4, 5]]
    assert adder.slips(addends, chain).tolist() == [[False] * 3, [False, True, False], [True, False, True]]
    assert adder.correct(addends, chain).tolist() == [True, False, True]
    many, asked = NoisyAdder(noise=0.12).sample(5000, 0)
    slips = NoisyAdder().slips(asked, many)
    assert slips.mean() == pytest.approx(0.12, abs=4.5 * np.sqrt(0.12 * 0.88 / slips.size))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: NoisyAdder(n_steps=0), "n_steps must be at least 1"),
        (lambda: NoisyAdder(noise=1.5), r"noise must lie in \[0, 1\]"),
        (lambda: NoisyAdder().kernel(-1), "steps must be at least 0"),
        (lambda: NoisyAdder(2).slips([[1, 2]], [[1, 2, 3]]), r"must be \(B, 2\)"),
        (lambda: NoisyAdder(2).slips([[1, 2]], [[1, 10]]), r"chain must lie in 0\.\.9"),
        (lambda: NoisyAdder(2).resample(torch.ones(1, 2), torch.ones(1, 2), 3, 1, 0), r"kept must lie in 0\.\.2"),
    ],
)
def test_adder_refuses(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_direct_prompts_hide_what_is_not_kept():
    adder = NoisyAdder(4)
    tokens, context = adder.direct_batch(500, 0)
    hidden = tokens[:, :4] == 10
    assert (hidden.long().diff(dim=1) >= 0).all(), "only a tail is hidden"
    assert set(hidden.sum(1).tolist()) == {0, 1, 2, 3, 4}
    assert (context[:, 4] == 10).all()
    whole = ~hidden.any(1)
    assert (tokens[whole, 3] == tokens[whole, 4]).all()


@pytest.fixture(scope="module")
def trained_adder():
    adder = NoisyAdder(n_steps=4, modulus=5, noise=0.15)
    model = TinyLM(5, 4, hidden=32, context_size=5)
    train_lm(model, adder.sample, steps=300, batch_size=128, lr=1e-2, lr_final=1e-4, seed=0)
    return adder, model


def test_trained_net_is_near_the_oracle(trained_adder):
    adder, model = trained_adder
    chain, addends = adder.sample(100, 5)
    drawn = resample_cuts(model, chain, range(5), 400, generator=1, context=addends)
    share = (drawn[..., -1] == chain[:, None, None, -1]).double().mean(-1).numpy()
    assert np.abs(share - adder.answer_probability(addends, chain)).mean() < 0.06
    assert (share[:, -1] == 1.0).all()


def test_direct_answers_use_the_partial_sums_they_are_given():
    adder = NoisyAdder(n_steps=2, modulus=3, noise=0.2)
    model = TinyLM(4, 3, hidden=32, context_size=4)
    train_lm(model, adder.direct_batch, steps=400, batch_size=128, lr=1e-2, lr_final=1e-4, seed=0)
    chain, addends = adder.sample(300, 5)
    curve = direct_answer_curve(model, adder, addends, chain)
    assert curve.shape == (300, 3)
    assert np.abs(curve - adder.answer_probability(addends, chain)).mean(0).max() < 0.1
