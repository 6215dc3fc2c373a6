"""Environments of PettingZoo's kinds, written like a user's own, that do one thing wrong at one step."""

import os
import signal
import time

import numpy as np
from gymnasium import spaces

FAULTS = ("raise", "hang", "shape", "mask", "nan", "kill", "leave", "reward", "endless", "no_seed", "sum")


class Coins:
    """Two agents show a coin each, `rounds` times; equal ones pay the first from the second. A parallel environment."""

    possible_agents = ("odd", "even")
    max_steps = 4
    return_bounds = (-4.0, 4.0)
    zero_sum = True

    def __init__(self, fault: str = "", at: int = 2, seconds: float = 1000.0):
        self.fault, self.at, self.seconds = fault, at, seconds

    def observation_space(self, agent):
        box = spaces.Box(0.0, 1.0, (3,), np.float32)
        return spaces.Dict({"observation": box, "action_mask": spaces.Box(0, 1, (2,), np.int8)})

    def action_space(self, agent):
        return spaces.Discrete(2)

    def reset(self, seed=None, options=None):
        self.agents, self.round = list(self.possible_agents), 0
        self.bias = np.random.default_rng(None if self.fault == "no_seed" else seed).random()
        return self._seen(), {agent: {} for agent in self.agents}

    def step(self, actions):
        self.round += 1
        now = self.round == self.at
        if now and self.fault == "raise":
            raise ValueError("the coin rolled off the table")
        if now and self.fault == "hang":
            time.sleep(self.seconds)
        if now and self.fault == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        if now and self.fault == "leave":
            os._exit(7)
        won = 1.0 if actions["odd"] == actions["even"] else -1.0
        if now and self.fault == "reward":
            won = float("nan")
        reward = {"odd": won, "even": won if self.fault == "sum" else -won}
        over = self.round == self.max_steps and self.fault != "endless"
        seen, ended = self._seen(), dict.fromkeys(self.possible_agents, over)
        if over:
            self.agents = []
        return seen, reward, ended, dict.fromkeys(self.possible_agents, False), {}

    def _seen(self):
        now = self.round == self.at
        seen = np.asarray([self.bias, self.round / 4, 1.0], np.float32)
        if now and self.fault == "shape":
            seen = seen[:2]
        if now and self.fault == "nan":
            seen = seen * np.nan
        mask = np.zeros(2, np.int8) if now and self.fault == "mask" else np.ones(2, np.int8)
        return {agent: {"observation": seen, "action_mask": mask} for agent in self.possible_agents}
