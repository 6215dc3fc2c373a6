"""Simple Tag and Simple Spread: what the paper shows in pictures, as numbers."""

from experiments.reporting.claims import Claim
from experiments.reporting.combining import All, Either
from experiments.reporting.quantities import Column
from experiments.reporting.rules import Bound, Compare, Steadier


def ours(game: str, column: str) -> Column:
    return Column(game, "gems", column)


def beats(game: str, column: str, lower: bool = False, random: bool = True) -> Either:
    """GEMS is ahead of both PSROs, or at least of the classical one; and in either case of random play."""
    mine, more = ours(game, column), ("random",) * random
    beside = " and random play" * random
    return Either(
        Compare(
            mine, Column(game, ("psro*", *more), column), lower=lower,
            what=f"{mine.words}, both PSROs{beside} beside it,",
        ),
        Compare(
            mine, Column(game, ("psro", *more), column), lower=lower,
            what=f"{mine.words}, classical PSRO{beside} beside it,",
        ),
        "against classical PSRO, whose responses start afresh; not, or not beyond noise, against PSRO whose responses "
        "start from the newest",
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
        note="A mean over both sides says little, since one side's gain is the other's loss: here each side plays "
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
            "less open than PSRO's and than that of random play, but not around the evader",
        ),
        note="The largest angle between pursuers as the evader sees them, mean over an episode, in degrees: 120 is a "
        "triangle around it, 180 and more leave a whole side open, 360 are all in one direction. Random play must be "
        "beaten, too.",
    ),
    Claim(
        key="tag-herding",
        quote="PSRO-trained adversaries often display a simpler herding behavior [...] a less coordinated clump",
        where="section 4.3; fig:comparison",
        paper="pictures",
        rule=beats("tag", "pursuer_spread", random=False),
        note="The distance of the pursuers from each other: a clump has a small one. Random play is not among the "
        "compared: pursuers who go nowhere are the furthest apart.",
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
        note="What random pursuers earn against the evader.",
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
        note="The share of landmarks with an agent on them.",
    ),
    Claim(
        key="spread-assignment",
        quote="distinct landmark assignments",
        where="appendix L",
        paper="pictures",
        rule=beats("spread", "distinct"),
        note="How often the agents are nearest to landmarks of their own, all different.",
    ),
    Claim(
        key="spread-collisions",
        quote="when two agents collide they separate and re-plan rather than dithering",
        where="appendix L",
        paper="pictures",
        rule=beats("spread", "collisions", lower=True, random=False),
        note="Random play is not among the compared: who goes for no landmark meets nobody there.",
    ),
    Claim(
        key="spread-psro-drifts",
        quote="[PSRO:] typically one-two agents hover near a target while another drifts away",
        where="appendix L",
        paper="pictures",
        rule=Either(
            Bound(Column("spread", "psro", "covered"), at_least=1 / 3, at_most=2 / 3),
            Bound(Column("spread", "psro, warm", "covered"), at_least=1 / 3, at_most=2 / 3),
            "of PSRO whose responses start from the newest; not of classical PSRO",
        ),
        note="Taken as: one or two of three landmarks are covered.",
    ),
)
