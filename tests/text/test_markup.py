"""The rule for inline markup, and formulas on one line."""

from __future__ import annotations

import re
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lxml import etree

from biosmith.text.citations import MARK, is_number_mark, remove_marks
from biosmith.text.markup import text_of, unescape
from biosmith.text.mathml import linearise
from biosmith.text.tex import tex_to_text


def flatten(inner: str) -> str:
    return text_of(etree.fromstring(f"<p>{inner}</p>"))


@pytest.mark.parametrize(
    ("markup", "text"),
    [
        # No mark where authors write the script next to its base.
        ("H<sub>2</sub>O", "H2O"),
        ("Ca<sup>2+</sup> influx", "Ca2+ influx"),
        ("30 kg/m<sup>2</sup>", "30 kg/m2"),
        ("10 μg L<sup>-1</sup>", "10 μg L-1"),
        ("IC<sub>50</sub>", "IC50"),
        ("PM<sub>2.5</sub>", "PM2.5"),
        ("C<sub>max</sub>", "Cmax"),
        ("p53<sup>-/-</sup> mice", "p53-/- mice"),
        ("CD4<sup>+</sup>CD8<sup>-</sup>", "CD4+CD8-"),
        ("<sup>18</sup>F-FDG", "18F-FDG"),
        ("[<sup>13</sup>C]glucose", "[13C]glucose"),
        ("the 1<sup>st</sup> day", "the 1st day"),
        ("BL<sub>R</sub>Ts", "BLRTs"),
        ("NH<sub>4</sub><sup>+</sup>", "NH4+"),
        # A mark where two numbers would meet.
        ("10<sup>6</sup> cells", "10^6 cells"),
        ("10<sup>-9</sup> M", "10^-9 M"),
        ("10<sup>−9</sup> M", "10^−9 M"),
        ("SO<sub>4</sub><sup>2-</sup>", "SO4^2-"),
        ("2<sub>10</sub>", "2_10"),
        ("(100 g)<sup>-1</sup>", "(100 g)^-1"),
        ("1-e<sup>-0.0341</sup>", "1-e^-0.0341"),
        ("m<sup>2</sup>3", "m2 3"),
        # A mark where two words would meet.
        ("P<sub>trend</sub>", "P_trend"),
        ("CD25<sup>high</sup>", "CD25^high"),
        ("x<sub>a b</sub>", "x_a b"),
        # A superscript after a full stop is a reference mark or a unit of its own.
        ("workplace.<sup>1</sup> They", "workplace.^1 They"),
        # Nothing stands before the script.
        ("<i>I</i> <sup>2</sup>: 97%", "I 2: 97%"),
    ],
)
def test_scripts_are_written_as_authors_do_and_numbers_and_words_never_run_together(
    markup: str, text: str
) -> None:
    assert flatten(markup) == text


@pytest.mark.parametrize(
    ("markup", "text"),
    [
        ("<b><i>Objective</i></b>: to", "Objective: to"),
        ("half<i>word</i>s", "halfwords"),
        ("<i>Gene</i> <b>name</b>", "Gene name"),
        ("a<!-- comment -->b<?pi ?>c", "abc"),
        ("one<break/>two", "one two"),
        ("<td>one</td><td>two</td>", "one two"),
        ("<taxon-name-part>Aus</taxon-name-part><taxon-name-part>bus</taxon-name-part>", "Aus bus"),
        ("see <ext-link>here</ext-link>.", "see here."),
        (" new\n   line\u2009and\u00a0space ", "new line and space"),
        ("picture <graphic/>.", "picture ."),
        ("", ""),
    ],
)
def test_inline_elements_are_text_and_others_stand_apart(markup: str, text: str) -> None:
    assert flatten(markup) == text


def test_entities_without_a_dtd_are_the_characters_of_html_and_unknown_ones_stay() -> None:
    parser = etree.XMLParser(resolve_entities=False, load_dtd=False, no_network=True)
    xml = '<!DOCTYPE p SYSTEM "x.dtd"><p>TGF-&beta;1 &amp; 5&nbsp;mg &nonsense; end</p>'
    assert text_of(etree.fromstring(xml, parser)) == "TGF-β1 & 5 mg &nonsense; end"


