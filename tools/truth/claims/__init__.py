"""What the publications say, as claims that are decided by our runs: agree, differ, or cannot tell."""

from tools.truth.claims.causes import causes, known
from tools.truth.claims.claim import Claim, Expectation, claims
from tools.truth.claims.judge import Judgement, judge

__all__ = ["Claim", "Expectation", "Judgement", "causes", "claims", "judge", "known"]
