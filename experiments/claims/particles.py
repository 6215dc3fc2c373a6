"""Claims on Simple Tag and Simple Spread: the paper's pictures as numbers."""

from experiments.reporting.claims import Claim
from experiments.reporting.combining import All, Either
from experiments.reporting.quantities import Column
from experiments.reporting.rules import Bound, Compare, Steadier


def ours(game: str, column: str) -> Column:
    return Column(game, "gems", column)


def beats(game: str, column: str, lower: bool = False, random: bool = True) -> Either:
    """Requires that GEMS is ahead of both PSROs, or of the classical one alone, and of random play."""
    mine, more = ours(game, column), ("random",) * random
    beside = " and random play" * random
    return Either(
        Compare(
            mine, Column(game, ("psro*", *more), column), lower=lower,
            what=f"{mine.words}, compared with both PSROs{beside},",
        ),
        Compare(
            mine, Column(game, ("psro", *more), column), lower=lower,
            what=f"{mine.words}, compared with classical PSRO{beside},",
        ),
        "against classical PSRO, whose responses start from scratch; not, or not beyond noise, against PSRO whose "
        "responses start from the newest policy",
    )  # fmt: skip


BOTH = "At equal steps, against classical PSRO and against one whose responses start from the newest policy."
CLAIMS = (
    Claim(
        key="tag-return",
        quote="GEMS consistently achieves a higher mean agent return",
        where="section 4.3, fig:tag_resource_usage_combined, left",
        paper="about 0 against less",
        rule=All(
            (
                beats("tag", "pursuers_vs_random"),
                beats("tag", "random_vs_evader", lower=True),
            )
        ),
        note="A mean over both sides is not informative, because one side's gain is the other's loss. Here each side "
        "plays "
        "against random play. " + BOTH,
    ),
    Claim(
        key="tag-encirclement",
        quote="the red taggers self-organize into a roughly triangular encirclement",
        where="appendix M; fig:comparison",
        paper="pictures",
        rule=Either(
            Bound(ours("tag", "encirclement"), at_most=180.0),
            beats("tag", "encirclement", lower=True),
            "less open than PSRO's and that of random play, but not around the evader",
        ),
        note="The largest angle between pursuers as seen by the evader, mean over an episode, in degrees: 120 is a "
        "triangle around it, 180 and more leave one side open, at 360 all are in one direction. GEMS must also beat "
        "random play.",
    ),
    Claim(
        key="tag-herding",
        quote="PSRO-trained adversaries often display a simpler herding behavior [...] a less coordinated clump",
        where="section 4.3; fig:comparison",
        paper="pictures",
        rule=beats("tag", "pursuer_spread", random=False),
        note="The distance of the pursuers from each other, which is small in a clump. Random play is not compared: "
        "pursuers who do not pursue are the most distant.",
    ),
    Claim(
        key="tag-captures",
        quote="captures do occur [...] under PSRO captures are rare and evasion is commonplace",
        where="appendix M",
        paper="pictures",
        rule=beats("tag", "captures"),
        note="Each method's pursuers against its own evader: a better evader means fewer captures.",
    ),
    Claim(
        key="tag-evasion",
        quote="the green agent under PSRO shows less consistently trained avoidance than under GEMS",
        where="appendix M",
        paper="pictures",
        rule=beats("tag", "random_vs_evader", lower=True),
        note="The return of random pursuers against the evader.",
    ),
    Claim(
        key="spread-return",
        quote="GEMS achieves a higher (less negative) mean return",
        where="appendix L, fig:spread_resource_usage_combined",
        paper="a higher curve",
        rule=beats("spread", "return_team"),
        note=BOTH,
    ),
    Claim(
        key="spread-variance",
        quote="with lower variance over time",
        where="appendix L, fig:spread_resource_usage_combined",
        paper="a narrower band",
        rule=Steadier(ours("spread", "return_team"), Column("spread", "psro", "return_team")),
    ),
    Claim(
        key="spread-coverage",
        quote="they quickly partition landmarks and move directly toward them",
        where="appendix L, fig:spd_0 to fig:spd_4",
        paper="pictures",
        rule=beats("spread", "covered"),
        note="The fraction of landmarks with an agent on them.",
    ),
    Claim(
        key="spread-assignment",
        quote="distinct landmark assignments",
        where="appendix L",
        paper="pictures",
        rule=beats("spread", "distinct"),
        note="How often the nearest landmarks of all agents are different.",
    ),
    Claim(
        key="spread-collisions",
        quote="when two agents collide they separate and re-plan rather than dithering",
        where="appendix L",
        paper="pictures",
        rule=beats("spread", "collisions", lower=True, random=False),
        note="Random play is not compared: agents that do not approach landmarks do not collide there.",
    ),
    Claim(
        key="spread-psro-drifts",
        quote="[PSRO:] typically one-two agents hover near a target while another drifts away",
        where="appendix L",
        paper="pictures",
        rule=Either(
            Bound(Column("spread", "psro", "covered"), at_least=1 / 3, at_most=2 / 3),
            Bound(Column("spread", "psro, warm", "covered"), at_least=1 / 3, at_most=2 / 3),
            "for PSRO whose responses start from the newest policy; not for classical PSRO",
        ),
        note="Read as: one or two of three landmarks are covered.",
    ),
)
