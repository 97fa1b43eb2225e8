import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import * as jinja from '@huggingface/jinja'
import { expect, it } from 'vitest'

const script = new URL('../../scripts/trim-jinja.mjs', import.meta.url).href
const { wordless } = (await import(/* @vite-ignore */ script)) as { wordless: (module: string) => string }
const own = readFileSync(fileURLToPath(import.meta.resolve('@huggingface/jinja')), 'utf8')
const trimmed = (await import(/* @vite-ignore */ `data:text/javascript,${encodeURIComponent(wordless(own))}`)) as typeof jinja

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
