import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import * as jinja from '@huggingface/jinja'
import { expect, it } from 'vitest'
import { bundleWorker, workerText } from '../../scripts/bundle-worker.ts'
import * as rendering from '../../src/jinja.ts'

const script = new URL('../../scripts/trim-jinja.mjs', import.meta.url).href
const { kindless, numbered, trimmable, wordless } = (await import(/* @vite-ignore */ script)) as Record<'kindless' | 'numbered' | 'trimmable' | 'wordless', (module: string) => string>
const own = readFileSync(fileURLToPath(import.meta.resolve('@huggingface/jinja')), 'utf8')
const loaded = async (module: string) => (await import(/* @vite-ignore */ `data:text/javascript,${encodeURIComponent(module)}`)) as typeof jinja
const unshortened = await loaded(kindless(numbered(wordless(trimmable(own)))))
const trimmed = await loaded(await workerText('@huggingface/jinja'))

const rendered = ({ Template }: typeof jinja, text: string): string => new Template(text).render({ messages: [{ role: 'user', content: ' hi ' }, { role: 'assistant', content: '{}' }], tools: null })

it.each([
  "{%- for m in messages %}{{ '<|' + m.role + '|>' }}{{ m['content'] | trim }}{% endfor %}",
  "{% macro f(a, b=2) %}{{ a }}{{ b }}{% endmacro %}{% set ns = namespace(x=1) %}{{ f(messages | length) }}{{ ns.x }}{{ messages | tojson(indent=2) }}",
  "{% if tools is none and messages[0].role == 'user' %}{{ messages[::-1][0].content ~ 'x' }}{% else %}no{% endif %}",
])('a template says what it says without the words of errors: %s', (text) => {
  expect(rendered(trimmed, text)).toBe(rendered(jinja, text))
})

it.each(['{% for %}', '{{ messages | nonsense }}', '{{ messages.pop( }}', '{% unknown %}'])('what is no template is none without words: %s', (text) => {
  const failure = (module: typeof jinja): Error => {
    try {
      rendered(module, text)
    } catch (error) {
      return error as Error
    }
    throw new Error('it was rendered')
  }
  expect([failure(jinja).message === '', failure(trimmed).message]).toEqual([false, ''])
})

it('the words are most of what its errors are', () => {
  expect(own.length - wordless(own).length).toBeGreaterThan(5_000)
})

/** One of each kind of token and each kind of statement. */
const ALL = `{# c #}{% set a = [1, 2.5, -3] %}{% set b = {'k': a[0], "l": a[1:2], 'm': (1, 2)} %}{%- if not a and b.k >= 1 or a | length == 3 -%}
{{ a[0] + 1 * 2 ** 3 // 4 % 5 ~ 'x' }}{% elif b is mapping %}{{ b['l'] if a else none }}{% else %}no{% endif %}{% for x in a if x > 0 %}{{ loop.index }}{% break %}{% else %}e{% endfor %}
{% macro m(p, q=1) %}{{ p(q=q, *a, **b) }}{% endmacro %}{% call(u) m(1) %}{{ u }}{% endcall %}{% filter upper %}f{% endfilter %}{% generation %}g{% endgeneration %}`

it('a template is read as what it is without the names of tokens and nodes', () => {
  const kinds = Array.from(own.matchAll(/^ {2}type = "(\w+)";$/gm), ([, name]) => name)
  // Of the token of an operator only the formatter, which is not in the Worker, looks at more than its text.
  const plain = (key: string, value: unknown) => (key === 'operator' ? (value as { readonly value: string }).value : key === 'type' && typeof value === 'number' ? kinds[value - 1] : value)
  const tree = ({ parse, tokenize }: typeof jinja) => JSON.stringify(parse(tokenize(ALL, { lstrip_blocks: true, trim_blocks: true })), plain)
  expect(tree(jinja).length).toBeGreaterThan(2_000)
  expect(tree(unshortened)).toBe(tree(jinja))
})

