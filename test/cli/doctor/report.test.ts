import { describe, expect, it } from 'vitest'
import { Findings, type Subject } from '../../../src/cli/doctor/finding.ts'
import { reportLines } from '../../../src/cli/doctor/report.ts'

type Fill = (found: Findings) => void

function subject(name: string, fill: Fill, kind: Subject['kind'] = 'engine'): Subject {
  const found = new Findings()
  fill(found)
  return { kind, name, url: kind === 'engine' ? `http://${name}:8000` : null, is: 'vLLM 0.32.0', findings: found.list }
}

const unreported: Fill = (found) =>
  found.warn('cached_tokens', 'not reported', { next: '--enable-prompt-tokens-details' })
const healthy: Fill = (found) => found.ok('health', 'fine')
const all =
  (...fills: readonly Fill[]): Fill =>
  (found) =>
    fills.forEach((fill) => fill(found))
const text = (subjects: readonly Subject[], brief = false) => reportLines(subjects, brief).join('\n')

describe('the text of a report', () => {
  it('the text of a report has an equal finding of several engines once, with the list of these engines', () => {
    const engines = [
      subject('a', all(healthy, unreported)),
      subject('b', healthy),
      subject('c', all(healthy, unreported)),
    ]
    const report = text(engines)
    expect(report.match(/not reported/g)).toHaveLength(1)
    expect(report).toMatch(
      /^2 of 3 engines: a, c\n {2}! cached tokens {2}not reported\n.*→ --enable-prompt-tokens-details$/m,
    )
    expect(report).toMatch(/^all 3 engines: a, b, c\n {2}✓ health/m)
    for (const { name } of engines) expect(report).toContain(`engine ${name}  http://${name}:8000  vLLM 0.32.0\n`)
    expect(report).toMatch(/3 fine, no notes, 2 warnings, no problems\.$/)
  })

  it('the text of a report keeps findings apart that differ in severity, text, cost or remedy', () => {
    const variants: Fill[] = [
      (found) => found.warn('key', 'open', { costs: 'x', next: 'y' }),
      (found) => found.problem('key', 'open', { costs: 'x', next: 'y' }),
      (found) => found.warn('key', 'shut', { costs: 'x', next: 'y' }),
      (found) => found.warn('key', 'open', { costs: 'z', next: 'y' }),
      (found) => found.warn('key', 'open', { costs: 'x', next: 'z' }),
    ]
    const report = text(variants.map((fill, at) => subject(`e${at}`, fill)))
    expect(report).not.toContain('engines:')
    expect(report.match(/^ {2}[!✗] key/gm)).toHaveLength(variants.length)
  })

  it('the text of a report groups findings of engines alone, and puts the groups before what follows the engines', () => {
    const report = text([
      subject('a', unreported),
      subject('b', unreported),
      subject('m', unreported, 'pool'),
      subject('n', unreported, 'pool'),
    ])
    const heads = report.split('\n').filter((line) => /^\S/.test(line))
    expect(heads.slice(0, -1).map((line) => line.split('  ')[0])).toEqual([
      'engine a',
      'engine b',
      'all 2 engines: a, b',
      'pool m',
      'pool n',
    ])
    expect(report.match(/not reported/g)).toHaveLength(3)
  })

  it('the text of a brief report says "no problems" of an engine only if no group has a finding of it', () => {
    const report = text([subject('a', all(healthy, unreported)), subject('b', unreported), subject('c', healthy)], true)
    expect(report.match(/no problems$/gm)).toHaveLength(1)
    expect(report).toMatch(/^engine c .*\n {2}✓ no problems$/m)
    expect(report).not.toContain('fine\n')
  })
})
