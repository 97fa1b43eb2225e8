/** What counts as the first token, and what may happen before it. */
import { expectEqual, expectTrue } from '../expectation.ts'
import type { FakeAnswer } from '../../../../test/kit/fake-answer.ts'
import type { CellRun, FieldCase } from '../field-case.ts'
import { streamOf } from '../replies.ts'

/** A prefill of this length between the opening and the output. */
function prefilling({ fixture }: CellRun, ms: number, promptTokens = 3): FakeAnswer {
  const { opening, delta, closingWith } = fixture.stream!
  const usage = { prompt: promptTokens, cached: 0, output: 1 }
  return streamOf(opening === '' ? ': wait\n\n' : opening, ms, delta('one'), closingWith(usage))
}

const SLOW_MS = 400
const FAST_MS = 30
/** The slow prefill takes this many times the slowest answer of the fast engine, however busy the machine is. */
const SLOWER = 6
const MAX_SLOW_MS = 6_000
const PROMPTS = 14

const o21: FieldCase = {
  plan: { letters: ['a', 'b'], pool: () => ({ policy: 'predicted' }) },
  ownPool: true,
  async run(cell) {
    const { pool, fixture } = cell
    let slowMs = SLOW_MS
    pool.script({ a: () => prefilling(cell, slowMs, 8_000), b: prefilling(cell, FAST_MS, 8_000) })
    for (let sent = 0; sent < PROMPTS; sent++) {
      // Different from the first byte on, so that no cache decides.
      const prompt = `${sent} different text ${sent} `.repeat(1_500)
      const before = pool.posts('b').length
      const startedAt = performance.now()
      expectEqual('status', (await pool.ask(fixture, { prompt, stream: true })).status, 200)
      if (pool.posts('b').length > before)
        slowMs = Math.max(slowMs, Math.min(MAX_SLOW_MS, SLOWER * (performance.now() - startedAt)))
    }
    const slow = pool.posts('a').length
    expectTrue(`${slow} of ${PROMPTS} requests went to the engine with the slow prefill`, slow <= PROMPTS / 3)
  },
}

const o22: FieldCase = {
  plan: { letters: ['a'], pool: () => ({ limits: { idle_ms: 300 } }) },
  async run(cell) {
    const { pool, fixture } = cell
    pool.script({ a: prefilling(cell, 900) })
    const before = await pool.failures('a')
    const { text, isWhole } = await pool.ask(fixture, { stream: true })
    expectTrue(`a stream that waits for its prefill: ${text}`, isWhole && text.includes(fixture.stream!.delta('one')))
    expectEqual('failures', (await pool.failures('a')) - before, 0)
  },
}

const o22c: FieldCase = {
  plan: { letters: ['a', 'b'], pool: () => ({ retry: { hedge_ms: 100, share: 1, min_per_s: 1000 } }) },
  ownPool: true,
  async run(cell) {
    const { pool, fixture } = cell
    const { opening, delta, closing } = fixture.stream!
    const answered = Promise.withResolvers<void>()
    // Without a hedge the client waits for this engine until it gives up.
    const held = streamOf(opening === '' ? ': wait\n\n' : opening, answered.promise, delta('one'), closing)
    pool.script({ a: held, b: prefilling(cell, 10) })
    const { text } = await pool.askAt('a', fixture, { stream: true })
    answered.resolve()
    expectTrue(`a hedged stream: ${text}`, text.includes(fixture.stream!.delta('one')))
  },
}

const HEARTBEAT = ': ping\n'

const s14: FieldCase = {
  plan: { letters: ['a'], pool: () => ({ observe_share: 1 }) },
  config: { limits: { heartbeat_ms: 100 } },
  async run({ pool, fixture }) {
    const { opening, delta, closing } = fixture.stream!
    const numbered = (id: number): string => `id: ${id}\n${delta('one')}`
    const sent = opening + numbered(1) + numbered(2) + closing
    const next = Promise.withResolvers<void>()
    pool.script({ a: streamOf(opening, numbered(1), next.promise, numbered(2), closing) })
    const response = await pool.send(fixture, { stream: true })
    let text = ''
    const decoder = new TextDecoder()
    for await (const piece of response.body!) {
      text += decoder.decode(piece, { stream: true })
      if (text.split(HEARTBEAT).length > 3) next.resolve()
    }
    expectTrue(`a heartbeat is an event of its own: ${text}`, !text.includes(`${HEARTBEAT}\n`))
    expectEqual('the stream without heartbeats', text.replaceAll(HEARTBEAT, ''), sent)
  },
}

/** Before, the place was still taken after 45 s. */
const FREE_MS = 30_000

/** After the first event the engine is silent; the client leaves, and its place must be free. */
const s18: FieldCase = {
  plan: { letters: ['a'], keyLimits: { concurrent: 1 } },
  ownPool: true,
  config: { limits: { heartbeat_ms: 100 } },
  async run({ pool, fixture }) {
    const { opening, delta, closing } = fixture.stream!
    pool.script({ a: { ...streamOf(opening, delta('one')), end: 'hang' } })
    const leaving = new AbortController()
    const response = await pool.send(fixture, { stream: true }, { key: 'limited', signal: leaving.signal })
    await response.body!.getReader().read()
    leaving.abort()
    pool.script({ a: streamOf(opening, delta('one'), closing) })
    const until = performance.now() + FREE_MS
    let status = 0
    while (status !== 200 && performance.now() < until) {
      status = (await pool.ask(fixture, { stream: true }, { key: 'limited' })).status
      await new Promise((resolve) => setTimeout(resolve, 200))
    }
    expectEqual('status after the client of the only place left', status, 200)
  },
}

export const firstToken: Readonly<Record<string, FieldCase>> = { O21: o21, O22: o22, O22c: o22c, S14: s14, S18: s18 }
