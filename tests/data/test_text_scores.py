"""Scores: one path, each number with its signature, unlike numbers never compared."""

from pathlib import Path

import pytest
import sacrebleu

from data.parallel import read_lines
from data.text_scores import moses_tokenizer, score

REFERENCES = [
    "Ein Mann mit rotem Hut sitzt im Park.",
    "Zwei Hunde spielen im Schnee, und ein Kind lacht.",
    "Eine Frau öffnet die Tür.",
]
HYPOTHESES = [
    "Ein Mann mit roter Mütze sitzt im Park.",
    "Zwei Hunde spielen im Gras, und ein Kind lacht.",
    "Eine frau öffnet die Tür.",
]


def test_each_score_names_its_protocol() -> None:
    scores = {item.metric: item for item in score(HYPOTHESES, REFERENCES, language="de")}
    assert list(scores) == ["bleu", "bleu_lowercase_tokenized", "chrf"]
    assert "case:mixed" in scores["bleu"].signature
    assert "tok:13a" in scores["bleu"].signature
    assert "case:lc" in scores["bleu_lowercase_tokenized"].signature
    assert "tok:sacremoses-" in scores["bleu_lowercase_tokenized"].signature
    assert "nc:6" in scores["chrf"].signature
    assert all("version:" in item.signature for item in scores.values())


def test_values_are_sacrebleus() -> None:
    scores = {item.metric: item.value for item in score(HYPOTHESES, REFERENCES, language="de")}
    assert scores["bleu"] == sacrebleu.corpus_bleu(HYPOTHESES, [REFERENCES]).score
    assert scores["chrf"] == sacrebleu.corpus_chrf(HYPOTHESES, [REFERENCES]).score
    moses, _ = moses_tokenizer("de")
    tokens = [[moses(line) for line in lines] for lines in (HYPOTHESES, REFERENCES)]
    by_hand = sacrebleu.corpus_bleu(tokens[0], [tokens[1]], tokenize="none", force=True).score
    assert scores["bleu_lowercase_tokenized"] == by_hand


def test_case_counts_in_one_bleu_only() -> None:
    lower = [line.lower() for line in REFERENCES]
    scores = {item.metric: item.value for item in score(lower, REFERENCES, language="de")}
    assert scores["bleu_lowercase_tokenized"] == pytest.approx(100)
    assert scores["bleu"] < 60


def test_subwords_are_refused() -> None:
    pieces = ["\u2581Ein \u2581Mann", *HYPOTHESES[1:]]
    with pytest.raises(ValueError, match="hypothesis 1 is still in subwords"):
        score(pieces, REFERENCES, language="de")


def test_different_counts_are_refused() -> None:
    with pytest.raises(ValueError, match="2 hypotheses for 3 references"):
        score(HYPOTHESES[:2], REFERENCES, language="de")
    with pytest.raises(ValueError, match="0 hypotheses for 0 references"):
        score([], [], language="de")


def test_an_empty_hypothesis_is_scored() -> None:
    scores = score(["", *HYPOTHESES[1:]], REFERENCES, language="de")
    assert all(0 < item.value < 100 for item in scores)


def test_moses_tokens_by_hand() -> None:
    moses, _ = moses_tokenizer("de")
    assert moses("Er sagt: „Ja, z.B. heute!“") == 'er sagt : " ja , z.b. heute ! "'


def test_moses_counts_the_tokens_that_the_multi30k_papers_count(multi30k_path: Path) -> None:
    """The data set's own documents: 12,103 German tokens in test_2016_flickr."""
    moses, _ = moses_tokenizer("de")
    lines = read_lines(multi30k_path / "test_2016_flickr.de.gz")
    assert sum(len(moses(line).split()) for line in lines) == 12_103
