import { Template } from '@huggingface/jinja'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { compileJinja } from '../../../src/jinja.ts'

const at = (iso: string) => () => Date.parse(iso)
const never = () => 0

describe('the template environment', () => {
  it.each([
    '{% for i in range(3) %}{{ i }}{% endfor %}',
    '{{ true }}{{ True }}{{ false }}{{ none is none }}{{ None is none }}',
    '{% set ns = namespace(n=0) %}{% for m in messages %}{% set ns.n = ns.n + 1 %}{% endfor %}{{ ns.n }}',
    '  {% if messages %}\n  yes\n  {% endif %}\n',
    '{{ messages | tojson }}{{ messages[0].content | trim | upper }}',
  ])('the template environment renders as the library does: %j', (text) => {
    const variables = { messages: [{ role: 'user', content: ' hé ' }] }
    expect(compileJinja(text, never)(variables)).toBe(new Template(text).render(variables))
  })

  it('the template environment implements range() as Python does', () => {
    const small = fc.integer({ min: -6, max: 6 })
    fc.assert(
      fc.property(
        small,
        small,
        small.filter((step) => step !== 0),
        (from, to, step) => {
          const text = `{% for i in range(${from}, ${to}, ${step}) %}{{ i }},{% endfor %}`
          expect(compileJinja(text, never)({})).toBe(new Template(text).render({}))
        },
      ),
    )
    expect(() => compileJinja('{{ range(1, 2, 0) }}', never)({})).toThrow('must not be zero')
  })

  it('the template environment formats dates in English and UTC, whatever the machine’s locale', () => {
    const render = compileJinja(
      "{{ strftime_now('%d %b %Y, %A %H:%M:%S %B %m %a %% %q') }}",
      at('2026-03-01T23:59:07Z'),
    )
    expect(render({})).toBe('01 Mar 2026, Sunday 23:59:07 March 03 Sun % %q')
  })

  it('the template environment fails with the words of the template', () => {
    expect(() => compileJinja("{{ raise_exception('roles must alternate') }}", never)({})).toThrow(
      'roles must alternate',
    )
  })

  it('the template environment allows request variables to hide a global for one request only', () => {
    const render = compileJinja('{{ none }}', never)
    expect([render({ none: 'mine' }), render({})]).toEqual(['mine', render({})])
  })
})
