"""The bootstrap over sentences is sacreBLEU's own, to the last digit."""

import random

import pytest
from sacrebleu.metrics import BLEU, CHRF
from sacrebleu.significance import PairedTest

from data.paired_bootstrap import paired_bootstrap
from data.text_scores import score, tokenized_lines

WORDS = "Der Hund die Katze läuft schläft, im auf Garten Dach . Ein Mann's Frau".split()


def sentences(n, *, seed):
    draw = random.Random(seed)
    return [" ".join(draw.choices(WORDS, k=draw.randint(5, 12))) for _ in range(n)]


def spoiled(lines, *, share, seed):
    draw = random.Random(seed)
    return [
        " ".join(word if draw.random() > share else draw.choice(WORDS) for word in line.split())
        for line in lines
    ]


REFERENCES = sentences(60, seed=0)
BASELINE = spoiled(REFERENCES, share=0.2, seed=1)
OUTPUTS = {
    "close": spoiled(REFERENCES, share=0.22, seed=2),
    "far": spoiled(REFERENCES, share=0.5, seed=3),
}


def own(metric, lines, references):
    systems = [(str(place), output) for place, output in enumerate(lines)]
    signatures, results = PairedTest(systems, {"x": metric}, [references], test_type="bs")()
    (name,) = signatures
    return signatures[name].format(), results[name]


@pytest.mark.parametrize("metric", ["bleu", "bleu_lowercase_tokenized", "chrf"])
def test_it_is_sacrebleus_own(metric):
    lines, references = [BASELINE, *OUTPUTS.values()], REFERENCES
    computed = {"bleu": BLEU(), "chrf": CHRF()}.get(metric, BLEU(tokenize="none", force=True))
    if metric == "bleu_lowercase_tokenized":
        lines = [tokenized_lines(output, "de")[0] for output in lines]
        references = tokenized_lines(references, "de")[0]
    signature, expected = own(computed, lines, references)
    first, found = paired_bootstrap(BASELINE, OUTPUTS, REFERENCES, metric=metric, language="de")
    for one, theirs in zip([first, *found.values()], expected, strict=True):
        assert (one.score, one.mean, one.half_width, one.p) == (
            *(theirs.score, theirs.mean, theirs.ci),
            theirs.p_value,
        )
        plain = {s.metric: s for s in score(BASELINE, REFERENCES, language="de")}[metric]
        parts = [part for part in one.signature.split("|") if not part.startswith(("bs", "seed"))]
        assert "|".join(parts) == plain.signature
    assert "bs:1000|seed:12345" in signature
    assert first.score == plain.value
    assert found["far"].p < 0.01 < found["close"].p


def test_the_same_output_is_no_difference():
    outputs = {"same": list(BASELINE)}
    _, found = paired_bootstrap(BASELINE, outputs, REFERENCES, metric="bleu", language="de")
    assert found["same"].p == 1.0


def test_what_cannot_be_scored_is_refused():
    with pytest.raises(ValueError, match="no bootstrap over sentences of loss; legal: bleu"):
        paired_bootstrap(BASELINE, OUTPUTS, REFERENCES, metric="loss", language="de")
    with pytest.raises(ValueError, match="59 hypotheses for 60 references"):
        paired_bootstrap(BASELINE, {"x": BASELINE[1:]}, REFERENCES, metric="bleu", language="de")
