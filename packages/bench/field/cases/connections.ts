/** Connections between gateway and engines: repeated requests, framing, and refused uploads. */
import { expectEqual } from '../expectation.ts'
import type { FieldCase } from '../field-case.ts'
import type { FakeAnswer } from '../../../../test/kit/fake-answer.ts'
import { PAIR } from '../pool-plan.ts'
import { serves } from '../replies.ts'

/**
 * Pauses before the engine breaks the connection. Each is longer than the time in which an engine cannot have begun a
 * request; the gateway subtracts the time in which its process stood still, so on a busy machine only a later one is.
 */
const PAUSES_MS = [1_200, 3_000, 8_000]

const s15: FieldCase = {
  plan: PAIR,
  async run({ pool, fixture }) {
    pool.script({ a: serves(fixture, 'from a'), b: serves(fixture, 'from b') })
    // Its connection is kept.
    await pool.askAt('a', fixture)
    for (const end of ['reset', 'truncate'] as const) {
      const sent: number[] = []
      for (const pauseMs of PAUSES_MS) {
        pool.script({ a: { raw: '', pieces: [pauseMs], end }, b: serves(fixture, 'from b') })
        const { status, text } = await pool.askAt('a', fixture)
        expectEqual(`answer after a ${end}`, [status, text], [200, fixture.answer('from b')])
        sent.push(pool.posts('a').length)
        pool.script({ a: serves(fixture, 'from a') })
        await pool.askAt('a', fixture)
        if (sent.at(-1) === 1) break
      }
      expectEqual(`requests at the engine with the ${end}, by pause: ${sent}`, sent.at(-1), 1)
    }
  },
}

const chunked = (body: string, blank: string): FakeAnswer => {
  const half = Math.floor(body.length / 2)
  const chunks = [body.slice(0, half), body.slice(half)].map(
    (part) => `${Buffer.byteLength(part).toString(16)}${blank}\r\n${part}\r\n`,
  )
  return {
    raw: `HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n${chunks.join('')}0\r\n\r\n`,
  }
}

const o5b: FieldCase = {
  plan: PAIR,
  async run({ pool, fixture }) {
    const before = await pool.failures('a')
    for (const blank of [' ', '\t', ' ;x', ' ; x=y']) {
      pool.script({ a: chunked(fixture.answer('from a'), blank), b: serves(fixture, 'from b') })
      const { status, text } = await pool.askAt('a', fixture)
      expectEqual(
        `answer with ${JSON.stringify(blank)} after the size`,
        [status, text],
        [200, fixture.answer('from a')],
      )
    }
    expectEqual('failures', (await pool.failures('a')) - before, 0)
  },
}

/** `token_ids` take four bytes for each of these. */
const UPLOAD_BYTES = 8 * 1024 * 1024

const o10: FieldCase = {
  plan: { letters: ['a'] },
  async run({ pool, fixture }) {
    const engine = pool.engine('a')
    engine.refusal = TOO_LARGE
    try {
      const { status } = await pool.ask(fixture, { prompt: 'x'.repeat(UPLOAD_BYTES) })
      expectEqual('status', status, 413)
    } finally {
      engine.refusal = null
    }
  },
}

const TOO_LARGE =
  'HTTP/1.1 413 Content Too Large\r\ncontent-type: text/html\r\ncontent-length: 24\r\nconnection: close\r\n\r\n<html>too large</html>\r\n'

export const connections: Readonly<Record<string, FieldCase>> = { S15: s15, O5b: o5b, O10: o10 }
