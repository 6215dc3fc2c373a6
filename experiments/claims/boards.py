"""Claims on Connect Four, Hanabi, Go and chess: clouds of policies, and how games end."""

from experiments.reporting.claims import Claim
from experiments.reporting.combining import All
from experiments.reporting.costs import Quickens
from experiments.reporting.quantities import Column, Picture
from experiments.reporting.rules import Bound, Compare

CLOUDS = "Silhouette of the players' clouds: 0 is one cloud, 1 is two distant points; the threshold here is 0.25."
SHARED = " One population plays both sides here, so the clouds differ only in the positions."
BEFORE = " Before training: the untrained generator at the final codes."
LINE = 0.25


def cloud(game: str, what: str, whose: str = "seed", arm: str = "gems") -> Picture:
    """Refers to a number of the picture `embeddings`, over all seeds of an arm, or `before` training."""
    label = what.replace("_", ", ") + (", before training" if whose == "before" else "")
    return Picture(game, "embeddings", (f"{arm}.{whose}", f".{what}"), f"{label}:")


def separated(game: str, what: str, at_least: float, arm: str = "gems") -> All:
    """Requires that clouds are separated, and more so than those of the untrained generator at the same codes."""
    after, before = cloud(game, what, arm=arm), cloud(game, what, "before", arm)
    learned = Compare(after, before, lower=False, what="the same, compared with that before training,")
    return All((Bound(after, at_least=at_least), learned))


def spread_out(game: str) -> Compare:
    return Compare(
        cloud(game, "codes_dimension"), cloud(game, "actions_dimension"), lower=False,
        what="the number of directions in which codes spread, compared with that of actions,",
    )  # fmt: skip


def chess(column: str, at: int | None = None) -> Column:
    return Column("chess", "gems*", column, at=at)


def many(column: str) -> Column:
    return Column("two_thousand", "gems", column, iterations=1000)


CLAIMS = (
    Claim(
        key="connect4-overlap",
        quote="the observed strong overlap between players",
        where="appendix J, fig:connect4_action_embeds",
        paper="pictures",
        rule=Bound(cloud("connect4", "actions_players"), at_most=LINE),
        note=CLOUDS + SHARED,
    ),
    Claim(
        key="connect4-codes",
        quote="the latent space remains more dispersed",
        where="appendix J, fig:connect4_latent_embeds",
        paper="pictures",
        rule=spread_out("connect4"),
    ),
    Claim(
        key="connect4-optimal",
        quote="GEMS has converged to the shared, symmetric geometry of optimal play",
        where="appendix J",
        paper="no numbers",
        rule=Bound(Column("connect4", "gems", "win_tactician"), at_least=0.9),
        note="Fraction of wins against a player who looks one ply ahead, from both seats. Little more than half is far "
        "from optimal play, in which the first player always wins.",
    ),
    Claim(
        key="hanabi-separate",
        quote="action-distribution embeddings for the two players occupy distinct, complementary regions",
        where="appendix K, fig:hanabi_action_embeds",
        paper="pictures",
        rule=separated("hanabi", "actions_players", LINE, "two populations"),
        note=CLOUDS + BEFORE,
    ),
    Claim(
        key="hanabi-codes",
        quote="the latent codes for both players are densely intermingled",
        where="appendix K, fig:hanabi_latent_embeds",
        paper="pictures",
        rule=Bound(cloud("hanabi", "codes_players", arm="two populations"), at_most=LINE),
        note="Measured on the arm with one population per player. The caption of the figure calls codes more dispersed "
        "than actions.",
    ),
    Claim(
        key="go-clusters",
        quote="embeddings clearly separate into two disjoint clusters with essentially no overlap",
        where="appendix O, fig:go_latent_and_action, left",
        paper="pictures",
        rule=All(
            (
                separated("go", "actions_two", 0.5),
                Compare(cloud("go", "actions_two"), cloud("go", "actions_one"), lower=False),
            )
        ),
        note="Silhouette of the best two clusters, whoever the players, and that of one normal cloud cut in two."
        + SHARED
        + BEFORE,
    ),
    Claim(
        key="go-codes",
        quote="latent-code embeddings remain broadly dispersed",
        where="appendix O, fig:go_latent_and_action, right",
        paper="pictures",
        rule=spread_out("go"),
    ),
    Claim(
        key="chess-seconds",
        quote="the per-iteration time steadily decreased from approximately 25 s to 9 s",
        where="appendix N, fig:chess-metrics",
        paper="25 s, then 9 s: 2.8 times",
        rule=Quickens("chess", "gems*", 25 / 9),
        note="An iteration here always plays the same number of moves, so the method does not make it faster. The "
        "differences come from the load of the machine, which was shared with other work.",
    ),
    Claim(
        key="chess-decisive",
        quote="most games resulted in draws. However [...] increasingly decisive outcomes",
        where="appendix N, tab:chess-iter",
        paper="by its table 10 % decisive in iterations 1 to 100, 71 % in 901 to 1,000",
        rule=Compare(chess("decisive"), chess("decisive", at=1), lower=False),
        note="The paper has one game per iteration; here it is the fraction of many games between the policies of one "
        "iteration.",
    ),
    Claim(
        key="chess-black",
        quote="Initially, black exhibits early dominance",
        where="appendix N, fig:chess-1-9",
        paper="by its table black won 6 and white 4 of the games 1 to 100, then 36 and 78 of 101 to 400",
        rule=Compare(chess("second_wins", at=20), chess("first_wins", at=20), lower=False),
        note="Fractions of the games between the policies of iteration 20 that black and white won.",
    ),
    Claim(
        key="chess-mates",
        quote="GEMS reliably reaches definitive checkmate configurations",
        where="fig:chess-9-9",
        paper="by its own table 29 % draws in iterations 901 to 1,000",
        rule=Bound(chess("decisive"), at_least=0.95),
    ),
    Claim(
        key="chess-centre",
        quote="GEMS agents demonstrate a preference for central occupation",
        where="fig:chess-1-9",
        paper="pictures",
        rule=Compare(chess("centre"), chess("centre", at=1), lower=False),
        note="Pieces on the four central squares, compared with the first iteration, in which play is random.",
    ),
    Claim(
        key="chess-2000",
        quote="the generator successfully maintains over 2,000 distinct policies without collapsing",
        where="questions and answers, on limitations; tab:gems_master_suite",
        paper="2,002 policies after 1,000 iterations",
        rule=All(
            (
                Bound(many("active_anchors"), at_least=2000, exact=True),
                Bound(
                    cloud("two_thousand", "codes_dimension"),
                    at_least=4.0,
                    what="the number of directions in which codes spread",
                ),
                Bound(
                    cloud("two_thousand", "actions_dimension_within"),
                    at_least=2.0,
                    what="the number of directions in which the play of one player's anchors spreads",
                ),
            )
        ),
        note="The paper counts anchors of chess; here it is Kuhn poker. The rule counts directions in which codes, and "
        "the action probabilities of one player's anchors, spread: policies on a line are two policies and their "
        "mixtures.",
    ),
)
