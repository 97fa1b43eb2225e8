import { describe, expect, it } from 'vitest'
import { countPrompt } from '../../../packages/bench/field-agents/prefix-cache.ts'
import { figuresOf, turnsOf } from '../../../packages/bench/field-agents/turns.ts'
import type { ServedRequest } from '../../../packages/bench/field-agents/served-request.ts'

const served = (file: string, engine: string, cachedAt: Record<string, number>, more = {}): ServedRequest => ({
  engine,
  at: 0,
  path: '/v1/messages',
  headers: { 'x-request-id': `${file} ${cachedAt['a']}` },
  body: { tools: [{ name: 'Read' }], messages: [{ role: 'user', content: `FILE=${file}` }] },
  prompt: countPrompt('x'.repeat(400)),
  cachedAt,
  fault: null,
  ...more,
})
const predicting = (cachedTokens: number | null) => ({
  predicted: async () => (cachedTokens === null ? null : { promptTokens: 100, cachedTokens }),
})

describe('turns of conversations', () => {
  const requests = [
    served('one', 'a', { a: 0, b: 0 }),
    served('two', 'b', { a: 0, b: 0 }),
    served('one', 'b', { a: 80, b: 0 }, { fault: 'busy' }),
    served('one', 'a', { a: 80, b: 0 }),
    served('two', 'a', { a: 16, b: 80 }),
    served('title', 'a', { a: 0, b: 0 }, { body: { messages: [{ role: 'user', content: 'FILE=one' }] } }),
  ]

  it('count those that were answered, by conversation', async () => {
    const turns = await turnsOf(requests, predicting(60))
    expect(turns.map(({ conversation, turn }) => `${conversation} ${turn}`)).toEqual([
      'one 1',
      'two 1',
      'one 2',
      'two 2',
    ])
  })

  it('turns of conversations give the largest error in either direction, and the share at the engine with most of the prompt', async () => {
    const figures = figuresOf(await turnsOf(requests, predicting(60)))
    expect(figures).toEqual({ followUps: 2, shareErrorMax: expect.closeTo(0.44), onHolder: 0.5 })
  })

  it('turns of conversations give no figures without a prediction, or without a second turn', async () => {
    const unknown = await turnsOf(requests, predicting(null))
    expect(() => figuresOf(unknown)).toThrow('no decision of turn 2 of one')
    expect(() => figuresOf(unknown.slice(0, 2))).toThrow('no conversation had a second turn')
  })
})
