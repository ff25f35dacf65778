"""Rapid overfitting of multi-pass SGD: the hard instances, the oracles that are allowed to be hard, and exact losses.

One pass of SGD with step 1/sqrt(n) is minimax optimal for convex Lipschitz losses. By the end of the second pass its
population excess can be a constant: the first pass writes the sample into the oracle's choices, the second steers to a
minimiser of the training loss that is bad on new data. From the second pass on the tight order is
eta sqrt(T) + 1/(eta T), T the total number of steps.

Shira Vansover-Hager, Tomer Koren, Roi Livni: Rapid Overfitting of Multi-Pass SGD in Stochastic Convex Optimization,
ICML 2025, arXiv 2505.08306. Implemented here: projected SGD in every order (Section 2), Theorems 3.1 to 3.4 and 4.1
with the constructions of Appendices B and C, the lift to any oracle of Appendix D, and the bounds with constants.

Modules: ``descent`` (SGD), ``steering`` (two to many passes), ``staircase`` (the construction for many passes, with
care), ``one_pass`` (bad training loss), ``max_coordinate`` (steps too short), ``lift`` (any oracle), ``bounds``,
``packing``, ``batch`` (grids and large sets on a torch device), ``hard_instance`` (contract and subgradient test).
"""

from icml25.theory.multipass_sgd.batch import GemmEvaluator, steering_grid
from icml25.theory.multipass_sgd.bounds import (
    bad_vector_probability,
    coupon_all_seen_probability,
    coupon_unseen_law,
    excess_formula,
    optimisation_bound,
    replacement_success_probability,
    stability_bound,
    suffix_lower_bound,
    upper_bound,
    worst_case_rate,
)
from icml25.theory.multipass_sgd.descent import Ball, OracleState, SGDResult, UnitBall, sample_order, sgd
from icml25.theory.multipass_sgd.hard_instance import (
    HardInstance,
    expected_max,
    subgradient_violation,
    top_block,
)
from icml25.theory.multipass_sgd.lift import MaxAffine, lift_to_any_oracle
from icml25.theory.multipass_sgd.max_coordinate import MaxCoordinate
from icml25.theory.multipass_sgd.one_pass import OnePassEmpiricalInstance
from icml25.theory.multipass_sgd.packing import packing_overlaps, packing_set
from icml25.theory.multipass_sgd.staircase import Staircase
from icml25.theory.multipass_sgd.steering import (
    LossRecorder,
    MultiPassInstance,
    SteeringCurve,
    default_steering_steps,
)

__all__ = [
    "Ball",
    "GemmEvaluator",
    "HardInstance",
    "LossRecorder",
    "MaxAffine",
    "MaxCoordinate",
    "MultiPassInstance",
    "OnePassEmpiricalInstance",
    "OracleState",
    "SGDResult",
    "Staircase",
    "SteeringCurve",
    "UnitBall",
    "bad_vector_probability",
    "coupon_all_seen_probability",
    "coupon_unseen_law",
    "default_steering_steps",
    "excess_formula",
    "expected_max",
    "lift_to_any_oracle",
    "optimisation_bound",
    "packing_overlaps",
    "packing_set",
    "replacement_success_probability",
    "sample_order",
    "sgd",
    "stability_bound",
    "steering_grid",
    "subgradient_violation",
    "suffix_lower_bound",
    "top_block",
    "upper_bound",
    "worst_case_rate",
]
