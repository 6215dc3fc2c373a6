"""Claims on Deceptive Messages, Public Goods and joint play."""

from experiments.reporting.claims import Claim
from experiments.reporting.combining import All, Either
from experiments.reporting.quantities import Column
from experiments.reporting.rules import Bound, Compare, Same, Steadier

GENERAL_SUM = ("psro", "alpha_psro")
FAMILY = ("*psro", "*double_oracle")
ZERO, BEST = 0.01, 0.79  # a Sender's reward that counts as zero, a Receiver's that counts as the largest possible
ZERO_SUM = (
    "Double Oracle's linear program and A-PSRO require zero-sum games, which this one is not; they play its zero-sum "
    "form."
)
PRINTED = "with the preset `tuned`: the paper prints no settings for this game, and those of Kuhn poker do not reach it"
DECEPTIVE = (
    Claim(
        key="receiver-0.8",
        quote="GEMS Receiver's average reward quickly converges to approximately 0.8",
        where="section 4.1, fig:deceptive_panel_jointreward_mem_cumtime",
        paper="0.8",
        rule=Either(
            Bound(Column("deceptive", "paper", "value_receiver", iterations=6), at_least=BEST),
            Bound(Column("deceptive", "tuned", "value_receiver", iterations=6), at_least=BEST),
            PRINTED,
        ),
    ),
    Claim(
        key="sender-0",
        quote="The average reward for the GEMS Sender rapidly converges to zero",
        where="section 4.1, fig:deceptive_panel_jointreward_mem_cumtime",
        paper="0",
        rule=Either(
            Bound(Column("deceptive", "paper", "value_sender", iterations=6), at_most=ZERO),
            Bound(Column("deceptive", "tuned", "value_sender", iterations=6), at_most=ZERO),
            PRINTED,
        ),
    ),
    Claim(
        key="variants-sender",
        quote="all PSRO-based baselines maintain a positive sender reward throughout training",
        where="section 4.1",
        paper="above 0 after 6 iterations",
        rule=Bound(Column("deceptive", GENERAL_SUM, "value_sender", iterations=6), at_least=ZERO),
        note="A Sender never earns less than 0, so positive means more than what counts as zero for GEMS above. The "
        "row is "
        "about PSRO and Alpha-PSRO; in the zero-sum form of the other two, 0 has no special meaning. " + ZERO_SUM,
    ),
    Claim(
        key="variants-receiver",
        quote="receivers trained with PSRO variants improve but plateau at a significantly lower [...] level",
        where="section 4.1",
        paper="below 0.8 after 6 iterations",
        rule=Either(
            Bound(Column("deceptive", FAMILY, "value_receiver", iterations=6), at_most=0.75),
            Bound(Column("deceptive", FAMILY, "value_receiver", iterations=6), at_most=BEST),
            "lower, but by less than 0.05",
        ),
        note="A Receiver never earns more than 0.8, so lower means less than what counts as 0.8 for GEMS above. "
        + ZERO_SUM,
    ),
    Claim(
        key="deceptive-zero-sum",
        quote="This creates a zero-sum conflict",
        where="section 4.1; tab:gems_master_suite",
        paper="zero-sum",
        rule=Same(
            Column("deceptive", "tuned", ("value_sender", "value_receiver"), at=1),
            Column("deceptive", "tuned", ("value_sender", "value_receiver"), at=6),
            within=0.01,
        ),
        note="In a zero-sum or constant-sum game, the sum of both values is constant.",
    ),
    Claim(
        key="trust-region",
        quote="a trust region and prevents catastrophic forgetting",
        where="questions and answers, on forgetting; section 3.5",
        paper="no numbers",
        rule=Compare(
            Column("ablate_deceptive", "paper", "forgetting_kl", iterations=6),
            Column("ablate_deceptive", "beta_kl 0.0", "forgetting_kl", iterations=6),
            what="the change of old anchors' policies (KL) with beta_KL = 0.05",
        ),
        note="Read as: with the printed trust region old anchors move less than without.",
    ),
    Claim(
        key="codes-16",
        quote="GEMS scales robustly to high-dimensional latent spaces (d_z=16)",
        where="tab:gems_master_suite (Deceptive Mean: 8, 16)",
        paper="no numbers: the table of this ablation is empty",
        rule=Compare(
            Column("ablate_deceptive", "latent_dim 16", "nash_conv", iterations=6),
            Column("ablate_deceptive", "paper", "nash_conv", iterations=6),
            slack=0.05,
        ),
        note="Read as: 16 dimensions are worse than 8 by at most 0.05.",
    ),
    Claim(
        key="smoothness",
        quote="This smoothness aids in stabilizing the optimization process",
        where="questions and answers, on the Jacobian penalty",
        paper="no numbers",
        rule=Steadier(
            Column("ablate_deceptive", "paper", "nash_conv", iterations=6),
            Column("ablate_deceptive", "lambda_jacobian 0.0", "nash_conv", iterations=6),
        ),
        note="Read as: seeds differ less with the penalty (1e-4) than without.",
    ),
)
PUBLIC_GOODS = (
    Claim(
        key="free-riding",
        quote="When r/n < c < r, each individual gains by defecting (free-riding)",
        where="appendix Q",
        paper="a social dilemma",
        rule=Bound(Column("public_goods", "dilemma tuned", "coop", iterations=10), at_most=0.05),
        note="The remaining cooperation with r = 3, c = 1, n = 5.",
    ),
    Claim(
        key="kl-welfare",
        quote="moderate beta_KL in ABR-TR improves welfare",
        where="appendix Q",
        paper="no numbers: the table of this ablation is empty",
        rule=Compare(
            Column("ablate_public_goods", "paper", "welfare", iterations=10),
            Column("ablate_public_goods", "beta_kl 0.0", "welfare", iterations=10),
            lower=False,
            what="welfare with beta_KL = 0.05",
        ),
        note="In the dilemma nobody cooperates in equilibrium: more welfare means more distance from it.",
    ),
    Claim(
        key="harmonic-stable",
        quote="harmonic eta_t with modest EMA stabilize meta-updates without slowing progress unduly",
        where="appendix Q",
        paper="no numbers",
        rule=Steadier(
            Column("ablate_public_goods", "schedule harmonic", "nash_conv", iterations=10),
            Column("ablate_public_goods", "paper", "nash_conv", iterations=10),
        ),
        note="Read as: seeds differ less with the harmonic schedule than with the constant one.",
    ),
    Claim(
        key="period-population",
        quote="small increases in oracle_period [...] control population growth while preserving exploration",
        where="appendix Q",
        paper="no numbers",
        rule=All(
            (
                Compare(
                    Column("ablate_public_goods", "oracle_period 2", "active_anchors", at=10),
                    Column("ablate_public_goods", "paper", "active_anchors", at=10),
                    exact=True,
                ),
                Compare(
                    Column("ablate_public_goods", "oracle_period 2", "nash_conv", iterations=10),
                    Column("ablate_public_goods", "paper", "nash_conv", iterations=10),
                    slack=0.05,
                ),
            )
        ),
        note="Fewer calls of the oracle make fewer anchors by construction. Preserved exploration is read as: NashConv "
        "is worse by at most 0.05.",
    ),
    Claim(
        key="cce",
        quote="drives the time-averaged joint strategy toward an epsilon-CCE",
        where="section 3.7, eq:n_player_cce_omwu",
        paper="epsilon goes to 0",
        rule=Bound(Column("cce", "*", "cce_gap", iterations=200), at_most=0.02),
        note="For the policies at the time they were played. By anchor ids, under the final generator, play is far "
        "from a CCE.",
    ),
)
