"""Counts of programs: known answers of hand-written and of compiled ones, and limits of the roofline."""

import jax
import jax.numpy as jnp
import pytest

from benchmarks.hlo import Cost, Program, count_stablehlo
from benchmarks.predictions import BANDWIDTH_SHARE, FLOPS_SHARE, Machine, roofline
from benchmarks.program import step_figures
from gems_jax import make_game, preset

HLO = """HloModule test, entry_computation_layout={(f32[4,8]{1,0})->f32[4,8]{1,0}}

%fused (p0: f32[4,8]) -> f32[4,8] {
  %p0 = f32[4,8]{1,0} parameter(0)
  %twice = f32[4,8]{1,0} add(%p0, %p0)
  ROOT %root = f32[4,8]{1,0} multiply(%twice, %p0)
}

%body (b: (s32[], f32[4,8])) -> (s32[], f32[4,8]) {
  %b = (s32[], f32[4,8]{1,0}) parameter(0)
  %i = s32[] get-tuple-element(%b), index=0
  %x = f32[4,8]{1,0} get-tuple-element(%b), index=1
  %y = f32[4,8]{1,0} fusion(%x), kind=kLoop, calls=%fused
  ROOT %both = (s32[], f32[4,8]{1,0}) tuple(%i, %y)
}

%condition (c: (s32[], f32[4,8])) -> pred[] {
  %c = (s32[], f32[4,8]{1,0}) parameter(0)
  %j = s32[] get-tuple-element(%c), index=0
  %limit = s32[] constant(5)
  ROOT %less = pred[] compare(%j, %limit), direction=LT
}

ENTRY %main (a: f32[4,8]) -> f32[4,8] {
  %a = f32[4,8]{1,0} parameter(0)
  %zero = s32[] constant(0)
  %start = (s32[], f32[4,8]{1,0}) tuple(%zero, %a)
  %loop = (s32[], f32[4,8]{1,0}) while(%start), condition=%condition, body=%body TRIPS
  ROOT %out = f32[4,8]{1,0} get-tuple-element(%loop), index=1
}
"""


@pytest.mark.parametrize(
    ("known", "unknown", "turns"), [(', backend_config={"known_trip_count":{"n":"5"}}', 1, 5), ("", 1, 1), ("", 3, 3)]
)
def test_a_loop_counts_as_often_as_it_runs(known, unknown, turns):
    """A turn launches a fusion of 2 x 32 operations on 128 bytes read and written, and a comparison of 4 + 4 + 1."""
    found = Program(HLO.replace(" TRIPS", known), unknown)
    assert found.cost() == Cost(turns * 2.0, turns * (256.0 + 9.0), turns * 64.0)
    (loop,) = found.loops()
    assert loop.trips == (5 if known else None) and loop.launches == 2.0


def test_a_compiled_program_has_the_operations_of_its_products():
    def many(x, y):
        return jax.lax.scan(lambda carry, _: (jnp.tanh(carry @ y), None), x, None, length=7)[0]

    compiled = jax.jit(many).lower(jnp.ones((16, 32)), jnp.ones((32, 32))).compile()
    cost = Program(compiled.as_text()).cost()
    products = 7 * 2 * 16 * 32 * 32
    assert products <= cost.flops <= 1.1 * products
    assert cost.launches >= 7 and cost.bytes >= 7 * 4 * (2 * 16 * 32 + 32 * 32)
    assert [loop.trips for loop in Program(compiled.as_text()).loops()] == [7]


def test_stablehlo_counts_a_function_once():
    inner = jax.jit(lambda x: jnp.sin(x) + x)

    def count(function):
        return count_stablehlo(jax.jit(function).lower(jnp.ones(3)).as_text())

    assert count(lambda x: jnp.sin(x) + x) == 2
    assert count(inner) == 3  # two operations and a call
    assert count(lambda x: inner(inner(x))) == 4  # two operations and two calls
    assert count(lambda x: x + 1.0) == 2  # an addition and the broadcast of its constant


def test_the_step_of_kuhn_stays_small():
    """It had 20,700 operations before shared parts were traced once."""
    game, config = make_game("kuhn_poker"), preset("kuhn_poker")
    figures = {figure.name: figure.value for figure in step_figures(game, config, compiling=False)}
    assert 4_000 < figures["step: operations"] < 9_000
    assert figures["step: tracing"] > 0.0 < figures["step: lowering"]


def test_roofline_by_hand():
    machine = Machine("unit", 1, 10.0 / BANDWIDTH_SHARE, 100.0 / FLOPS_SHARE, 0.5)
    assert roofline(Cost(launches=4.0), machine) == 2.0
    assert roofline(Cost(4.0, bytes=30.0, flops=200.0), machine) == pytest.approx(5.0)  # moving takes longer
    assert roofline(Cost(4.0, bytes=30.0, flops=900.0), machine) == pytest.approx(11.0)
