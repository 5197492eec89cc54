r"""Placeholders of programs' texts, such as ``%s``, ``{name}`` and ``%(count)d``, and the syntax of ICU messages.

Training, filters and translation share this module. A text is searched once for the patterns of all families, and at
each place the first family in the table that matches counts. All but ``%`` means the same in every text. For ``%``
there are dialects, since ``100 % sure`` is a directive (``% s``) in a C string but not in a sentence. No pattern
backtracks, so the search takes linear time.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from functools import lru_cache


@dataclass(frozen=True)
class Family:
    """Placeholders of one origin.

    Attributes:
        name: name of the family; its first part, up to a blank, is the name of the system that uses it.
        pattern: verbose regular expression without groups.
        examples: placeholders that it matches entirely.
    """

    name: str
    pattern: str
    examples: tuple[str, ...]


_CHARACTER = r"[!#-;=?-~\u00a1-\u2e7f]"  # of an address; others, as of Japanese, may follow it without a space
ADDRESS = rf"""(?<!\w)(?:[A-Za-z][A-Za-z+.-]{{1,15}}+://|www\.){_CHARACTER}*(?<![\s.,;:!?)\]}}'"*])
    |(?<![A-Za-z0-9_.+-])[A-Za-z0-9_.+-]++@[A-Za-z0-9-]++(?:\.[A-Za-z0-9-]++)++"""
_FAMILIES = (
    Family("address", ADDRESS, ("https://a.org/b?c=%s&d=1", "www.a.org", "a.b+c@d.org")),
    Family("weblate", r"\[X\d++X\]", ("[X5X]",)),
    Family("jinja", r"\{%[^{}]*+\}(?<=%\})|\{\#[^{}]*+\}(?<=\#\})", ("{% trans 'x' %}", "{# note #}")),
    Family(
        "mustache",
        r"\{\{(?:[^{}]|\{[^{}]*+\})*+\}\}|\{!![^{}]*+\}(?<=!!\})",
        ("{!! $a !!}", "{{ n }}", "{{{n}}}", "{{#if a}}", "{{n | date}}"),
    ),
    Family("erb", r"<%[^%<]*+%>", ("<%= name %>", "<% end %>")),
    Family("react", r"</?\d++\s*+/?>", ("<0>", "</0>", "<1/>")),
    Family("shell", r"[$\#@%]\{[^{}]*+\}", ("${n}", "#{n}", "%{count}")),
    Family("tex", r"\\[A-Za-z]++\{[^{}]*+\}|\^\{[^{}]*+\}|\{\\[^{}]*+\}", (r"\sqrt{x}", "^{2}", r"{\an8}")),
    Family(
        "brace",  # Python, .NET, Java, i18next, Fluent
        r"""\{\s*+[\w.$@\#\[\]'"-]*+\s*+(?:[!:](?:[^{}]|\{[\w.]*+\})*+|[,|][^{}]*+)?+\}""",
        ("{}", "{0}", "{name!r:<10}", "{0:#,##0}", "{x[0]}", "{y.z}", "{ $n }", "{0,number,integer}", "{a:>{b}}"),
    ),
    Family("webextension", r"(?<![\w$])\$[A-Za-z_]\w*+\$", ("$USER$",)),
    # Messages of i18next and Vue within others.
    Family(
        "nested",
        r"\$t\([^()]*+\)|@(?:\.\w++)?+:(?:\w++(?:\.\w++)*+|\([^()]*+\))",
        ("$t(a.b, {x})", "@:a.b", "@.lower:(c)"),
    ),
    Family("dollar", r"(?<![\w$])\$[A-Za-z_]\w*+(?!\$)", ("$name",)),
    Family("laravel", r"(?<![\w:/\\.)]):[A-Za-z_]\w*+:?+(?![\w/\\])", (":count", ":n", ":smile:")),
    Family("drupal", r"(?<![\w.@])@[A-Za-z_]\w*+(?!@)|(?<![\w!])![A-Za-z_]\w*+", ("@n", "!link")),
    Family("entity", r"&(?:\#\d{1,7}|\#[xX][\da-fA-F]{1,6}|[A-Za-z][A-Za-z0-9]{1,30}+);", ("&nbsp;", "&#160;")),
    Family("interval", r"[\[\]](?:-?\d++|-Inf),(?:\d++|\+?Inf|\*)[\[\]]", ("]1,Inf[", "[2,*]")),
    Family("icu", r"(?<![\w\#&])\#(?![\w\#{])", ("#",)),
)
_WIDTH = r"(?:\d++|\*(?:\d++\$)?+)?+(?:\.(?:\d++|\*(?:\d++\$)?+)?+)?+"
_SIZE = r"(?:hh?+|ll?+|I64|[qjztLvw](?=[A-Za-z]))?+"
# What is written together with a directive, as in %dx%d and %sKB; a word is not.
_UNIT = r"(?:x(?=%)|[kKMGTP]?i?[Bb](?!\w))?+"
_PERCENT = Family("percent", r"(?:(?<![\d.,])\d[\d.,]*+)?+%%", ("%%", "99.9%%"))
_PADDED = rf"(?:'\S(?=\d{{1,4}}+[b-gosuxEFGX])|[-+\#0' I])*+{_WIDTH}"  # with PHP's padding, as in %1$'x10s
_FREE = r"[-+\#0']*+(?:\d++|\*)?+(?:\.(?:\d++|\*)?+)?+"  # flags other than a blank, width and precision
# What `%` begins, by dialect; "any" is for texts of which nothing is known.
_DIALECTS = {
    "any": (
        _PERCENT,
        Family("apple", r"%\#@\w++@|%(?:\d++\$)?+@", ("%@", "%1$@", "%#@files@")),
        Family("inttypes", rf"%{_FREE}<PRI\w++>", ("%<PRIu64>", "%05<PRId32>")),
        Family("ruby", rf"%<\w++>{_FREE}[A-Za-z]", ("%<name>s", "%<n>05.2f")),
        Family("python", rf"%\([^()%]{{1,80}}+\){_FREE}[A-Za-z]", ("%(name)s", "%(n)05.2f", "%(a b)s")),
        # Also of Pascal and Go.
        Family(
            "numbered",
            rf"%(?:\d++\$|\d++:|[-+\#0]*+\[\d++\]){_FREE}{_SIZE}[A-Za-z]",
            ("%1$s", "%2$lld", "%1$.2f", "%0:s", "%[1]d"),
        ),
        Family("boost", r"%\|[\d$+.A-Za-z-]++\|", ("%|1$s|",)),
        Family("symfony", r"%[A-Za-z_][\w.]++%(?![\w%])|%\d++%", ("%minutes%", "%user.name%", "%1%")),
        Family("qt", r"(?<![\d%])%L?\d{1,2}+(?![\w%]|\.\d)", ("%1", "%L1", "%12")),
        # Without a digit before it: 100%sure. With further letters: %dx, %sKB, Drupal's %name. But 100 %ig is a word.
        Family(
            "printf",
            rf"(?<![\d%])%{_FREE}[A-Za-z](?!\w)|(?<![\d%])(?<!\d[ \u00a0\u202f])%{_FREE}[A-Za-z]\w++",
            ("%s", "%d", "%lld", "%zu", "%-10s", "%5.2f", "%.1f", "%*d", "%'d", "%c", "%sKB", "%n", "%Y", "%name"),
        ),
    ),
    "c": (
        _PERCENT,
        Family("apple", r"%\#@\w++@|%(?:\d++\$)?+@", ("%@", "%1$@")),
        Family("inttypes", rf"%[-+\#0' ]*+{_WIDTH}<PRI\w++>", ("%<PRIu64>",)),
        Family(
            "numbered",
            rf"%(?:\d++\$|\d++:){_PADDED}(?:[tT]|{_SIZE})[A-Za-z]{_UNIT}",
            ("%1$s", "%2$ld", "%1$*2$d", "%1$'x10s", "%0:s", "%1$tY"),
        ),
        Family(
            "printf",
            rf"%{_PADDED}(?:[tT][A-Z]|[jq](?![dius])|{_SIZE}[diouxXeEfFgGaAcCsSpnmbh]{_UNIT})",
            ("%s", "%d", "% d", "%lld", "%zu", "%-10s", "%5.2f", "%*d", "%.*s", "%'d", "%Lf", "%tY", "%j", "%'x10s"),
        ),
        Family("stray", "%", ("%",)),  # a lone one is a mistake in a C string
    ),
    "python": (
        _PERCENT,
        Family("python", rf"%\([^()]{{0,80}}+\)[-+\#0 ]*+{_WIDTH}{_SIZE}[A-Za-z]", ("%(name)s", "%(n) d")),
        Family("printf", rf"%[-+\#0 ]*+{_WIDTH}{_SIZE}[diouxXeEfFgGcrsa]{_UNIT}", ("%s", "%r", "% d", "%5.2f")),
        Family("stray", "%", ("%",)),
    ),
    "ruby": (
        _PERCENT,
        Family("ruby", rf"%[-+\#0 ]*+<\w++>[-+\#0 ]*+{_WIDTH}[A-Za-z]", ("%<name>s", "%<n>05.2f")),
        Family("numbered", rf"%\d++\$[-+\#0 ]*+{_WIDTH}[A-Za-z]", ("%1$s",)),
        Family("printf", rf"%[-+\#0 ]*+{_WIDTH}[bBdiouxXeEfgGaAcps]", ("%s", "%-5d")),
    ),
    "lisp": (
        Family(
            "lisp",
            r"~(?:[-+]?+\d++|'.|[vV\#])?+(?:,(?:[-+]?+\d++|'.|[vV\#])?+)*+[:@]*+[A-Za-z%&|~*?^()\[\];{}<>/]",
            ("~a", "~3d", "~,2f", "~:d", "~%", "~{", "~}", "~5,'0d"),
        ),
    ),
    "qt": (Family("qt", r"%L?(?:\d{1,2}+|n)", ("%1", "%L1", "%n", "%Ln")),),
}
ANY, NONE = "any", "none"
DIALECTS = (ANY, NONE, *list(_DIALECTS)[1:])
# gettext's names of formats, without "-format".
_OF_FORMAT = {
    "c": [
        "c", "objc", "gcc-internal", "gfc-internal", "php", "perl", "perl-brace", "awk", "lua", "java-printf", "tcl",
        "object-pascal", "javascript", "librep", "elisp", "modula2", "d",
    ],
    "python": ["python"],
    "ruby": ["ruby"],
    "lisp": ["lisp", "scheme"],
    "qt": ["qt", "qt-plural", "kde", "kde-kuit", "ycp", "smalltalk"],
}  # fmt: skip
# Each placeholder has one of these, and few sentences do.
_SIGN = re.compile(r"[][%{}$#@\\^<:!&~]|www\.")
# Arguments that are counted: their order is that of the source.
_COUNTED = ("printf", "apple", "inttypes", "lisp")
# Families that occur in texts of all kinds only as placeholders; @name and :name are also words.
OF_CORPORA = frozenset(
    ("apple", "inttypes", "ruby", "python", "numbered", "qt", "printf", "mustache", "shell", "brace", "dollar")
)


def families(dialect: str = ANY) -> tuple[Family, ...]:
    """Return the families of a dialect, in the order in which they are tried."""
    if dialect == NONE:
        return ()
    return (*_FAMILIES[:7], *_DIALECTS[dialect], *_FAMILIES[7:])


def dialect_of(flags: Iterable[str]) -> str:
    """Return the dialect that flags of a gettext message (``c-format``, ``qt-format``) say; ``any`` if none does."""
    names = {flag.strip().removesuffix("-format") for flag in flags if flag.strip().endswith("-format")}
    return next((dialect for dialect, own in _OF_FORMAT.items() if names.intersection(own)), ANY)


@lru_cache
def pattern_of(dialect: str = ANY) -> re.Pattern[str]:
    """Return the pattern of all placeholders of a syntax. The name of the last group is that of the family."""
    own = [f"(?P<{family.name}>{family.pattern})" for family in families(dialect)]
    return re.compile("|".join(own) or r"(?!)", re.VERBOSE)


def parts(text: str, dialect: str = ANY, only: Collection[str] | None = None) -> list[str]:
    """Split a text: placeholders have odd indices, the text between them even ones.

    Args:
        only: names of the families to split at (default: all of the dialect).
    """
    found, end = [], 0
    for each in pattern_of(dialect).finditer(text) if _SIGN.search(text) else ():
        if only is None or each.lastgroup in only:
            found += [text[end : each.start()], each[0]]
            end = each.end()
    return [*found, text[end:]]


def count(text: str, dialect: str = ANY, only: Collection[str] | None = None) -> Counter[str]:
    """Count the placeholders of a text."""
    return Counter(parts(text, dialect, only)[1::2])


@lru_cache
def _arguments_of(dialect: str) -> re.Pattern[str]:
    counted = [
        f"(?P<{family.name}>{family.pattern})" if family.name in _COUNTED else family.pattern
        for family in _DIALECTS.get(dialect, ())
    ]
    return re.compile("|".join((*counted, r"(?P<brace>\{[ ]*+\})")), re.VERBOSE)


def arguments(text: str, dialect: str = ANY) -> list[str]:
    """Return the placeholders whose order matters, since they have no number or name, in order.

    Those inside of addresses count too.
    """
    found = _arguments_of(dialect).finditer(text) if dialect != NONE and _SIGN.search(text) else ()
    return [each[0] for each in found if each.lastgroup and "$" not in each[0]]


@lru_cache(8192)  # a translation is checked several times
def keeps(source: str, target: str, dialect: str = ANY) -> bool:
    """Return whether a translation has exactly the placeholders of its source, and unnumbered ones in order."""
    return count(source, dialect) == count(target, dialect) and arguments(source, dialect) == arguments(target, dialect)


_HEAD = re.compile(r"\{\s*+[\w.$-]++\s*+,\s*+(?:plural|selectordinal|select)\s*+,\s*+(?:offset:\d++\s*+)?+")
_SELECTOR = re.compile(r"\s*+(?:=\d++|[\w-]++)\s*+\{")
_END = re.compile(r"\s*+\}")
_BRACE = re.compile(r"[{}]")


def message_syntax(text: str) -> list[tuple[int, int]]:
    """Return the spans of the syntax of ICU messages with ``plural`` or ``select``; the rest is text of branches.

    The list is empty if the text has no such message, or an invalid one.
    """
    spans: list[tuple[int, int]] = []
    inside: list[str] = []  # open braces, outermost first: message, branch, or other
    place = 0
    while found := _BRACE.search(text, place):
        start, place = found.start(), found.end()
        if found[0] == "{":
            head = _HEAD.match(text, start)
            inside.append("message" if head else "other")
            if head is None:
                continue
            place = head.end()
        elif not inside or inside.pop() == "other":
            continue
        while inside and inside[-1] == "message":  # a selector and its branch, or the end of the message
            selector, end = _SELECTOR.match(text, place), _END.match(text, place)
            if selector:
                inside.append("branch")
            elif end:
                inside.pop()
            else:
                return []
            place = (selector or end).end()  # type: ignore[union-attr]
        spans.append((start, place))
    return [] if inside else spans
