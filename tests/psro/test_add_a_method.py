"""docs/add_a_method.md: its method has about 40 lines, trains, and solves rock-paper-scissors."""

import re
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "add_a_method.md"
METHOD, RUN = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)


@pytest.fixture(scope="module")
def ran() -> dict:
    """The names that the page's two blocks define."""
    names: dict = {"__name__": "fictitious"}
    for block in (METHOD, RUN):
        exec(compile(block, str(PAGE), "exec"), names)
    return names


def test_the_method_is_about_40_lines() -> None:
    assert len([line for line in METHOD.splitlines() if line.strip()]) <= 45


def test_the_method_approaches_the_equilibrium(ran) -> None:
    """Its mixture is that of fictitious play: after t iterations the gap is of the order of 1 / sqrt(t)."""
    gaps = ran["gaps"]
    assert len(gaps) == 30 and gaps[0] == pytest.approx(0.5, abs=1e-5)
    assert gaps[-1] < 0.1 and max(gaps[-5:]) < 0.2


def test_the_state_is_that_of_the_family(ran) -> None:
    state, metrics = ran["state"], ran["metrics"]
    assert int(state.step) == 30 and metrics.num_active.tolist() == [31, 31] and state.store.capacity == 32
    assert state.sigma.sum(axis=1).tolist() == pytest.approx([1.0, 1.0])
    assert metrics.tree_walks > 0 and metrics.env_steps == 0  # exact responses play nothing


def test_its_settings_are_checked(ran) -> None:
    with pytest.raises(ValueError, match="recency"):
        ran["FictitiousConfig"](recency=-1.0).validate()