@pytest.mark.parametrize(
    ("escaped", "text"),
    [
        # PMID 31840442 has its whole abstract in escaped tags.
        ("<p>Full <italic>en-face</italic> images.</p>.", "Full en-face images."),
        ("<60,000/mm<PRE>3</PRE> and", "<60,000/mm3 and"),
        ("10<sup>6</sup>", "10^6"),
        ("<p>One.</p><p>Two.</p>", "One. Two."),
        ("line<br/>break", "line break"),
        ("T &lt; 5 &amp; &#945;-helix &alpha;", "T < 5 & α-helix α"),
        # Comparisons are not tags.
        ("if a<b and c>d", "if a<b and c>d"),
        ("p<0.05, q>0.1", "p<0.05, q>0.1"),
        ("x <i> y", "x <i> y"),
        ("R&D; AT&T", "R&D; AT&T"),
    ],
)
def test_markup_escaped_once_too_often_is_markup_and_comparisons_stay(escaped: str, text: str) -> None:
    assert unescape(escaped) == text
    paragraph = etree.Element("p")
    paragraph.text = escaped
    assert text_of(paragraph) == text


words = st.text(st.sampled_from("abcXYZ0123456789αµ-+.(),"), min_size=1, max_size=6)
spaces = st.sampled_from(["", " ", "  ", "\n", "\u2009"])
tags = st.sampled_from(["i", "b", "u", "sup", "sub", "italic", "sc"])


@st.composite
def fragments(draw: st.DrawFn, depth: int = 2) -> str:
    """Marked-up text as XML."""
    parts = []
    for _ in range(draw(st.integers(1, 4))):
        if depth and draw(st.booleans()):
            tag = draw(tags)
            parts.append(f"<{tag}>{draw(fragments(depth - 1))}</{tag}>")
        else:
            parts.append(draw(words))
        parts.append(draw(spaces))
    return "".join(parts)


@given(fragments())
def test_no_letter_or_digit_is_lost_and_words_apart_stay_apart(markup: str) -> None:
    source = "".join(etree.fromstring(f"<p>{markup}</p>").itertext())
    text = flatten(markup)
    assert re.sub(r"[\s^_]", "", text) == re.sub(r"\s", "", source)
    # Each word of the text lies within one word of the source: white space of the source is never taken away.
    joined = re.sub(r"[\^_]", "", text)
    position = 0
    for word in source.split():
        while joined[position : position + 1] == " ":
            position += 1
        for character in word:
            if joined[position] == " ":  # a space may be put in between two numbers, but only there
                assert joined[position - 1].isdigit() and joined[position + 1].isdigit()
                position += 1
            assert joined[position] == character
            position += 1
        assert joined[position : position + 1] in ("", " ")


@given(st.integers(0, 99), st.integers(0, 99), st.sampled_from(["sup", "sub"]))
def test_two_numbers_never_become_one(first: int, second: int, tag: str) -> None:
    assert re.findall(r"\d+", flatten(f"{first}<{tag}>{second}</{tag}>")) == [str(first), str(second)]
    assert re.findall(r"\d+", flatten(f"x<{tag}>{first}</{tag}>{second}")) == [str(first), str(second)]


@given(st.text(st.sampled_from("abpi<>/& ;=0.5supr\n"), max_size=60))
def test_unescaping_any_text_ends_and_gives_one_line(text: str) -> None:
    assert unescape(text) == " ".join(unescape(text).split())


def formula(inner: str) -> str:
    return linearise(etree.fromstring(f'<math xmlns="http://www.w3.org/1998/Math/MathML">{inner}</math>'))


@pytest.mark.parametrize(
    ("mathml", "text"),
    [
        ("<msup><mn>10</mn><mn>6</mn></msup>", "10^6"),
        ("<msup><mi>x</mi><mrow><mi>n</mi><mo>+</mo><mn>1</mn></mrow></msup>", "x^(n + 1)"),
        ("<msub><mi>x</mi><mi>i</mi></msub>", "x_i"),
        ("<msubsup><mi>σ</mi><mi>g</mi><mn>2</mn></msubsup>", "σ_g^2"),
        ("<msup><mi>SO</mi><mrow><mn>2</mn><mo>−</mo></mrow></msup>", "SO^2−"),
        ("<mfrac><mrow><mi>a</mi><mo>+</mo><mi>b</mi></mrow><mi>c</mi></mfrac>", "(a + b)/c"),
        ("<mi>p</mi><mo>&lt;</mo><mn>0.05</mn>", "p < 0.05"),
        ("<mo>-</mo><mn>5</mn><mo>-</mo><mi>x</mi>", "-5 - x"),
        ("<msqrt><mi>x</mi></msqrt>", "sqrt(x)"),
        ("<mi>log</mi><mi>x</mi>", "log x"),
        ("<mn>2</mn><mn>3</mn>", "2 3"),
        ("<mi>m</mi><mi>a</mi><mi>x</mi>", "max"),
        ("<mover><mi>V</mi><mo>.</mo></mover><msub><mi>O</mi><mn>2</mn></msub>", "VO2"),
        (
            "<munderover><mo>∑</mo><mrow><mi>i</mi><mo>=</mo><mn>1</mn></mrow><mi>n</mi></munderover><mi>i</mi>",
            "sum_(i = 1)^n i",
        ),
        ("<mmultiscripts><mi>F</mi><mprescripts/><none/><mn>18</mn></mmultiscripts>", "18F"),
        ("<mfenced><mi>a</mi><mi>b</mi></mfenced>", "(a, b)"),
        (
            "<mtable><mtr><mtd><mi>a</mi></mtd><mtd><mi>b</mi></mtd></mtr><mtr><mtd><mi>c</mi></mtd></mtr></mtable>",
            "a b; c",
        ),
        ("<semantics><mi>x</mi><annotation>\\tex</annotation></semantics>", "x"),
        ("<mi>x</mi>\n   <mo>=</mo>\n   <mi>y</mi>", "x = y"),
        ("", ""),
    ],
)
def test_mathml_is_written_on_one_line(mathml: str, text: str) -> None:
    assert formula(mathml) == text


