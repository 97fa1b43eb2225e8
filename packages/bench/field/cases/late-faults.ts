/** Faults after output: the client sees them, and they never count as success. */
import { gzipSync } from 'node:zlib'
import { errorEvents } from '../../../../test/contracts/protocol-streams.ts'
import type { Routes } from '../../../../test/kit/fake-answer.ts'
import { eventually, eventuallyTrue, expectEqual, expectTrue } from '../expectation.ts'
import type { CellRun, FieldCase } from '../field-case.ts'
import type { PoolPlan } from '../pool-plan.ts'
import { loadText } from '../load-texts.ts'
import { streamOf, wholeStream } from '../replies.ts'

/** Without observation a Worker passes streams on unread. */
const OBSERVED: PoolPlan = { letters: ['a'], pool: () => ({ observe_share: 1 }) }

const begunOf = ({ fixture }: CellRun): string =>
  fixture.stream!.opening + fixture.stream!.delta('one') + fixture.stream!.delta('two')

const s11: FieldCase = {
  plan: OBSERVED,
  async run(cell) {
    const { pool, fixture } = cell
    const begun = begunOf(cell)
    const { aborted, unfinished } = fixture.stream!
    const rests = [
      ...Object.values(errorEvents).map((event) => `${event}data: [DONE]\n\n`),
      ...(aborted === null ? [] : [aborted]),
      ...(unfinished === null ? [] : [unfinished]),
    ]
    const before = await pool.failures('a')
    for (const rest of rests) {
      pool.script({ a: streamOf(begun, 20, rest) })
      const { text, isWhole } = await pool.ask(fixture, { stream: true })
      expectEqual('stream', { text, isWhole }, { text: begun + rest, isWhole: true })
    }
    await eventually('failures', async () => (await pool.failures('a')) - before, rests.length)
  },
}

const s12: FieldCase = {
  plan: OBSERVED,
  async run(cell) {
    const { pool, fixture } = cell
    const begun = begunOf(cell)
    const { closing } = fixture.stream!
    const before = await pool.failures('a')
    const ends = [
      streamOf(begun),
      { ...streamOf(begun), version: '1.0' as const },
      streamOf(begun, closing.slice(0, -20)),
    ]
    for (const end of ends) {
      pool.script({ a: end })
      const { text, isWhole } = await pool.ask(fixture, { stream: true })
      expectEqual('the stream looks complete', isWhole, false)
      expectTrue(`its end arrived: ${text.slice(-200)}`, !text.includes(closing))
    }
    await eventually('failures', async () => (await pool.failures('a')) - before, ends.length)
  },
}

const s13: FieldCase = {
  plan: OBSERVED,
  async run(cell) {
    const { pool, fixture } = cell
    const begun = begunOf(cell)
    pool.script({ a: streamOf(begun) })
    const { text } = await pool.ask(fixture, { stream: true })
    expectEqual('what came before', text.slice(0, begun.length), begun)
    const end = text.slice(begun.length)
    expectTrue(`error event: ${end}`, fixture.stream!.gatewayError.test(end))
  },
}

function compressedLoad(type: string): Routes {
  const load = loadText(type)
  if (load === null) return {}
  const headers = { 'content-type': 'text/plain; version=0.0.4', 'content-encoding': 'gzip' }
  return { [`GET ${load.path}`]: { headers, body: gzipSync(load.text) } }
}

const s20: FieldCase = {
  plan: {
    letters: ['a'],
    pool: () => ({ stats_interval_ms: 300, observe_share: 1 }),
    routes: (_letter, type) => compressedLoad(type),
  },
  ownPool: true,
  async run({ pool, fixture, engine }) {
    const whole = wholeStream(fixture.stream!, 'compressed')
    const zipped = gzipSync(whole)
    const headers = { 'content-type': 'text/event-stream', 'content-encoding': 'gzip' }
    pool.script({ a: { headers, pieces: [zipped.subarray(0, 30), 20, zipped.subarray(30)] } })
    const before = await pool.failures('a')
    for (let sent = 0; sent < 4; sent++) {
      const { text, isWhole } = await pool.ask(fixture, { stream: true })
      expectEqual('stream', { text, isWhole }, { text: whole, isWhole: true })
    }
    expectEqual('failures', (await pool.failures('a')) - before, 0)
    const load = loadText(engine)
    if (load === null) return
    const running = async (): Promise<unknown> => {
      // A Worker's object probes while its pool has traffic.
      await pool.ask(fixture, { stream: true })
      return ((await pool.view('a')).stats as { readonly running?: number } | null)?.running
    }
    await eventuallyTrue(
      'running requests in compressed metrics',
      running,
      (count) => count === load.running,
      `${load.running}`,
    )
  },
}

export const lateFaults: Readonly<Record<string, FieldCase>> = { S11: s11, S12: s12, S13: s13, S20: s20 }
