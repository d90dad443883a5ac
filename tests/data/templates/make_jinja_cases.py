#!/usr/bin/env python3
"""Writes jinja_cases.json: small templates with what jinja2 makes of them.  Needs jinja2 (tests do not).

The environment is that of the transformers library (trim_blocks, lstrip_blocks, loop controls, its tojson, raise_exception, the tag
`generation`), with lists and objects mutable and the tag `do`, which our interpreter allows.
"""
import itertools
import json
import pathlib

import jinja2
import jinja2.ext
import jinja2.sandbox


class Generation(jinja2.ext.Extension):
    tags = {"generation"}

    def parse(self, parser):
        lineno = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return jinja2.nodes.CallBlock(self.call_method("_run"), [], [], body).set_lineno(lineno)

    def _run(self, caller):
        return caller()


def raise_exception(message):
    raise jinja2.exceptions.TemplateError(message)


def tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
    return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def environment():
    env = jinja2.sandbox.SandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[Generation, jinja2.ext.loopcontrols, jinja2.ext.do]
    )
    env.filters["tojson"] = tojson
    env.globals["raise_exception"] = raise_exception
    return env


CONTEXTS = {
    "empty": {},
    "values": {
        "t": True, "f": False, "n": None, "i": 7, "z": 0, "neg": -3, "x": 2.5, "big": 12345678901234567890, "s": "Hello World",
        "e": "", "sp": "  padded \n", "u": "h\u00e9llo w\u00f6rld \u4f60\u597d \U0001F600", "q": "it's \"quoted\"\\\n", "l": [3, 1, 2], "el": [],
        "ls": ["b", "a", "C"], "nest": [[1, 2], [3, [4]]], "d": {"b": 1, "a": [True, None], "items": "I", "C": {"k": "v"}}, "ed": {},
        "csv": "a,b,,c", "lines": "one\ntwo\r\nthree\n\nfive", "html": "<a href=\"x\">&'</a>", "nbsp": "\u00a0\u3000x\u2003",
        "pairs": [["a", 1], ["b", 2]], "mixed": [0, None, [], {}, "x", 1.0, False],
    },
    "chat": {
        "messages": [
            {"role": "system", "content": " Be brief. "}, {"role": "user", "content": "Hi"},
            {"role": "assistant", "content": "<think>\nhm\n</think>\n\nYes", "tool_calls": [
                {"type": "function", "function": {"name": "f", "arguments": {"x": 1, "y": [1.5, None, "\u00e9"]}}}]},
            {"role": "tool", "content": "42", "name": "f"}, {"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "image"}]},
        ],
        "users": [{"name": "Bob", "age": 30, "tag": {"k": "z"}}, {"name": "alice", "age": 25, "tag": {"k": "y"}},
                  {"name": "Carl", "age": 30, "active": True}],
        "tools": [{"type": "function", "function": {"name": "w", "parameters": {"type": "object", "properties": {"a": {"type": "string"}},
                                                                              "required": []}}}],
        "add_generation_prompt": True, "bos_token": "<s>", "eos_token": "</s>",
    },
}

CASES = {"empty": [], "values": [], "chat": []}
E, V, C = CASES["empty"], CASES["values"], CASES["chat"]

# --- white space
signs = ["", "-", "+"]
for a, b in itertools.product(signs, signs):
    E.append("x \n  {%%%s if true %s%%}  \n y \n {%%%s endif %s%%} \n z" % (a, b, a, b))
    E.append("x \n\n  {#%s c %s#}  \n\n y" % (a, b))
    E.append("a {%%%s raw %s%%} \n {{ x }} {%% %%} \n {%%%s endraw %s%%} \n b" % (a, b if b != "+" else "", a, b))
for a, b in itertools.product(["", "-"], ["", "-"]):
    E.append("x \n  {{%s 1 %s}}  \n y" % (a, b))
    E.append("{%% for i in [1,2] %%}\n  {{%s i %s}}\n{%% endfor %%}\n" % (a, b))
E += [
    "a\n", "a\n\n", "a\r\nb\r\n", "a\rb\r", "\n", "", "\n\n", "  {% if true %}\n  a\n  {% endif %}\n", "{{ 'a' }}\n{{ 'b' }}\n",
    "x {% if true %} y {% endif %} z", "x\n\t {%- if true -%} \n\n y\n {%- endif -%}\n z", "{# a #}{# b #}\n{# c\n d #}\n e",
    " {% set x = 1 %}  {{ x }}", "\u00a0{%- if true %}a{% endif %}", "a\u2028 {% if true %}b{% endif %}", "{%if true%}a{%endif%}", "{{'a'}}{{\"b\"}}",
    "{#-#}x", "a {#- c -#} b", "a {#-#} b", "a {%- raw -%} b {%- endraw -%} c", "{% raw %}{{ {% {# #} %} }}{% endraw %}", "{% raw %}\nx\n{% endraw %}\ny",
    "{% if true %}\n\n\na{% endif %}", "a{% if true %}\r\nb{% endif %}", "{{ '}}' }}", "{{ '%}' }}{% if '%}' == '%}' %}y{% endif %}", "{{ {'a': {'b': 1}}['a']['b'] }}",
    "{{ {'a': {}} }}", "{ {", "{", "a { b } c", "{{ 1 }}{", "%}", "}}", "#}", "{ % if %}", "{%+ if true +%}\n a {% endif %}", "  {%+ if true %}a{% endif %}",
    "\t{% if true %}\ta\t{% endif %}\t\n b", "{{ 1 -}}\n\n {{- 2 }}", "{% if true -%}\n\n a {%- endif %}\n\nb", "  a {% set x = 1 %}\n b",
    "\n  {%- set x = 1 %}\n  {%- if x %}\n    {{- x }}\n  {%- endif %}\n", "{% for x in 'ab' -%}\n  {{ x }}\n{%- endfor %}\nend",
    "{%- if true %}\n  line\n  {%- endif %}\n  tail", "{# {{ x }} {% y %} #}z", "{% if true %}{# c #}\nq{% endif %}", "a {#+ c +#} b\n  {#+ d +#}\n c",
]

# --- literals, escapes, numbers
E += [
    r"{{ 'a\nb\tc\\d\'e\"f\x41\u00e9\U0001F600\101\q' }}", r'{{ "it\'s" }}', "{{ 'a' 'b' \"c\" }}", "{{ 'a\nb' }}", "{{ 'line\\\ncontinued' }}", "{{ '\u00e9\u4f60' }}",
    r"{{ '\b\f\v\a'|tojson }}", r"{{ '\0'|tojson }}", r"{{ '\x4' }}", r"{{ '\u12' }}",
    "{{ 1 }} {{ 1.0 }} {{ 1.5e3 }} {{ 1e5 }} {{ 1E-7 }} {{ 0x1F }} {{ 0b101 }} {{ 0o17 }} {{ 1_000 }} {{ 1_0.5_0 }} {{ 00 }}",
    "{{ 1e16 }} {{ 1e15 }} {{ 123456789012345678.0 }} {{ 0.1 + 0.2 }} {{ 1e-4 }} {{ 1e-5 }} {{ 1e22 }} {{ 1e100 }} {{ 5e-324 }} {{ 1/3 }} {{ 100.0 }} {{ 1e300*1e10 }}",
    "{{ -1e300*1e10 }} {{ 2.0**0.5 }} {{ 1.0e0 }} {{ 0.00012345 }} {{ 123456.789e3 }} {{ -0.0 }}", "{{ true }} {{ True }} {{ false }} {{ False }} {{ none }} {{ None }}",
    "{{ [1, 'a', None, true, 1.5, [2], (3,), {'k': 'v'}] }}", "{{ (1, 2) }} {{ () }} {{ (1,) }} {{ 1, 2 }}", "{{ {'a': 1, 2: 'b', None: 3, (1, 2): 4} }}", "{{ {} }} {{ [] }}",
    "{{ ['it\\'s', \"q\\\"\", 'both\\'\"', 'n\\n', 'tab\\t', '\\x00', '\\x7f', '\u00e9', '\\u200b', '\\xa0', 'back\\\\'] }}", "{{ [1,] }} {{ {'a':1,} }}", "{{ 1 }}",
    "{{ [[]] }} {{ [{}] }} {{ [()] }}", "{{ 'a' if true }}|{{ 'a' if false }}|{{ 'a' if false else 'b' if false else 'c' }}", "{{ (1 if true else 2) + 3 }}",
    "{{ 9223372036854775807 + 1 }} {{ 18446744073709551616 * 2 }} {{ -9223372036854775808 - 1 }}", "{{ 1 if 0 else 2 if 0 else 3 }}", "{{ {'a': 1, 'a': 2} }} {{ {1: 'a', 1.0: 'b', true: 'c'} }}",
]

# --- operators
nums = ["7", "-7", "2", "-2", "2.5", "-2.5", "0", "true"]
for a, b in itertools.product(nums, nums):
    E.append("{{ %s + %s }} {{ %s - %s }} {{ %s * %s }} {{ %s < %s }} {{ %s == %s }}" % ((a, b) * 5))
    E.append("{{ %s / %s }} {{ %s // %s }} {{ %s %% %s }}" % ((a, b) * 3))
for a, b in itertools.product(["2", "-2", "2.5", "0", "1"], ["3", "-1", "0", "0.5", "-2.0"]):
    if (a, b) != ("-2", "0.5"):  # complex
        E.append("{{ (%s) ** (%s) }}" % (a, b))
E += [
    "{{ 2 ** 3 ** 2 }} {{ -2 ** 2 }} {{ 2 ** -1 }} {{ -2|abs }} {{ 2 * 3 + 4 * 5 }} {{ 2 + 3 ~ 4 + 5 }} {{ 1 ~ 2 * 3 }} {{ 10 - 2 - 3 }} {{ 100 / 10 / 2 }}",
    "{{ 'a' + 'b' }} {{ 'a' ~ 1 ~ none ~ true ~ 1.0 ~ [1] }} {{ 'ab' * 3 }} {{ 3 * 'ab' }} {{ 'ab' * -1 }} {{ [1] + [2] }} {{ [1] * 2 }} {{ (1,) + (2,) }} {{ (1,) * 2 }}",
    "{{ 'a' + 1 }}", "{{ 1 + 'a' }}", "{{ [1] + (2,) }}", "{{ none + 1 }}", "{{ {} + {} }}", "{{ 1 / 0 }}", "{{ 1 // 0 }}", "{{ 1 % 0 }}", "{{ 1.0 / 0 }}", "{{ 0 ** -1 }}", "{{ -'a' }}", "{{ +1 }} {{ +true }} {{ -true }} {{ - 1.5 }}",
    "{{ 'a' - 'b' }}", "{{ [1] - [1] }}", "{{ 'a' * 'b' }}", "{{ 'a' * 1.5 }}", "{{ 1 < 2 < 3 }} {{ 1 < 3 < 2 }} {{ 3 > 2 >= 2 != 1 }} {{ 1 == 1.0 }} {{ 1 == true }} {{ '1' == 1 }} {{ 1 != '1' }}",
    "{{ 'a' < 'b' }} {{ 'a' < 'B' }} {{ [1, 2] < [1, 3] }} {{ [1] < [1, 0] }} {{ (1, 2) >= (1, 2) }} {{ 'é' > 'z' }} {{ '\U0001F600' > '\uffee' }}", "{{ 'a' < 1 }}", "{{ none < 1 }}", "{{ [1] < (1,) }}", "{{ {} < {} }}",
    "{{ none == none }} {{ [] == [] }} {{ {} == {} }} {{ {'a': 1, 'b': 2} == {'b': 2, 'a': 1} }} {{ [1, [2]] == [1, [2]] }} {{ (1,) == [1] }} {{ none == false }}",
    "{{ true and 1 }} {{ 0 and 1 }} {{ 0 or 'x' }} {{ '' or none }} {{ not 1 }} {{ not '' }} {{ not not 1 }} {{ 1 and 2 or 3 }} {{ 0 or 0 and 1 }} {{ not 1 == 2 }} {{ not true in [false] }}",
    "{{ 'a' in 'abc' }} {{ 'd' not in 'abc' }} {{ '' in '' }} {{ 1 in [1, 2] }} {{ 1.0 in [1] }} {{ 'a' in {'a': 1} }} {{ 1 in {1: 2} }} {{ 1 in (1,) }} {{ none in [none] }} {{ [1] in [[1]] }} {{ 3 in range(5) }} {{ 7 in range(5) }}",
    "{{ 1 in 'abc' }}", "{{ 1 in none }}", "{{ 1 in 5 }}", "{{ [] in {} }}", "{{ not 'a' in 'b' }} {{ ('a' in 'b') == false }} {{ 1 in [1] == true }}", "{{ 1 + 1 in [2] }} {{ 'a' ~ 'b' in 'cab' }} {{ 1 in [1] and 2 in [2] }}",
    "{{ '%s and %s' % ('a', 1) }} {{ '%d%%' % 5 }} {{ '%05.2f|%-5s|%5s|%+d|%x|%X|%o|%e|%g' % (3.14159, 'ab', 'cd', 3, 255, 255, 8, 12345.678, 0.0001) }}", "{{ '%s' % none }} {{ '%r' % 'a' }} {{ '%s' % [1] }} {{ '%(a)s-%(b)03d' % {'a': 'x', 'b': 7} }} {{ '%c%c' % ('x', 65) }}",
    "{{ '%s' % (1, 2) }}", "{{ '%s %s' % 'a' }}", "{{ '%d' % 'a' }}", "{{ 'a' % 1 }}", "{{ '%z' % 1 }}", "{{ '%.3s|%.10s|%5.1s|' % ('abcdef', 'abc', 'xyz') }} {{ '%*d' % (5, 42) }} {{ '%i' % 3.9 }} {{ '%5d|%-5d|%05d' % (1, 2, -3) }} {{ '%#x %#o' % (255, 8) }}",
    "{{ '%.0f %.1f %.2f' % (0.5, 0.25, 2.675) }} {{ '% d' % 5 }} {{ '%.3d' % 7 }}", "{{ 5 % 3 * 2 }} {{ -5 // 2 * 2 }} {{ 7 // 2.0 }} {{ -7 % 3 }} {{ 7 % -3 }} {{ -7.5 % 2 }}", "{{ 1 is defined and 2 is number }}", "{{ not x is defined }}",
    "{{ a.b.c }}", "{{ a }}|{{ a is defined }}|{{ a|default('d') }}|{{ a ~ 'x' }}|{{ not a }}|{{ a == b }}|{{ a == none }}|{{ a|length }}|{{ a|list }}", "{{ a + 1 }}", "{{ a.b }}", "{{ a['b'] }}", "{{ a() }}", "{{ a < 1 }}", "{{ -a }}", "{{ a|int }}", "{{ a|upper }}|{{ a|trim }}|{{ a|join }}|{{ a|string }}", "{{ a|tojson }}", "{{ [a] }}", "{{ [a]|tojson }}",
    "{{ 'x' in a }} {{ a in [1] }} {{ a in [b] }}", "{{ a in 'x' }}", "{% for x in a %}{{ x }}{% else %}none{% endfor %}", "{{ a is sequence }} {{ a is iterable }} {{ a is mapping }} {{ a is string }} {{ a is none }} {{ a is callable }}", "{{ a[0] }}", "{{ a[1:] }}", "{{ a|first }}|{{ a|last }}|{{ a|reverse|list }}|{{ a|items|list }}|{{ a|map('upper')|list }}|{{ a|sum }}",
    "{{ none.foo }}|{{ (5).foo }}|{{ 'a'.foo }}|{{ [].foo }}", "{{ none.foo.bar }}", "{{ none[0] }}", "{{ 5[0] }}", "{{ none() }}", "{{ 'a'() }}", "{{ [1]() }}",
]

# --- subscripts, slices, methods
V += [
    "{{ l[0] }} {{ l[-1] }} {{ l[5] }} {{ l['a'] }} {{ l.0 }} {{ nest.1.1.0 }} {{ nest[1][1] }} {{ s[0] }} {{ s[-1] }} {{ s[99] }} {{ u[6] }} {{ u[12] }} {{ u[-1] }} {{ d.b }} {{ d['b'] }} {{ d.zzz }} {{ d['zzz'] }} {{ d[1] }} {{ l[true] }} {{ l[1.0] }}",
    "{{ d['items'] }} {{ d.items is callable }} {{ d.items()|list }} {{ d.C.k }} {{ d['C']['k'] }} {{ d.get('b') }} {{ d.get('zz') }} {{ d.get('zz', 5) }} {{ d.keys()|list }} {{ d.values()|list }} {{ d.keys() }} {{ d.values() }} {{ d.items() }}",
    "{{ d[l] }} {{ d[none] }}", "{{ s.upper is callable }} {{ s['upper'] is callable }} {{ s.upper() }} {{ s['upper']() }}", "{{ d.a.0 }} {{ d.a[1] }} {{ d['a'][0] }}", "{{ l.append is callable }}",
    "{{ x.is_integer() }} {{ i.bit_length() }}",
]
for obj in ["l", "s", "u", "nest", "(1, 2, 3, 4)", "range(6)"]:
    V.append(" ".join("{{ %s[%s] }}" % (obj, k) for k in ["1:", ":1", "-2:", ":-1", "::2", "::-1", "1:2", "2:1", ":", "::", "-100:100", "5:0:-2", "-1:0:-1", "100:", "none:2"]))
V += ["{{ l[::0] }}", "{{ l['a':] }}|", "{{ d[1:] }}|", "{{ n[1:] }}|", "{{ i[1:] }}|", "{{ l[1:][0] }} {{ l[:-1][::-1] }} {{ (l + l)[1:-1:2] }}", "{{ l[i - 6] }} {{ l[(0)] }} {{ d['b' ~ ''] }}", "{{ l[0, 1] }}|", "{{ d.b.c }}|{{ d.b.c.e }}"]
for call in ["strip()", "lstrip()", "rstrip()", "strip('p ')", "lstrip(' p')", "rstrip('\\n d')", "strip(none)", "split()", "split(' ')", "split('d')", "split(none, 1)", "split('d', 1)", "split(maxsplit=1)", "rsplit('d', 1)", "rsplit(none, 1)",
             "split('')", "upper()", "lower()", "title()", "capitalize()", "swapcase()", "replace('d', 'XX')", "replace('d', 'X', 1)", "replace('', '-')", "startswith('  p')", "startswith(('a', ' '))", "endswith('\\n')", "endswith(('x', 'y'))", "find('d')",
             "find('zz')", "rfind('d')", "index('d')", "index('zz')", "count('d')", "count('')", "find('d', 5)", "find('d', 2, 4)", "startswith('p', 2)", "splitlines()", "splitlines(true)", "isspace()", "isalpha()", "isdigit()", "isupper()", "islower()", "center(20, '*')",
             "ljust(15, '.')", "rjust(15)", "zfill(15)", "partition('d')", "rpartition('d')", "partition('zz')", "rpartition('zz')", "removeprefix('  ')", "removesuffix('\\n')", "join(['a', 'b'])", "join('xyz')", "join([1])", "expandtabs(4)", "format(1)", "isascii()", "casefold()",
             "startswith(1)", "strip(1)", "nothing()", "upper(1)", "replace('a')", "split(',', 'x')"]:
    V.append("[{{ sp.%s }}]" % call)
V += [
    "{{ s.split('o') }} {{ csv.split(',') }} {{ csv.rsplit(',', 1) }} {{ csv.split(',', 2) }} {{ e.split() }} {{ e.split(',') }} {{ ' a  b '.split() }} {{ ' a  b c '.split(none, 1) }} {{ ' a b  c '.rsplit(none, 1) }} {{ 'a\u3000b\u00a0c'.split() }}",
    "{{ lines.splitlines() }} {{ lines.splitlines(true) }} {{ e.splitlines() }} {{ '\\n'.splitlines() }} {{ 'a\\x0bb\\x0cc\\x1cd\\x85e\\u2028f'.splitlines() }}", "{{ u.upper() }} {{ u.title() }} {{ u.capitalize() }} {{ u.split() }} {{ u.find('w') }} {{ u.replace('l', 'L') }} {{ u.center(20) }}|",
    "{{ '\u00df\u0149\ufb01 \u0130\u0131 \u01c6 \u03a3\u03a3'.upper() }} {{ '\u00c4\u0130 \u01c4 \u039f\u03a3 \u03a3'.lower() }} {{ '\u00dfa \u01c6b \ufb02x \u10d0'.title() }} {{ '\u01c6X'.capitalize() }} {{ '\u0416\u0436'.swapcase() }}", "[{{ nbsp.strip() }}][{{ nbsp|trim }}][{{ '\\x1c\\x1f\\x85 a\\u200b '.strip() }}]",
    "{{ '123'.isdigit() }} {{ '\u0663'.isdigit() }} {{ '\u00b2'.isdigit() }} {{ '\u00b2'.isdecimal() }} {{ '\u00bd'.isnumeric() }} {{ ''.isdigit() }} {{ 'a1'.isalnum() }} {{ 'a b'.isalnum() }} {{ '\u4f60'.isalpha() }} {{ 'Ab Cd'.istitle() }} {{ 'AB'.istitle() }} {{ 'a1'.islower() }} {{ '1'.isupper() }}",
    "{{ 'abc'.center(6) }}|{{ 'abc'.center(7) }}|{{ 'ab'.center(5) }}|{{ 'ab'.center(6, '-') }}|{{ '-5'.zfill(5) }}|{{ '+'.zfill(3) }}|{{ '5'.zfill(1) }}|{{ 'abc'.ljust(2) }}", "{{ 'a-b-c'.partition('-') }} {{ 'a-b-c'.rpartition('-') }}", "{{ 'x'.join(d) }} {{ ', '.join(ls) }} {{ ''.join([]) }}",
    "{{ '{} {}'.format('a', 1) }} {{ '{0}{1}{0}'.format('a', 'b') }} {{ '{x}-{y}'.format(x=1, y='b') }} {{ '{{}}{}'.format(1) }} {{ '{:>5}|{:<5}|{:^5}|{:*^7}'.format(1, 2, 3, 'x') }} {{ '{:.2f} {:05d} {:+} {:,} {:x} {:#x} {:%} {:e} {:g}'.format(3.14159, 42, 5, 1234567, 255, 255, 0.5, 12345.678, 0.1) }}",
    "{{ '{!r} {!s}'.format('a', 'b') }} {{ '{0[0]} {1.b}'.format(l, d) }} {{ '{:{}}'.format('a', 5) }}| {{ '{0:{1}}'.format('a', 3) }}| {{ '{:.3}'.format('abcdef') }} {{ '{:.3}'.format(3.14159) }} {{ '{:5}|{:5}'.format('a', 1) }} {{ '{:010.3f}'.format(-3.14159) }} {{ '{:_}'.format(1234567) }} {{ '{:b} {:o} {:c}'.format(5, 8, 65) }} {{ '{:.1%}'.format(0.256) }}",
    "{{ '{}'.format() }}", "{{ '{a}'.format(1) }}", "{{ '{'.format(1) }}", "{{ '}'.format(1) }}", "{{ '{:d}'.format('a') }}", "{{ '{:5}'.format(none) }}", "{{ '{:s}'.format(1) }}", "{{ '{}'.format(none) }} {{ '{}'.format(true) }} {{ '{:5}|{:d}'.format(true, true) }} {{ '{:5}|'.format(1.0) }} {{ '{:,.2f}'.format(1234567.891) }} {{ '{:.0f}'.format(2.5) }} {{ '{: }'.format(3) }}",
]
E += [
    "{% set l = [1] %}{% do l.append(2) %}{{ l }}{% set _ = l.append([3]) %}{{ l }}{{ l.append(4) }}{{ l }}", "{% set l = [3, 1, 2] %}{{ l.pop() }}{{ l.pop(0) }}{{ l }}{{ l.insert(0, 'x') }}{{ l }}{{ l.extend([7, 8]) }}{{ l }}{{ l.index(7) }}{{ l.count(8) }}{{ l.remove(7) }}{{ l }}{{ l.reverse() }}{{ l }}{{ l.copy() }}{{ l.clear() }}{{ l }}",
    "{% set l = [3, 1, 2] %}{{ l.sort() }}{{ l }}{{ l.sort(reverse=true) }}{{ l }}", "{{ [].pop() }}", "{{ [1].index(2) }}", "{{ [1].remove(2) }}", "{% set d = {'a': 1} %}{{ d.update({'b': 2}) }}{{ d.update(c=3) }}{{ d }}{{ d.pop('a') }}{{ d.pop('zz', 0) }}{{ d }}{{ d.setdefault('b', 9) }}{{ d.setdefault('e', 9) }}{{ d }}{{ d.copy() }}{{ d.clear() }}{{ d }}",
    "{{ {}.pop('a') }}", "{% set a = [1] %}{% set b = a %}{% do b.append(2) %}{{ a }}", "{{ (1, 2, 1).count(1) }} {{ (1, 2).index(2) }}", "{{ {'a': 1}.items() }} {{ {'a': 1}.keys() }} {{ {}.values() }}", "{% set l = [1, 2] %}{% for x in l %}{{ x }}{% if x < 5 %}{% do l.append(x + 2) %}{% endif %}{% endfor %}{{ l }}",
    "{% set d = {} %}{% for i in range(20) %}{% do d.update({i: i * i}) %}{% endfor %}{{ d }}{{ d.pop(3) }}{{ d[19] }}{{ d.get(3) }}{{ 4.0 in d }}", "{{ dict(a=1, b=2) }} {{ dict({'a': 1}, b=2) }} {{ dict([('a', 1), ['b', 2]]) }} {{ dict() }}", "{{ dict(1) }}", "{% set d = {'a': 1} %}{% for k in d %}{% do d.update({k ~ 'x': 1}) %}{% endfor %}",
]

# --- statements
E += [
    "{% if 1 %}a{% elif 2 %}b{% else %}c{% endif %}", "{% if 0 %}a{% elif 2 %}b{% else %}c{% endif %}", "{% if 0 %}a{% elif '' %}b{% else %}c{% endif %}", "{% if 0 %}a{% endif %}", "{% if 0 %}a{% elif [] %}b{% elif {} %}c{% elif none %}d{% elif 0.0 %}e{% elif () %}f{% elif range(0) %}g{% else %}h{% endif %}",
    "{% if 1: %}a{% endif %}", "{% for i in [1, 2, 3] %}{{ i }}{% if not loop.last %}, {% endif %}{% endfor %}",
    "{% for x in 'abc' %}{{ loop.index }}{{ loop.index0 }}{{ loop.revindex }}{{ loop.revindex0 }}{{ loop.first }}{{ loop.last }}{{ loop.length }}{{ loop.previtem }}{{ loop.nextitem }}{{ loop.depth }}{{ loop.depth0 }}{{ loop.cycle('o', 'e') }}{{ loop.changed(x) }} {% endfor %}",
    "{% for x in [] %}a{% else %}b{% endfor %}", "{% for x in [1] %}a{% else %}b{% endfor %}", "{% for k, v in {'a': 1, 'b': 2}.items() %}{{ k }}={{ v }};{% endfor %}", "{% for k, v in {'a': 1}|items %}{{ k }}={{ v }};{% endfor %}", "{% for k in {'a': 1, 'b': 2} %}{{ k }}{% endfor %}", "{% for a, (b, c) in [(1, (2, 3))] %}{{ a }}{{ b }}{{ c }}{% endfor %}", "{% for (a, b) in [(1, 2)] %}{{ a }}{{ b }}{% endfor %}",
    "{% for a, b in [(1, 2, 3)] %}{% endfor %}", "{% for a, b in [(1,)] %}{% endfor %}", "{% for a, b in [1] %}{% endfor %}", "{% for a, b in ['xy'] %}{{ a }}-{{ b }}{% endfor %}", "{% for x in 5 %}{% endfor %}", "{% for x in none %}{% endfor %}", "{% for x in range(3) %}{{ x }}{% endfor %} {{ range(3) }} {{ range(1, 3) }} {{ range(5, 0, -2)|list }} {{ range(0) |list }} {{ range(3)|length }} {{ range(10)[2] }} {{ range(10)[-1] }}",
    "{{ range(1, 2, 0) }}", "{{ range('a') }}", "{{ range(1.5) }}", "{% for x in range(10) if x % 2 %}{{ x }}{{ loop.index }}{{ loop.last }}{{ loop.length }} {% endfor %}", "{% for x in range(10) if x > 20 %}{{ x }}{% else %}none{% endfor %}", "{% for x in range(10) %}{% if x == 2 %}{% continue %}{% endif %}{% if x == 5 %}{% break %}{% endif %}{{ x }}{% endfor %}", "{% for x in [1] %}{% break %}{% else %}e{% endfor %}",
    "{% for x in [1, 2] %}{% for y in [3, 4] %}{{ x }}{{ y }}{{ loop.index }}{% if y == 3 %}{% continue %}{% endif %}!{% endfor %}{{ loop.index }};{% endfor %}", "{% for x in [1, 2] recursive %}{{ x }}{{ loop.depth }}{% if x == 1 %}[{{ loop([8, 9]) }}]{% endif %}{% endfor %}", "{% for n in [{'v': 1, 'c': [{'v': 2, 'c': []}]}] recursive %}{{ n.v }}({{ loop(n.c) }}){% endfor %}", "{% for x in [1] %}{{ loop([2]) }}{% endfor %}",
    "{% set x = 1 %}{% for i in [1, 2] %}{% set x = x + i %}{{ x }}{% endfor %}{{ x }}", "{% set x = 1 %}{% if true %}{% set x = 2 %}{% endif %}{{ x }}", "{% for i in [1, 2] %}{{ x }}{% set x = i %}{{ x }}{% endfor %}{{ x }}", "{% set ns = namespace(a=1, b='x') %}{% for i in [1, 2] %}{% set ns.a = ns.a + i %}{% endfor %}{{ ns.a }}{{ ns.b }}{{ ns.c }}{{ ns['a'] }}", "{% set ns = namespace({'a': 1}, b=2) %}{{ ns.a }}{{ ns.b }}", "{% set ns = namespace() %}{% set ns.x = [1] %}{% do ns.x.append(2) %}{{ ns.x }}{{ ns is mapping }}{{ ns is iterable }}",
    "{% set d = {} %}{% set d.x = 1 %}", "{% set zz.x = 1 %}", "{% set a, b = 1, 2 %}{{ a }}{{ b }}", "{% set a, b = [3, 4] %}{{ a }}{{ b }}", "{% set (a, b) = 'xy' %}{{ a }}{{ b }}", "{% set a = 1, 2 %}{{ a }}", "{% set a, b = 1 %}", "{% set ns = namespace(a=1) %}{% set ns.a, b = 5, 6 %}{{ ns.a }}{{ b }}", "{% set x %}a{{ 1 }}b{% endset %}{{ x }}{{ x is string }}", "{% set x | upper %}abc{% endset %}{{ x }}", "{% set x | replace('a', 'b') | upper %}abc{% endset %}{{ x }}", "{% set ns = namespace() %}{% set ns.x %}hi{% endset %}{{ ns.x }}", "{% set x %}{% set y = 1 %}{{ y }}{% endset %}{{ x }}{{ y }}",
    "{% macro f(a, b=2, c='x') %}{{ a }}{{ b }}{{ c }}{% endmacro %}{{ f(1) }} {{ f(1, 3) }} {{ f(1, c=5) }} {{ f(b=1, a=0) }} {{ f() }} {{ f(*[1, 2]) }} {{ f(**{'a': 1, 'c': 2}) }} {{ f(1, *[2], **{'c': 3}) }}", "{% macro f(a) %}{% endmacro %}{{ f(1, 2) }}", "{% macro f(a) %}{% endmacro %}{{ f(b=2) }}", "{% macro f(a) %}{% endmacro %}{{ f(1, a=2) }}", "{% macro f(a) %}{{ a is defined }}{% endmacro %}{{ f() }}{{ f(1) }}",
    "{% macro f() %}{{ varargs }}{{ kwargs }}{% endmacro %}{{ f(1, 2, x=3) }}", "{% macro f(a) %}{{ a }}{{ varargs|join(',') }}{% endmacro %}{{ f(1, 2, 3) }}", "{% macro f() %}[{{ caller() }}]{% endmacro %}{% call f() %}in{% endcall %}", "{% macro f() %}{{ caller(1, 2) }}{% endmacro %}{% call(a, b) f() %}{{ a }}-{{ b }}{% endcall %}", "{% macro f() %}x{% endmacro %}{% call f() %}y{% endcall %}", "{% macro f() %}{{ caller() }}{% endmacro %}{{ f() }}", "{% macro f() %}{% if caller %}c{% else %}n{% endif %}{% endmacro %}{{ f() }}{% call f() %}{% endcall %}",
    "{% macro f(n) %}{{ n }}{% if n > 0 %}{{ f(n - 1) }}{% endif %}{% endmacro %}{{ f(5) }}", "{% macro f() %}{{ x }}{% endmacro %}{% set x = 1 %}{{ f() }}{% set x = 2 %}{{ f() }}", "{% macro f() %}{% set x = 5 %}{{ x }}{% endmacro %}{% set x = 1 %}{{ f() }}{{ x }}", "{% macro f() %}a{% endmacro %}{{ f is callable }}{{ f.name }}{{ f.arguments }}", "{% macro f(x) %}  {{ x }}\n{% endmacro %}[{{ f(1) }}][{{ f(2)|trim }}]", "{% macro f(a, b=a) %}{{ b }}{% endmacro %}{{ f(3) }}", "{% macro f(a=1, b) %}{% endmacro %}",
    "{% macro outer() %}{% macro inner(x) %}<{{ x }}>{% endmacro %}{{ inner(1) }}{% endmacro %}{{ outer() }}", "{% if true %}{% macro f() %}m{% endmacro %}{% endif %}{{ f() }}", "{% for i in [1, 2] %}{% macro f() %}{{ i }}{% endmacro %}{{ f() }}{% endfor %}", "{% with a = 1, b = 2 %}{{ a }}{{ b }}{% endwith %}{{ a }}", "{% set a = 1 %}{% with a = 2, b = a %}{{ a }}{{ b }}{% endwith %}", "{% with %}{% set x = 1 %}{{ x }}{% endwith %}{{ x }}", "{% filter upper %}abc{{ 'd' }}{% endfilter %}", "{% filter replace('a', 'b')|upper %}abc{% endfilter %}", "{% generation %}abc{% endgeneration %}", "{%- generation -%} abc {%- endgeneration %} x", "{% for x in [1] %}{% generation %}{{ x }}{% endgeneration %}{% endfor %}",
    "{% print 1 %}", "{% do 1 + 1 %}x", "{{ raise_exception('no') }}", "{% if false %}{{ raise_exception('no') }}{% endif %}ok", "{% set j = joiner(', ') %}{% for x in [1, 2, 3] %}{{ j() }}{{ x }}{% endfor %}", "{% set c = cycler('a', 'b') %}{{ c.next() }}{{ c.next() }}{{ c.next() }}{{ c.current }}{{ c.reset() }}{{ c.current }}",
    "{% for x in [1] %}{% endfor %}{{ x }}", "{% for x in [1,2,3] %}{{ loop.previtem|default('-') }}{{ loop.nextitem|default('-') }}{% endfor %}", "{% for x in [1,2,3] %}{{ loop.nextitem is defined }}{{ loop.previtem is defined }}{% endfor %}", "{% for x in [1, 2, 2, 3] %}{{ loop.changed(x) }}{% endfor %}", "{% for x in [1, 2]|map('string') %}{{ x }}{{ loop.length }}{{ loop.revindex }}{% endfor %}", "{% for x in 'abcd'|list|batch(2) %}{{ x }}{{ loop.last }}{% endfor %}",
    "{% set ns = namespace(found=false) %}{% for x in [1, 2, 3, 4] if not ns.found %}{{ x }}{% if x == 2 %}{% set ns.found = true %}{% endif %}{% endfor %}", "{% for x in [1, 2] %}{{ loop.index ~ '/' ~ loop.length }}{% endfor %}", "{% for i in range(3) %}{% for j in range(i) %}{{ loop.index0 }}{% else %}e{% endfor %}{% endfor %}",
    "{% for i in range(3) %}{% set y = i %}{% endfor %}{{ y }}", "{% set x = 'a' if true else 'b' %}{{ x }}", "{% for x in ([1, 2] if false else [3]) %}{{ x }}{% endfor %}", "{% for x in [1] + [2] %}{{ x }}{% endfor %}", "{% for x in [1, 2, 3][:2] %}{{ x }}{% endfor %}", "{% for x in 1, 2 %}{{ x }}{% endfor %}", "{% for x in [1] %}\n  {{ x }}\n{% endfor %}\n", "{% set g = [1, 2]|map('string') %}{% for x in g %}{{ x }}{% endfor %}{% for x in g %}{{ x }}{% endfor %}{{ g|list }}",
    "{% if [1]|select('odd') %}t{% endif %}{% if []|select('odd') %}t{% endif %}{% if []|map('upper') %}t{% endif %}{% if []|list %}t{% else %}f{% endif %}", "{{ 'a' is string and 'b' }}", "{% if x is not defined or x is none %}a{% endif %}", "{% if not (1 == 2) %}a{% endif %}", "{% if(1) %}a{% endif %}", "{% set x=1 %}{{x}}", "{{- 'a' -}}", "{{ 'a'\n|\nupper }}", "{% set\nx\n=\n1\n%}{{ x }}", "{% else %}", "{% endif %}", "{% if %}{% endif %}", "{% for %}{% endfor %}", "{% foo %}", "{{ }}", "{{ 1 2 }}", "{{ a b }}", "{{ ( }}", "{{ ) }}", "{{ [1 }}", "{{ {1} }}", "{{ 1 + }}", "{{ | }}", "{{ 'a'| }}", "{{ 'a'|1 }}", "{{ . }}", "{{ a. }}", "{{ 'a }}", "{{ ! }}", "{{ a ? b : c }}", "{{ a && b }}", "{% if a = b %}{% endif %}", "{% set x %}", "{% macro f %}{% endmacro %}", "{% call f %}{% endcall %}", "{{ f(a=1, 2) }}", "{{ f(1,) }}", "{{ range(3,)|list }}", "{# unclosed", "{% raw %}unclosed", "{% if true %}a", "{{ 'a' if }}", "{{ x is }}", "{{ x is not }}", "{{ 1 is number is string }}", "{% set true = 1 %}", "{% set 'a' = 1 %}", "{% for x in %}{% endfor %}", "{{ f(*a, *b) }}", "{{ f(**a, b) }}",
]

# --- filters and tests
V += [
    "[{{ sp|trim }}][{{ s|trim('Hd') }}][{{ n|trim }}][{{ i|trim }}][{{ sp|trim(chars=' ') }}]", "{{ s|length }} {{ u|length }} {{ l|count }} {{ d|length }} {{ e|length }}", "{{ i|length }}", "{{ n|length }}", "{{ s|upper }} {{ u|upper }} {{ i|upper }} {{ n|upper }} {{ s|lower }} {{ s|capitalize }} {{ 'foo bar-baz (qux) it\\'s'|title }} {{ 'fOO  bar'|title }} {{ e|title }}|{{ e|capitalize }}|",
    "{{ s|replace('o', '0') }} {{ s|replace('o', '0', 1) }} {{ i|replace(7, 8) }} {{ s|replace('', '-') }} {{ s|replace('l', '') }}", "{{ ls|join }} {{ ls|join(', ') }} {{ mixed|join('|') }} {{ s|join('-') }} {{ pairs|join(',', attribute=0) }} {{ d|join('/') }} {{ l|join(n) }}", "{{ i|join }}", "{{ s|list }} {{ d|list }} {{ l|list }}", "{{ i|list }}", "{{ html|escape }} {{ html|e }} {{ html|safe }} {{ html|safe|escape }} {{ html|escape|escape }} {{ html|forceescape }} {{ html|e|string }}", "{{ html|safe + '<b>' }} {{ '<b>' + html|safe }} {{ (html|safe) ~ '<b>' }} {{ ('<b>'|safe).upper() + '<' }} {{ ['<'|safe] }} {{ ('<'|safe) * 2 + '<' }} {{ ('a<b'|safe)[1:] + '<' }}",
    "{{ i|string }} {{ n|string }} {{ t|string }} {{ x|string }} {{ l|string }} {{ d|string }}", "{{ '42'|int }} {{ '42.7'|int }} {{ 'x'|int }} {{ 'x'|int(5) }} {{ 3.9|int }} {{ -3.9|int }} {{ t|int }} {{ n|int }} {{ n|int(9) }} {{ '0x1F'|int(0, 16) }} {{ 'ff'|int(base=16) }} {{ ' 12 '|int }} {{ '1_000'|int }} {{ ''|int }} {{ l|int }} {{ '-5'|int }} {{ '+5'|int }} {{ '1e3'|int }} {{ '0b11'|int(0, 2) }} {{ 'inf'|int }} {{ 'nan'|int(3) }}", "{{ '1.5'|float }} {{ 'x'|float }} {{ 'x'|float(2.5) }} {{ i|float }} {{ n|float }} {{ '1e3'|float }} {{ ' 2 '|float }} {{ 'inf'|float }} {{ '-inf'|float }} {{ 'nan'|float }} {{ '1_0.0'|float }} {{ '.5'|float }} {{ '5.'|float }}",
    "{{ neg|abs }} {{ -2.5|abs }} {{ t|abs }}", "{{ s|abs }}", "{{ 42.55|round }} {{ 42.55|round(1) }} {{ 42.55|round(1, 'floor') }} {{ 42.51|round(1, 'ceil') }} {{ 2.5|round }} {{ 3.5|round }} {{ -2.5|round }} {{ 7|round }} {{ 1234|round(-2) }} {{ 1250|round(-2) }} {{ 1350|round(-2) }} {{ 1234.5|round(-2) }} {{ 2.675|round(2) }} {{ 0.5|round }} {{ 1.005|round(2) }} {{ 7|round(0, 'ceil') }} {{ 1e20|round }}", "{{ s|round }}", "{{ 1.5|round(1, 'up') }}", "{{ zz|default('d') }} {{ zz|d('d') }} {{ n|default('d') }} {{ e|default('d') }} {{ e|default('d', true) }} {{ n|default('d', boolean=true) }} {{ z|default(1, true) }} {{ zz|default }}| {{ d.nope|default('x') }} {{ d.nope.deeper|default('x') }}",
    "{{ l|first }} {{ l|last }} {{ el|first }}|{{ el|last }}| {{ s|first }} {{ s|last }} {{ d|first }} {{ d|last }} {{ u|last }} {{ range(3)|last }}", "{{ l|map('string')|first }}", "{{ l|map('string')|last }}", "{{ l|reverse|list }} {{ s|reverse }} {{ u|reverse }} {{ d|reverse|list }} {{ range(3)|reverse|list }}", "{{ i|reverse }}", "{{ d|items|list }} {{ ed|items|list }}", "{{ l|items|list }}", "{{ d|dictsort }} {{ d|dictsort(true) }} {{ {'a': 2, 'B': 1}|dictsort(by='value') }} {{ {'a': 2, 'B': 1}|dictsort(reverse=true) }} {{ {'a': 2, 'B': 1}|dictsort(false, 'value', true) }}", "{{ {'a': 2, 1: 1}|dictsort }}", "{{ l|sort }} {{ l|sort(reverse=true) }} {{ ls|sort }} {{ ls|sort(case_sensitive=true) }} {{ pairs|sort(attribute=1, reverse=true) }} {{ s|sort }} {{ d|sort }} {{ ls|sort(true) }}", "{{ mixed|sort }}", "{{ [1, 1.0, true, 'A', 'a', 'b', none, none]|unique|list }} {{ ['A', 'a']|unique(true)|list }} {{ 'hello'|unique|join }}", "{{ [[1]]|unique|list }}",
    "{{ l|sum }} {{ l|sum(start=10) }} {{ el|sum }} {{ [1.5, 2]|sum }} {{ [[1], [2]]|sum(start=[]) }} {{ pairs|sum(attribute=1) }}", "{{ ls|sum }}", "{{ l|min }} {{ l|max }} {{ ls|min }} {{ ls|max }} {{ ls|max(case_sensitive=true) }} {{ el|min }}| {{ pairs|max(attribute=1) }} {{ s|max }}", "{{ mixed|max }}", "{{ l|batch(2)|list }} {{ l|batch(2, 'x')|list }} {{ s|batch(4)|list }} {{ l|slice(2)|list }} {{ l|slice(2, 'x')|list }} {{ range(7)|slice(3)|list }}", "{{ ls|map('upper')|list }} {{ ls|map('upper')|join }} {{ pairs|map(attribute=0)|list }} {{ pairs|map(attribute='1')|list }} {{ pairs|map(attribute=5, default='-')|list }} {{ ls|map('replace', 'a', 'z')|list }} {{ l|map('default')|list }} {{ el|map('upper')|list }} {{ pairs|map('first')|list }} {{ pairs|map('join', '-')|list }}", "{{ ls|map|list }}", "{{ ls|map('nope')|list }}", "{{ ls|map(attr='x')|list }}",
    "{{ l|select('odd')|list }} {{ l|reject('odd')|list }} {{ l|select('>', 1)|list }} {{ l|select('divisibleby', 2)|list }} {{ mixed|select|list }} {{ mixed|reject|list }} {{ mixed|select('string')|list }} {{ mixed|select('none')|list }} {{ mixed|select('in', [1, 'x'])|list }} {{ mixed|reject('none')|list|length }} {{ ls|select('equalto', 'a')|list }} {{ ls|select('==', 'a')|first }}", "{{ l|select('nope')|list }}", "{{ 'a\\nb\\n\\nc'|indent }}|{{ 'a\\nb'|indent(2) }}|{{ 'a\\nb'|indent(2, true) }}|{{ 'a\\n\\nb'|indent(2, false, true) }}|{{ 'a\\nb'|indent('> ', first=true) }}|{{ 'a\\nb\\n'|indent(width=3) }}|{{ ''|indent }}|{{ ''|indent(first=true) }}|", "{{ i|indent }}", "{{ 'foo bar baz qux'|truncate(9) }} {{ 'foo bar baz qux'|truncate(9, true) }} {{ 'foo bar baz qux'|truncate(11) }} {{ 'foo bar baz qux'|truncate(11, false, '...', 0) }} {{ 'abc'|truncate }}", "{{ s|center(20) }}| {{ s|wordcount }} {{ 'a-b c_d é'|wordcount }} {{ 'a b&c/d?é'|urlencode }}",
    "{{ '%s-%s'|format('a', 1) }} {{ '%(a)s'|format(a=1) }} {{ '%.2f'|format(1.005) }} {{ '%s'|format(l) }}", "{{ '%s %s'|format(1) }}", "{{ s|attr('upper') is callable }} {{ d|attr('b') is defined }} {{ d|attr('get') is callable }}", "{{ s|nope }}", "{% if false %}{{ s|nope }}{% endif %}x", "{{ s|upper|lower|title }} {{ (s|upper) ~ 'x' }} {{ s ~ 'x'|upper }} {{ s + 'x'|upper }} {{ -1|abs }} {{ l|first + 1 }} {{ l|length > 2 }} {{ l|length - 1 }} {{ not l|length }} {{ 'a' in ls|join }}", "{{ s|upper() }} {{ s|upper(1) }}", "{{ s|replace(old='o', new='0') }}", "{{ s|replace('o') }}",
    "{{ d|tojson }} {{ d|tojson(indent=2) }} {{ l|tojson(indent=4) }} {{ el|tojson(indent=2) }} {{ ed|tojson(indent=2) }} {{ u|tojson }} {{ u|tojson(ensure_ascii=true) }} {{ q|tojson }} {{ html|tojson }} {{ d|tojson(sort_keys=true) }} {{ d|tojson(separators=(',', ':')) }} {{ d|tojson(indent='\\t') }} {{ d|tojson(indent=0) }}", "{{ 1.0|tojson }} {{ 1e16|tojson }} {{ n|tojson }} {{ t|tojson }} {{ big|tojson }} {{ (1, 2)|tojson }} {{ {1: 2, none: 3, true: 4, 1.5: 5}|tojson }} {{ '\\x00\\x1f\\x7f\\u2028'|tojson }} {{ nest|tojson(indent=1) }} {{ d|tojson(indent=2, separators=(' ; ', ' : ')) }} {{ ('inf'|float)|tojson }} {{ ('nan'|float)|tojson }}", "{{ range(3)|tojson }}", "{{ d.items()|tojson }}", "{{ zz|tojson }}", "{{ s.upper|tojson }}", "{{ {(1, 2): 3}|tojson }}", "{{ (html|safe)|tojson }}",
]
values = ["t", "f", "n", "i", "z", "x", "s", "e", "l", "d", "zz", "(1,)", "range(2)", "d.items()", "d.get", "l|map('string')", "namespace()", "html|safe"]
tests = ["defined", "undefined", "none", "string", "number", "integer", "float", "boolean", "mapping", "sequence", "iterable", "callable", "true", "false", "escaped"]
for v in values:
    V.append(" ".join("{{ (%s) is %s }}" % (v, t) for t in tests))
V += [
    "{{ 3 is odd }} {{ 3 is even }} {{ 4 is divisibleby 2 }} {{ 4 is divisibleby(3) }} {{ -3 is odd }} {{ 2.0 is even }} {{ true is odd }}", "{{ 'a' is odd }}", "{{ 1 is eq 1 }} {{ 1 is equalto(1.0) }} {{ 1 is ne 2 }} {{ 1 is lt 2 }} {{ 1 is gt 2 }} {{ 1 is le 1 }} {{ 1 is ge 2 }} {{ 1 is lessthan 2 }} {{ 1 is greaterthan 0 }} {{ 1 is in [1] }} {{ 1 is not in [1] }} {{ 'a' is in 'abc' }} {{ 1 is sameas 1 }} {{ true is sameas true }} {{ true is sameas 1 }} {{ l is sameas l }} {{ [1] is sameas [1] }}", "{{ 'ABC' is upper }} {{ 'abc' is lower }} {{ 'Abc' is upper }} {{ '123' is lower }} {{ 'upper' is filter }} {{ 'nope' is filter }} {{ 'odd' is test }} {{ 'nope' is test }}", "{{ s is nope }}", "{{ 1 is not none }} {{ not 1 is none }} {{ s is string and i is number }} {{ s is defined or zz }} {{ (s is string) == true }} {{ s is not string or true }} {{ s is string ~ 'x' }}", "{{ i is number if true else 0 }} {{ [1, 2] is sequence and [1, 2] is not string }}", "{{ i is divisibleby }}", "{{ d.b is defined }} {{ d.zz is defined }} {{ d['zz'] is not defined }} {{ zz.a is defined }}", "{{ i is none or i == 7 }}", "{{ s is eq 'Hello World' }} {{ s is string('x') }}",
    "{{ t }}{{ f }}{{ n }}{{ i }}{{ x }}{{ s }}{{ e }}{{ l }}{{ d }}{{ big }}{{ nest }}{{ q }}{{ u }}", "{{ [u, q, html, nbsp] }}", "{{ big + 1 }} {{ big * 2 }} {{ big // 3 }} {{ big % 10 }} {{ big > 1 }} {{ big == big + 0 }} {{ -big }}", "{{ d == d }} {{ l == [3, 1, 2] }} {{ l != l }} {{ l < [3, 2] }} {{ d.C == {'k': 'v'} }}", "{{ l * 2 }} {{ s * 2 }} {{ l + el }}", "{{ mixed }}", "{{ i / 2 }} {{ i // 2 }} {{ i % 4 }} {{ x * 2 }} {{ x + i }} {{ t + t }} {{ i ** 2 }} {{ neg ** 3 }} {{ x ** 2 }}", "{{ s[0]|lower ~ s[1:] }}", "{{ d.items()|length }} {{ d.keys()|first }} {{ d.values()|last is mapping }} {{ (d.items()|list)[0][1] }} {{ d.items()[0] }}|", "{{ 'b' in d.keys() }} {{ 1 in d.values() }} {{ ('b', 1) in d.items() }}",
]

# --- what chat templates do
C += [
    "{{ bos_token }}{% for m in messages %}{{ m.role }}:{{ m['content'] }}{% endfor %}", "{% for m in messages if m.role == 'user' %}{{ loop.index }}{{ m.content is string }}{% endfor %}", "{{ messages|selectattr('role', 'equalto', 'user')|list|length }} {{ (messages|selectattr('role', 'equalto', 'system')|first).content }} {{ messages|rejectattr('role', 'in', ['user', 'system'])|map(attribute='role')|join(',') }} {{ messages|selectattr('tool_calls')|list|length }} {{ messages|selectattr('tool_calls', 'defined')|map(attribute='role')|list }} {{ messages|rejectattr('tool_calls')|list|length }}",
    "{{ messages|map(attribute='role')|list }} {{ messages|map(attribute='name', default='-')|list }} {{ messages|map(attribute='tool_calls.0.function.name')|list }} {{ messages|map(attribute='content')|map('string')|map('length')|list }}", "{{ users|sort(attribute='name')|map(attribute='name')|join(',') }} {{ users|sort(attribute='age,name')|map(attribute='name')|join(',') }} {{ users|sort(attribute='age', reverse=true)|map(attribute='name')|join(',') }} {{ users|sum(attribute='age') }} {{ (users|max(attribute='age')).name }} {{ users|map(attribute='tag.k', default='?')|list }} {{ users|join('+', attribute='age') }} {{ users|unique(attribute='age')|map(attribute='name')|list }}",
    "{% for g, us in users|groupby('age') %}{{ g }}:{{ us|map(attribute='name')|join(',') }};{% endfor %}{% for g in users|groupby('age') %}{{ g.grouper }}={{ g.list|length }}{% endfor %} {{ users|groupby('active', default=false)|length }} {{ ['a', 'A', 'b']|groupby(0)|length }}", "{% for m in messages[::-1] %}{{ m.role[0] }}{% endfor %} {{ messages[-1].content[0].text }} {{ messages[1:]|length }} {{ messages[0]['role'] == 'system' }}", "{% set system_message = '' %}{% if messages[0]['role'] == 'system' %}{% set system_message = messages[0]['content']|trim %}{% set messages = messages[1:] %}{% endif %}[{{ system_message }}]{{ messages|length }}{{ messages[0].role }}",
    "{% for m in messages %}{%- if m.content is string %}{{ m.content }}{% elif m.content is iterable %}{% for c in m.content %}{% if c.type == 'text' %}{{ c['text'] }}{% elif c.type == 'image' %}<img>{% endif %}{% endfor %}{% endif %}|{% endfor %}", "{% for m in messages %}{% if m.tool_calls is defined and m.tool_calls %}{% for tc in m.tool_calls %}{% set tc = tc.function %}{{ tc.name }}({{ tc.arguments|tojson }}){% for k, v in tc.arguments|items %}{{ k }}={{ v|tojson if v is not string else v }};{% endfor %}{% endfor %}{% endif %}{% endfor %}", "{% for m in messages %}{% if '</think>' in m.content %}{{ m.content.split('</think>')[0].rstrip('\\n').split('<think>')[-1].lstrip('\\n') }}|{{ m.content.split('</think>')[-1].lstrip('\\n') }}{% endif %}{% endfor %}",
    "{% for m in messages %}{{ loop.previtem.role if loop.previtem else 'start' }}>{{ m.role }}>{{ loop.nextitem.role if not loop.last else 'end' }};{% endfor %}", "{% if (messages[0]['role'] == 'user') != (loop_index0 is defined) %}a{% else %}b{% endif %}{% for m in messages %}{% if (m['role'] == 'user') != (loop.index0 % 2 == 0) %}x{% else %}y{% endif %}{% endfor %}", "{% if tools %}{% for tool in tools %}{{ tool|tojson }}\n{{ tool|tojson(indent=4) }}{% endfor %}{% endif %}", "{% if tools is defined and tools is not none and tools|length > 0 %}{{ tools|map(attribute='function')|map(attribute='name')|join }}{% endif %}", "{{ messages[0].content + eos_token }}{{ messages[0]['content'] | trim + eos_token }}", "{% if add_generation_prompt is defined and add_generation_prompt %}gen{% endif %}{% if add_generation_prompt and enable_thinking is not defined %}t{% endif %}", "{% set ns = namespace(n=0) %}{% for m in messages %}{% if m.role == 'user' %}{% set ns.n = loop.index0 %}{% endif %}{% endfor %}{{ ns.n }}", "{% macro render(m) %}{% if m.content is string %}{{ m.content|trim }}{% else %}{{ m.content|map(attribute='type')|join(',') }}{% endif %}{% endmacro %}{% for m in messages %}[{{ render(m) }}]{% endfor %}", "{{ messages[0].content|trim|length }}{{ messages[99] is defined }}{{ messages[99].role }}", "{% for m in messages %}{{ m.get('name', 'none') }}{{ 'name' in m }}{{ m.name is defined }}{% endfor %}", "{% set props = tools[0].function.parameters.properties %}{% for k, v in props.items() %}{{ k }}: {{ v.type }}{% if not loop.last %},{% endif %}{% endfor %}{{ tools[0].function.parameters.required|length == 0 }}", "{{ '<|' ~ messages[0].role ~ '|>' }}{{ '%s: %s' % (messages[0].role, messages[1].content) }}{{ messages[1].role.upper() }}{{ messages|length is even }}",
    "{%- for message in messages %}\n    {%- if message['role'] == 'user' %}\n        {{- '[INST] ' + (message['content'] if message['content'] is string else 'parts') + ' [/INST]' }}\n    {%- elif message['role'] == 'assistant' %}\n        {{- ' ' + message['content'] | trim + eos_token }}\n    {%- endif %}\n{%- endfor %}\n", "{% for m in messages %}\n{% if m.role == 'user' %}\n{{ m.role }}\n{% else %}\n  {{- m.role }}\n{% endif %}\n{% endfor %}\n", "{{ raise_exception('Roles must alternate: ' ~ messages[0].role) }}", "{% if messages|length > 3 and messages[3].role == 'tool' %}{{ messages[3].content|int + 1 }}{% endif %}", "{% for m in messages %}{{ m|length }}{{ m|list|first }}{{ (m.items()|list)[0] }}{% endfor %}", "{% set a = messages|selectattr('role', '==', 'user')|list %}{{ a[0].content }}{{ a|last == messages[-1] }}", "{{ messages[2].tool_calls[0]['function']['arguments']['y'] }}{{ messages[2].tool_calls[0].function.arguments.items()|list }}", "{{ messages|tojson }}", "{% for m in messages|reverse %}{{ m.role }}{{ loop.length }}{% endfor %}", "{% for m in messages|batch(2) %}{{ m|map(attribute='role')|join('+') }};{% endfor %}",
]


def main():
    env = environment()
    cases, errors = [], 0
    for name, templates in CASES.items():
        for template in dict.fromkeys(templates):
            case = {"template": template, "context": name}
            try:
                case["expected"] = env.from_string(template).render(**json.loads(json.dumps(CONTEXTS[name])))
                assert " at 0x" not in case["expected"], template
            except Exception as e:
                assert not isinstance(e, AssertionError), e
                case["error"] = type(e).__name__
                errors += 1
            cases.append(case)
    out = pathlib.Path(__file__).with_name("jinja_cases.json")
    lines = ",\n".join(json.dumps(c, ensure_ascii=True) for c in cases)
    out.write_text('{"jinja2": "%s",\n"contexts": %s,\n"cases": [\n%s\n]}\n' % (jinja2.__version__, json.dumps(CONTEXTS), lines))
    print(len(cases), "cases, of which", errors, "are errors")


if __name__ == "__main__":
    main()
