"""Every check, in the order of their ids."""

from ablations.checks.attention_checks import ATTENTION_CHECKS, HEAD_CHECKS
from ablations.checks.block_checks import BLOCK_CHECKS
from ablations.checks.mask_checks import CACHE_CHECKS, MASK_CHECKS
from ablations.checks.position_checks import POSITION_CHECKS
from ablations.checks.sequence_checks import SEQUENCE_CHECKS

CHECKS = (
    *ATTENTION_CHECKS,
    *MASK_CHECKS,
    *HEAD_CHECKS,
    *POSITION_CHECKS,
    *BLOCK_CHECKS,
    *CACHE_CHECKS,
    *SEQUENCE_CHECKS,
)
