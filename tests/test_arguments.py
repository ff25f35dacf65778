"""Every check lets its range through, in the canonical type, and refuses the rest by name."""

import math

import numpy as np
import pytest
import torch

from icml25 import _arguments as check

NAN, INF = math.nan, math.inf

PASSED = [
    (check.integer("n", np.int32(3), 3), 3, int),
    (check.integer("n", torch.tensor(5), 1, 5), 5, int),
    (check.number("x", INF), INF, float),
    (check.real("x", np.float32(0.5)), 0.5, float),
    (check.at_least_zero("x", 0), 0.0, float),
    (check.positive("x", 1), 1.0, float),
    (check.between("x", 1, 0, 1), 1.0, float),
    (check.open_unit("x", 0.5), 0.5, float),
    (check.flag("f", np.True_), True, bool),
    (check.one_of("kind", "b", ("a", "b")), "b", str),
]

REFUSED = {
    "bool as integer": (lambda: check.integer("n", True, 0), TypeError, "n must be an integer, got the bool True"),
    "whole float as integer": (lambda: check.integer("n", 2.0, 0), TypeError, "n must be an integer, got 2.0"),
    "integer too small": (lambda: check.integer("n", 0, 1), ValueError, "n must be at least 1, got 0"),
    "integer out of range": (lambda: check.integer("n", 6, 1, 5), ValueError, r"n must lie in 1\.\.5, got 6"),
    "text as number": (lambda: check.number("x", "1"), TypeError, "x must be a real number, got '1'"),
    "array as number": (lambda: check.number("x", np.ones(1)), TypeError, "x must be a real number"),
    "NaN as real": (lambda: check.real("x", NAN), ValueError, "x must be finite, got nan"),
    "negative": (lambda: check.at_least_zero("x", -1e-9), ValueError, "x must be finite and at least 0"),
    "infinite, at least zero": (lambda: check.at_least_zero("x", INF), ValueError, "x must be finite and at least 0"),
    "zero as positive": (lambda: check.positive("x", 0.0), ValueError, "x must be finite and positive, got 0.0"),
    "NaN as positive": (lambda: check.positive("x", NAN), ValueError, "x must be finite and positive"),
    "outside": (lambda: check.between("x", 1.1, 0, 1), ValueError, r"x must lie in \[0, 1\], got 1.1"),
    "NaN between": (lambda: check.between("x", NAN, 0, 1), ValueError, r"x must lie in \[0, 1\]"),
    "end of the open interval": (lambda: check.open_unit("x", 1.0), ValueError, r"x must lie in \(0, 1\)"),
    "number as flag": (lambda: check.flag("f", 1), TypeError, "f must be True or False, got 1"),
    "unknown choice": (lambda: check.one_of("k", "c", ("a", "b")), ValueError, "k must be one of 'a', 'b', got 'c'"),
    "array as choice": (lambda: check.one_of("k", np.array(["a"]), ("a",)), ValueError, "k must be one of 'a'"),
    "bools as numbers": (lambda: check.finite("x", [True]), TypeError, "x must hold real numbers, got dtype bool"),
    "objects as numbers": (lambda: check.finite("x", [None]), TypeError, "x must hold real numbers"),
    "NaN in a vector": (lambda: check.finite("x", [0.0, NAN]), ValueError, "x must be finite, got nan at index 1"),
    "NaN in a matrix": (lambda: check.finite("x", [[0.0, INF]]), ValueError, "x must be finite, got inf at index 0, 1"),
    "NaN alone": (lambda: check.finite("x", NAN), ValueError, "x must be finite, got nan$"),
    "too many axes": (lambda: check.finite("x", [[1.0]], 1), ValueError, r"x must have 1 axes, got shape \(1, 1\)"),
    "too few axes": (lambda: check.finite("x", 1.0, (1, 2)), ValueError, r"x must have 1 or 2 axes, got shape \(\)"),
    "law below one": (lambda: check.law("pi", [0.5, 0.4]), ValueError, "pi must be non-negative and sum to 1"),
    "negative law": (lambda: check.law("pi", [1.5, -0.5]), ValueError, "pi must be non-negative and sum to 1"),
    "law of another length": (lambda: check.law("pi", [1.0], 2), ValueError, "pi must be non-negative"),
    "floats as whole numbers": (lambda: check.whole_numbers("k", [1.0]), TypeError, "k must hold integers"),
    "no seed": (lambda: check.numpy_generator(None), TypeError, "seed .* must be an integer"),
    "negative seed": (lambda: check.numpy_generator(-1), ValueError, "seed .* must be at least 0"),
    "no torch seed": (lambda: check.torch_generator(None), TypeError, "seed .* must be an integer"),
    "torch seed too large": (lambda: check.torch_generator(2**64), ValueError, "seed .* must lie in"),
}


@pytest.mark.parametrize(("found", "expected", "kind"), PASSED)
def test_what_is_allowed_comes_back_in_its_canonical_type(found, expected, kind):
    assert found == expected
    assert type(found) is kind


@pytest.mark.parametrize(("call", "error", "message"), REFUSED.values(), ids=REFUSED)
def test_what_is_not_allowed_is_refused_by_name(call, error, message):
    with pytest.raises(error, match=message):
        call()


def test_arrays_lists_and_tensors_become_float64_arrays():
    for values in ([1, 2], np.array([1.0, 2.0], dtype=np.float32), torch.tensor([1.0, 2.0], requires_grad=True)):
        found = check.finite("x", values, 1)
        assert found.dtype == np.float64
        np.testing.assert_array_equal(found, [1.0, 2.0])


def test_a_law_is_a_copy():
    mine = np.array([0.25, 0.75])
    check.law("pi", mine)[0] = 1.0
    assert mine[0] == 0.25


def test_a_generator_is_taken_as_it_is_and_a_seed_repeats():
    rng, torch_rng = np.random.default_rng(0), torch.Generator()
    assert check.numpy_generator(rng) is rng
    assert check.torch_generator(torch_rng) is torch_rng
    assert check.numpy_generator(7).random() == check.numpy_generator(np.int64(7)).random()
    assert torch.equal(
        torch.rand(2, generator=check.torch_generator(7)), torch.rand(2, generator=check.torch_generator(7))
    )
