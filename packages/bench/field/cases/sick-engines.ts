/** Engines that stop without a word. */
import { expectEqual } from '../expectation.ts'
import type { FieldCase } from '../field-case.ts'
import { serves, streamOf } from '../replies.ts'

/** The request waited 25 s and more before, until `first_byte_ms` (10 min). */
const CLIENT_MS = 60_000

const s21: FieldCase = {
  plan: { letters: ['a', 'b'] },
  ownPool: true,
  async run({ pool, fixture }) {
    pool.script({ a: serves(fixture, 'from a'), b: serves(fixture, 'from b') })
    for (const letter of ['a', 'b']) await pool.askAt(letter, fixture, { stream: true })
    const hanging = { ...streamOf(), raw: '', end: 'hang' } as const
    const a = pool.engine('a')
    for (const route of Object.keys(a.routes)) a.routes[route] = hanging
    pool.script({ a: hanging, b: serves(fixture, 'from b') })
    // Only an answer from b ends the wait; the limit is that of a client that gives up.
    const signal = AbortSignal.timeout(CLIENT_MS)
    const { status, text } = await pool.askAt('a', fixture, { stream: true }, { signal })
    expectEqual('status', status, 200)
    expectEqual('answer', text.includes('from b'), true)
  },
}

export const sickEngines: Readonly<Record<string, FieldCase>> = { S21: s21 }