symbols = st.builds(
    lambda tag, text: f"<{tag}>{text}</{tag}>",
    st.sampled_from(["mi", "mn", "mtext"]),
    st.sampled_from(["x", "12", "max", "n7"]),
)
layouts = st.recursive(
    symbols,
    lambda inner: st.builds(
        lambda tag, children: f"<{tag}>{''.join(children)}</{tag}>",
        st.sampled_from(
            ["mrow", "msup", "msub", "mfrac", "msqrt", "mfenced", "munderover", "mtable", "mroot", "mstyle"]
        ),
        st.lists(inner, min_size=1, max_size=3),
    ),
    max_leaves=8,
)


@given(layouts)
def test_no_letter_or_digit_of_a_formula_is_lost_even_if_it_is_ill_formed(mathml: str) -> None:
    # `sqrt` and `root` are written in letters, and a root's index comes first: so letters are counted.
    written = Counter(re.sub("sqrt|root", "", formula(mathml)))
    source = Counter(re.sub("<[^>]*>", "", mathml))
    assert {c: n for c, n in written.items() if c.isalnum()} == {
        c: n for c, n in source.items() if c.isalnum()
    }


@pytest.mark.parametrize(
    ("tex", "text"),
    [
        (
            r"\documentclass[12pt]{minimal}\usepackage{amsmath}\begin{document}$x_{i}^{G}$\end{document}",
            "x_i^G",
        ),
        (r"$\mathbb {R}^{m+n}$", "R^(m+n)"),
        (r"\frac{a+b}{c}", "(a+b)/c"),
        (r"\alpha \leq 10^{-6}", "α ≤ 10^-6"),
        (r"\sum_{i=1}^{n} \log x_i", "sum_(i=1)^n log x_i"),
        (r"\left\{ x \right\}", "{ x }"),
        (r"\sqrt{\frac{1}{n}}", "sqrt(1/n)"),
    ],
)
def test_tex_is_written_on_one_line_without_preamble(tex: str, text: str) -> None:
    assert tex_to_text(tex) == text


def test_of_alternatives_the_mathml_is_taken_and_nothing_twice() -> None:
    math = '<math xmlns="http://www.w3.org/1998/Math/MathML"><mi>x</mi></math>'
    tex = "<tex-math>$y$</tex-math>"
    for order in (tex + math, math + tex):
        assert (
            flatten(f"with <inline-formula><alternatives>{order}</alternatives></inline-formula> here")
            == "with x here"
        )
    assert flatten(f"with <alternatives><graphic/>{tex}</alternatives> here") == "with y here"


@pytest.mark.parametrize(
    ("text", "clean"),
    [
        (f"shown [{MARK},{MARK}].", "shown."),
        (f"shown [{MARK}–{MARK}, {MARK}] before", "shown before"),
        (f"shown{MARK}–{MARK}.", "shown."),
        (f"shown ({MARK}) and ({MARK} and {MARK}).", "shown and."),
        (f"(see {MARK}) next", "(see) next"),
        ("nothing [sic] to do (5)", "nothing [sic] to do (5)"),
    ],
)
def test_numeric_citation_marks_go_with_the_brackets_that_hold_nothing_else(text: str, clean: str) -> None:
    assert remove_marks(text) == clean


def test_years_and_names_are_not_numeric_marks() -> None:
    assert [is_number_mark(t) for t in ("12", "[3]", "4–6", "7a, 9", "2010", "Smith, 2010", "Fig. 1")] == [
        True, True, True, True, False, False, False,
    ]  # fmt: skip
