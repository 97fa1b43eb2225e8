import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import * as jinja from '@huggingface/jinja'
import { expect, it } from 'vitest'

const script = new URL('../../scripts/trim-jinja.mjs', import.meta.url).href
const { numbered, wordless } = (await import(/* @vite-ignore */ script)) as Record<'numbered' | 'wordless', (module: string) => string>
const own = readFileSync(fileURLToPath(import.meta.resolve('@huggingface/jinja')), 'utf8')
const trimmed = (await import(/* @vite-ignore */ `data:text/javascript,${encodeURIComponent(numbered(wordless(own)))}`)) as typeof jinja

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

it('a template is read as what it is without the names of tokens', () => {
  // Of the token of an operator only the formatter, which is not in the Worker, looks at more than its text.
  const plain = (key: string, value: unknown) => (key === 'operator' ? (value as { readonly value: string }).value : value)
  const tree = ({ parse, tokenize }: typeof jinja) => JSON.stringify(parse(tokenize(ALL, { lstrip_blocks: true, trim_blocks: true })), plain)
  expect(tree(jinja).length).toBeGreaterThan(2_000)
  expect(tree(trimmed)).toBe(tree(jinja))
})

it('another version of the library is not cut blindly', () => {
  expect(() => numbered('')).toThrow('kinds of tokens elsewhere')
  expect(() => numbered('var TOKEN_TYPES = Object.freeze({\n  Text: "Text"\n});\nif (a === TOKEN_TYPES.Word) {}')).toThrow('what kind of token Word is')
  expect(numbered(own)).not.toContain('TOKEN_TYPES')
})
