"""The publications' claims, which cwndlab's own runs decide: agree, differ, or cannot tell."""

from cwndlab.analysis.claims.causes import causes, known
from cwndlab.analysis.claims.claim import Claim, Expectation, claims
from cwndlab.analysis.claims.judge import Judgement, judge

__all__ = ["Claim", "Expectation", "Judgement", "causes", "claims", "judge", "known"]
