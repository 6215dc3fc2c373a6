"""What the README tells a programmer to type does run."""

import re
from pathlib import Path

import jax
import numpy as np
import pytest

README = Path(__file__).parents[1] / "README.md"


@pytest.fixture(scope="module")
def blocks():
    return re.findall(r"^```python\n(.*?)^```$", README.read_text(), re.MULTILINE | re.DOTALL)


@pytest.fixture(scope="module")
def ran(blocks):
    """The names that the first example leaves behind, run for 2 iterations instead of 40."""
    example = next(block for block in blocks if "gems_step" in block)
    assert "jax.random.key(1), 40)" in example and "GemsConfig()" in example
    names: dict = {}
    exec(compile(example.replace("40)", "2)"), str(README), "exec"), names)
    return names


def test_the_first_example(ran):
    state, metrics = ran["state"], ran["metrics"]
    assert ran["game"].name == "kuhn_poker" and state.step == 2
    np.testing.assert_array_equal(metrics.num_active, [[2, 2], [3, 3]])
    np.testing.assert_allclose(state.sigma.sum(axis=1), 1.0, rtol=1e-5)
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(metrics))
    # per population at least: one anchor x 8 x 2, 64 candidates x 8 x 2, 30 rounds of 16 anchors (the paper's table)
    assert (metrics.episodes > 2 * (16 + 64 * 16 + 30 * 16)).all()


def test_the_examples_that_build_on_it(blocks, ran):
    """They are traced, not run: names, shapes and axes are what could go wrong."""
    later = [block for block in blocks if "gems_step" in block or "make_solver" in block][1:]
    assert len(later) >= 2
    for block in later:
        if "exploitability" in block:
            exec(compile(block, str(README), "exec"), ran)
            assert 0.0 < ran["exploitability"](ran["game"], ran["solver"].profile(ran["state"])) < 1.0
        else:
            jax.eval_shape(lambda code=block: exec(compile(code, str(README), "exec"), dict(ran)))
