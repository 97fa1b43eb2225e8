import { expect, it } from 'vitest'
import { Exemplars, newestExemplars, seriesName } from '../../src/telemetry/exemplars.ts'
import type { Trace } from '../../src/telemetry/trace-context.ts'
import { record } from '../contracts/ttft.ts'

const trace = (traceId: string): Trace => ({
  traceId,
  spanId: `span of ${traceId}`,
  parentId: null,
  engineSpanId: 'e',
  sampled: true,
})

const ended = (engine: string, ttft: number | undefined, receivedAt: number) =>
  record({ engine, receivedAt, durationMs: 3_000, stages: ttft === undefined ? {} : { ttft } })

const seriesOf = (stage: string, { model, cluster }: ReturnType<typeof record>, engine = 'a'): string =>
  seriesName(stage, { model, cluster: cluster!, engine })

it('exemplars keep the newest request of each bucket, with its own time', () => {
  const exemplars = new Exemplars()
  exemplars.add(ended('a', 60, 1_000), trace('t1'))
  exemplars.add(ended('a', 80, 2_000), trace('t2'))
  exemplars.add(ended('a', 79, 3_000), trace('t3'))
  exemplars.add(ended('a', undefined, 4_000), trace('t4'))
  const list = exemplars.list()
  // Buckets up to 0.06 s and up to 0.08 s.
  expect(list[seriesOf('ttft', ended('a', 1, 0))]!.filter((one) => one !== null)).toEqual([
    { traceId: 't1', spanId: 'span of t1', ms: 60, at: 1_060 },
    { traceId: 't3', spanId: 'span of t3', ms: 79, at: 3_079 },
  ])
  expect(list[seriesOf('duration', ended('a', 1, 0))]!.filter((one) => one !== null)).toEqual([
    { traceId: 't4', spanId: 'span of t4', ms: 3_000, at: 7_000 },
  ])
})

it('exemplars beyond the last limit are in the last bucket', () => {
  const exemplars = new Exemplars()
  exemplars.add(ended('a', 9_000_000, 0), trace('t1'))
  expect(exemplars.list()[seriesOf('ttft', ended('a', 1, 0))]!.at(-1)).toMatchObject({ traceId: 't1' })
})

it('exemplars are bounded, and those of the first engines are dropped', () => {
  const exemplars = new Exemplars()
  for (let at = 0; at < 1_000; at++) exemplars.add(ended(`engine-${at}`, 50, at), trace(`t${at}`))
  const list = exemplars.list()
  expect(Object.keys(list)).toHaveLength(400)
  const any = ended('a', 1, 0)
  expect(list[seriesOf('ttft', any, 'engine-999')]).toBeDefined()
  expect(list[seriesOf('ttft', any, 'engine-0')]).toBeUndefined()
})

it('exemplars of several gateways are merged by time', () => {
  const [one, other] = [new Exemplars(), new Exemplars()]
  one.add(ended('a', 50, 2_000), trace('new'))
  one.add(ended('a', 5_000, 0), trace('only'))
  other.add(ended('a', 50, 1_000), trace('old'))
  other.add(ended('b', 50, 1_000), trace('b'))
  for (const order of [
    [one, other],
    [other, one],
  ]) {
    const merged = newestExemplars(order.map((exemplars) => exemplars.list()))
    const any = ended('a', 1, 0)
    const idsOf = (engine: string) =>
      merged[seriesOf('ttft', any, engine)]!.flatMap((exemplar) => exemplar?.traceId ?? [])
    expect([idsOf('a'), idsOf('b')]).toEqual([['new', 'only'], ['b']])
  }
})