const THINGS = ['none', 'nowhere', 'true', '0', '-2', '1.0', '2.5', "''", "' a b '", "'3x'", "'<é\"'", '[]', "['b', 'A', 'b']", '[1, 2.5, true]', '(1, 2)', '{}', "{'b': [1], 'a': none}", 'namespace(a=1)', 'range(3)', 'range', "[{'a': 1}, {'a': 2, 'b': 'x'}]"]
const ASKED = [
  ...['abs', 'bool', 'capitalize', 'first', 'float', 'int', 'items', 'join', 'last', 'length', 'list', 'lower', 'reverse', 'safe', 'sort', 'string', 'title', 'tojson', 'trim', 'unique', 'upper', 'indent', 'keys', 'values', 'get'].map((name) => `X | ${name}`),
  ...["default('d')", "default('d', true)", "join('-')", 'indent(2, true)', "replace('b', 'c')", 'sort(true)', "sort(attribute='a')", "selectattr('b')", "rejectattr('a', 'equalto', '1')", "map(attribute='b', default=0)", 'tojson(indent=1)', "tojson(separators=(',', ':'), sort_keys=true)", 'int(7)', "get('a', 2)"].map((call) => `X | ${call}`),
  ...['boolean', 'callable', 'odd', 'even', 'false', 'true', 'none', 'string', 'number', 'integer', 'iterable', 'mapping', 'sequence', 'lower', 'upper', 'defined', 'not defined', 'undefined'].map((test) => `X is ${test}`),
  'X.a', 'X[0]', 'X[-1]', 'X[1:]', 'X[::-1]', "X['a']", 'X.upper()', 'X.split()', "X.split('b', 1)", "X.startswith(' a')", "X.replace(' ', '', 1)", 'X.items()', "X.get('b')", 'X(2)', 'not X', '-X', 'X if X else 1', 'X and 1', 'X ~ 1', 'X + X', 'X + 1', 'X * 2', 'X ** 2', 'X // 2', 'X % 2', 'X < 2', 'X == X', "'a' in X", "X in ['', 1]", 'X not in {}',
]

it('a value is what it is without the names of values', () => {
  const outcome = (module: typeof jinja, text: string): string => {
    try {
      return rendered(module, text)
    } catch {
      return 'an error'
    }
  }
  for (const thing of THINGS) {
    for (const asked of [...ASKED.map((one) => `{{ ${one.replaceAll('X', thing)} }}`), `{% for a, b in ${thing} %}{{ a }}{{ loop.last }}{% else %}e{% endfor %}`, `{% for a in ${thing} if a %}{{ a }}{% endfor %}`, `{% set a, b = ${thing} %}{{ a }}`, `{% set n = ${thing} %}{% set n.b = 1 %}{{ n.b }}`]) {
      expect([asked, outcome(trimmed, asked)]).toEqual([asked, outcome(jinja, asked)])
    }
  }
})

it('the Worker asks the library for nothing that it is cut down without', async () => {
  const built = (await loaded(await bundleWorker(new URL('../../src/jinja.ts', import.meta.url)))) as unknown as typeof rendering
  const text = "{% for m in messages if m.role != 'tool' %}{{ loop.index }}{{ m.content | tojson }}{% else %}none{% endfor %}{{ range(2) | join }}{{ strftime_now('%d %B') }}{{ raise_exception('no') if not messages }}"
  for (const messages of [[{ role: 'user', content: 'é' }, { role: 'tool', content: { a: [1, 2.5] } }], []]) {
    const [whole, cut] = [rendering, built].map(({ jinja: compile }) => {
      try {
        return compile(text, () => 0)({ messages })
      } catch (error) {
        return (error as Error).message
      }
    })
    expect(cut).toBe(whole)
  }
})

it('another version of the library is not cut blindly', () => {
  expect(() => kindless('')).toThrow('kinds of nodes elsewhere')
  expect(() => kindless('  type = "If";\nif (["If"].includes(a.type)) {}')).toThrow('something else asks for If')
  expect(() => trimmable('')).toThrow('has no')
  expect(() => numbered('')).toThrow('kinds of tokens elsewhere')
  expect(() => numbered('var TOKEN_TYPES = Object.freeze({\n  Text: "Text"\n});\nif (a === TOKEN_TYPES.Word) {}')).toThrow('what kind of token Word is')
  expect(numbered(own)).not.toContain('TOKEN_TYPES')
})
