/** What the gateway reads of engines besides requests: sleep states, models of pods, causes of failed checks. */
import type { FakeEngine } from '../../../../test/kit/fake-engine.ts'
import { contextRoutes } from '../context-routes.ts'
import { eventually, eventuallyTrue, expectEqual } from '../expectation.ts'
import type { FieldCase } from '../field-case.ts'
import { serves } from '../replies.ts'

const METRICS = 'GET /metrics'

const sleepMetrics = (isAwake: boolean): string =>
  [
    'vllm:num_requests_running{engine="0"} 0.0',
    'vllm:num_requests_waiting{engine="0"} 0.0',
    `vllm:engine_sleep_state{engine="0",sleep_state="awake"} ${isAwake ? 1 : 0}.0`,
    '',
  ].join('\n')

const putAwake = ({ routes }: FakeEngine, isAwake: boolean): void => {
  routes[METRICS] = { body: sleepMetrics(isAwake) }
}

/** Blocks of the long prompt, about. */
const BLOCKS = 20

const s22: FieldCase = {
  plan: {
    letters: ['a', 'b'],
    pool: () => ({ stats_interval_ms: 300 }),
    routes: () => ({ [METRICS]: { body: sleepMetrics(true) } }),
  },
  ownPool: true,
  async run({ pool, fixture }) {
    pool.script({ a: serves(fixture, 'from a'), b: serves(fixture, 'from b') })
    await pool.askAt('a', fixture, { prompt: 'a long prompt '.repeat(500) })
    const cached = async (): Promise<number> => Number((await pool.view('a'))['cached_blocks'])
    await eventuallyTrue('blocks before the sleep', cached, (blocks) => blocks >= BLOCKS, `at least ${BLOCKS}`)
    putAwake(pool.engine('a'), false)
    // Workers read the state while requests come.
    const asleep = async () => (await pool.ask(fixture), (await pool.view('a')).asleep)
    await eventually('sleep', asleep, true)
    pool.script({ a: serves(fixture, 'from a'), b: serves(fixture, 'from b') })
    for (let sent = 0; sent < 6; sent++) expectEqual('status', (await pool.ask(fixture)).status, 200)
    expectEqual('requests to the sleeping engine', pool.posts('a').length, 0)
    putAwake(pool.engine('a'), true)
    await eventually('sleep', asleep, false)
    await eventuallyTrue('blocks after the sleep', cached, (blocks) => blocks < BLOCKS, 'none of the long prompt')
  },
}

/** Reads of the model list until discovery has shown what it asks for each time. */
const READS = 5

const s23: FieldCase = {
  plan: {
    letters: ['a'],
    pods: true,
    pool: () => ({ discover_interval_ms: 100 }),
    routes: (_letter, type, model) => ({
      ...contextRoutes(type, model, 8_000),
      [METRICS]: { body: sleepMetrics(true) },
    }),
    engine: () => ({ url: 'http://pods', discover: 'kubernetes', kubernetes: { selector: 'app=vllm', port: 'http' } }),
  },
  // A site of its own, whose gateway has a cluster.
  config: { log: { level: 'warn' } },
  async run({ pool, fixture }) {
    pool.script({ a: serves(fixture, 'from a') })
    expectEqual('status', (await pool.ask(fixture)).status, 200)
    const requestsOf = (path: string): number => pool.engine('a').calls.filter((call) => call === `GET ${path}`).length
    await eventuallyTrue(
      'reads of the models',
      () => requestsOf('/v1/models'),
      (reads) => reads >= READS,
      `at least ${READS}`,
    )
    expectEqual('reads of the sleep state', requestsOf('/is_sleeping'), 0)
  },
}

/** workerd shows a Worker only a reference, and logs the cause under it itself. */
const CAUSES = { node: /self[- ]signed certificate/, worker: /internal error; reference = \w+/ } as const

const o7: FieldCase = {
  plan: { letters: ['a'], secure: true, pool: () => ({ stats_interval_ms: 300 }) },
  async run({ pool, fixture, runtime }) {
    const causes = (): string[] =>
      pool
        .log()
        .split('\n')
        .filter((line) => line.includes('"health_check_failed"') && CAUSES[runtime].test(line))
    await eventually('lines with the cause', async () => (await pool.ask(fixture), causes().length), 1)
  },
}

export const probes: Readonly<Record<string, FieldCase>> = { S22: s22, S23: s23, O7: o7 }
