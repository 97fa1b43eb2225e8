import { describe, expect, it } from 'vitest'
import {
  fitCostModel,
  predictTtfts,
  costModels,
  type Prefill,
} from '../../../packages/bench/conformance/fitted-cost-models.ts'
import { mergeResults, readPage, writePage, type RowResult } from '../../../packages/bench/conformance/page.ts'
import type { Row } from '../../../packages/bench/conformance/row.ts'
import { rows } from '../../../packages/bench/conformance/rows.ts'
import { normalise } from '../../../packages/bench/conformance/normaliser.ts'
import { keepDivision } from '../../../packages/bench/conformance/steady.ts'
import { writeVectors, type Exchange } from '../../../packages/bench/conformance/vector.ts'
import { generator } from '../../../packages/bench/conformance/fuzz.ts'

const row = (name: string): Row => ({ name, says: `${name} holds, a | b.`, run: async () => '' })
const known = [row('one'), row('two'), row('three')]
const result = (name: string, more: Partial<RowResult> = {}): RowResult => ({
  name,
  passed: true,
  seen: 'as | said',
  detail: '',
  seconds: 3,
  date: '2026-11-20',
  ...more,
})

describe('the results page', () => {
  const first = [
    result('one', { detail: 'Text.\n\n| law | error |\n| --- | ---: |\n| a + b | 4 % |' }),
    result('three', { passed: false, seen: 'nothing', detail: 'Why: `x`.' }),
  ]
  const page = writePage(first, known, { vllm: '0.32.0' })

  it('the results page is unchanged when it is read and written again', () => expect(readPage(page)).toEqual(first))

  it('the results page keeps the results of rows that did not run, with their date and section', () => {
    const merged = mergeResults(
      readPage(page),
      [result('two', { date: '2026-11-21' }), result('three', { detail: 'Now.' })],
      ['one', 'two', 'three'],
    )
    expect(merged.map(({ name, date, passed, detail }) => `${name} ${date} ${passed} ${detail.slice(0, 5)}`)).toEqual([
      'one 2026-11-20 true Text.',
      'two 2026-11-21 true ',
      'three 2026-11-20 true Now.',
    ])
    const again = writePage(merged, known, { vllm: '0.32.0' })
    expect(readPage(again)).toEqual(merged)
    expect(again).toContain('3 of 3 rows passed')
  })

  it('the results page drops rows that no longer exist', () =>
    expect(mergeResults(readPage(page), [], ['three']).map(({ name }) => name)).toEqual(['three']))
})

describe('conformance rows', () => {
  it('conformance rows have unique names and a description', () => {
    expect(new Set(rows.map(({ name }) => name)).size).toBe(rows.length)
    expect(rows.filter(({ says, name }) => !says.endsWith('.') || !/^[a-z0-9-]+$/.test(name))).toEqual([])
  })
})

describe('recordings', () => {
  const event = (index: number, content: string, logprobs: readonly number[] = []) =>
    `data: ${JSON.stringify({ id: 'x', choices: [{ index, delta: { content }, logprobs: { content: logprobs } }] })}`
  const stream = (...sse: string[]): Exchange => ({
    name: 'chat-stream',
    request: { method: 'POST', path: '/v1/chat/completions' },
    response: { status: 200, headers: {}, sse: [...sse, 'data: [DONE]'] },
  })
  const file = (...exchanges: Exchange[]) =>
    writeVectors({ engine: { name: 'vllm', version: '0', flags: [] }, about: '', normalised: [], exchanges })

  it('recordings are kept if only the boundaries of stream chunks changed', () => {
    const recorded = stream(event(0, 'Hel', [-1]), event(0, 'lo', [-2]), event(1, 'x'))
    expect(keepDivision(file(recorded), [stream(event(1, 'x'), event(0, 'Hello', [-1, -2]))])).toEqual([recorded])
  })

  it('recordings are replaced if the text of a stream changed', () => {
    const anew = stream(event(0, 'Hello!'))
    expect(keepDivision(file(stream(event(0, 'Hello'))), [anew])).toEqual([anew])
    expect(keepDivision(null, [anew])).toEqual([anew])
  })

  it('round probabilities and leave numbers in texts unchanged', () => {
    expect(
      normalise('{"logprob":-1.2345678,"all":[-0.0012345, 9.03125e-05],"text":"1.2345678","duration":0.99725}'),
    ).toBe('{"logprob":-1.23,"all":[0, 0],"text":"1.2345678","duration":0.99725}')
  })
})

describe('models of prefill time', () => {
  const costModel = (total: number, cached: number): number =>
    40 + 0.9 * (total - cached) + (4e-4 * (total ** 2 - cached ** 2)) / 2

  /** Prompts of an engine that prefills first come, first served. */
  function served(count: number): Prefill[] {
    const random = generator(5)
    let freeAt = 0
    let now = 0
    return Array.from({ length: count }, () => {
      const total = Math.round(64 * 32 ** random())
      const cached = random() < 0.4 ? Math.floor((total * random()) / 32) * 32 : 0
      now += random() * 3000
      freeAt = Math.max(freeAt, now) + costModel(total, cached)
      return { total, cached, sentAt: now, firstAt: freeAt }
    })
  }
  const seen = served(80)

  it('models of prefill time recovers the model with both terms, and predicts waiting times with it', () => {
    const both = fitCostModel(costModels['both, a + b new + k pairs'], seen)
    for (const { total, cached } of seen) expect(both({ total, cached })).toBeCloseTo(costModel(total, cached), 3)
    const predicted = predictTtfts(both, seen)
    for (const [at, { sentAt, firstAt }] of seen.entries())
      expect(predicted[at]! / (firstAt - sentAt)).toBeCloseTo(1, 2)
  })

  it('models of prefill time without the quadratic term do not fit', () => {
    const alone = fitCostModel(costModels['tokens alone, a + b new'], seen)
    const errors = seen.map(
      ({ total, cached }) => Math.abs(alone({ total, cached }) - costModel(total, cached)) / costModel(total, cached),
    )
    expect(Math.max(...errors)).toBeGreaterThan(0.1)
  })
})
