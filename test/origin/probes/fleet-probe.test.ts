import { describe, expect, it } from 'vitest'
import type { EngineSignal } from '../../../src/core/contract/engine-signal.ts'
import type { PoolRoute } from '../../../src/origin/pool-route.ts'
import { DigestCache } from '../../../src/origin/digests/digest-cache.ts'
import { FleetProbe } from '../../../src/origin/probes/fleet-probe.ts'
import { OriginError, type OriginAnswer, type OriginRequest } from '../../../src/ports/origin.ts'
import type { PoolPort } from '../../../src/ports/pool.ts'
import type { Ports } from '../../../src/ports.ts'
import { turns } from '../../wait.ts'
import { unusedPorts } from '../../kit/unused-ports.ts'

type Answers = Readonly<Record<string, { readonly status: number; readonly body?: string } | 'refuses' | 'hangs'>>

/** Models of engines whose model list a test answers. */
const VIA = '1.1 firstlight-00000000'
const MODEL_OF: Readonly<Record<string, string>> = { lists: 'm' }

function routeOf(engines: readonly string[], statsIntervalMs = 10_000): PoolRoute {
  const targets = new Map(
    engines.map((id) => [
      id,
      { kind: 'server', id, url: `http://${id}`, headers: [], binding: null, model: MODEL_OF[id] },
    ]),
  )
  return { cluster: { id: 'c', gateway: null }, pool: { model: 'm', statsIntervalMs }, targets } as unknown as PoolRoute
}

/** A fleet of two engines (or those named) with responses that a test sets, and a clock that it moves. */
class Bench {
  now = 0
  answers: Answers = {}
  readonly requested: string[] = []
  readonly warnings: (readonly [event: string, fields?: object | undefined])[] = []
  readonly signals: EngineSignal[] = []
  /** Engines that also serve other sources. */
  shared: readonly string[] = []
  fleet: FleetProbe
  route: PoolRoute
  readonly #ports: Ports

  /** Ends each request that hangs. */
  readonly hanging: (() => void)[] = []

  /** Number of queries sent at each turn of the event loop. */
  readonly byTurn: number[] = []

  constructor(engines: readonly string[] = ['a', 'b']) {
    this.route = routeOf(engines)
    this.#ports = {
      ...unusedPorts,
      pool: () =>
        ({
          observe: async (signals: readonly EngineSignal[]) => {
            this.signals.push(...signals)
            return this.shared.filter((id) => signals.some(({ engine }) => engine === id))
          },
        }) as Partial<PoolPort> as PoolPort,
      origin: { send: (request) => this.#send(request) },
      now: () => this.now,
      random: () => 0,
      newId: () => '',
      yieldToEventLoop: async () => void this.byTurn.push(this.requested.length),
      log: { debug: () => {}, info: () => {}, warn: (...line) => void this.warnings.push(line), error: () => {} },
    }
    this.fleet = new FleetProbe([this.route], this.#ports, {
      digests: new DigestCache({ ports: this.#ports }),
      via: VIA,
    })
  }

  /** Sets another configuration; responses to the previous probe may still arrive. */
  adopt(engines: readonly string[], statsIntervalMs?: number): void {
    this.route = routeOf(engines, statsIntervalMs)
    this.fleet = new FleetProbe([this.route], this.#ports, {
      digests: new DigestCache({ ports: this.#ports }),
      via: VIA,
      dueAt: this.fleet.dueAt,
    })
  }

  /** Queries of the round, and the reported health of each engine. */
  async round(): Promise<{ requested: string[]; healthy: Record<string, boolean> }> {
    this.requested.length = this.signals.length = 0
    await this.fleet.round()
    return {
      requested: [...this.requested].sort(),
      healthy: Object.fromEntries(
        this.signals.map((signal) => [signal.engine, signal.kind === 'probe' && signal.healthy]),
      ),
    }
  }

  async #send({ target, path }: OriginRequest): Promise<OriginAnswer> {
    this.requested.push(target.id + path)
    const answer = this.answers[target.id + path] ??
      (path === '/is_paused' ? { status: 404 } : null) ?? { status: 200, body: 'vllm:num_requests_running 2\n' }
    if (answer === 'hangs')
      return new Promise((_, reject) => this.hanging.push(() => reject(new OriginError('first_byte_timeout', 'late'))))
    if (answer === 'refuses') throw new OriginError('connect', 'refused')
    return {
      status: answer.status,
      headers: [],
      sse: false,
      read: async () => new TextEncoder().encode(answer.body ?? ''),
    } as Partial<OriginAnswer> as OriginAnswer
  }
}

describe('probes of a fleet', () => {
  it('probes of a fleet continue after a reload: engines that are new, back or due are probed at once, and no others', async () => {
    const bench = new Bench(['a', 'b'])
    const health = async () => (await bench.round()).requested.filter((path) => path.endsWith('/health'))
    await bench.round()
    const before = bench.fleet
    bench.adopt(['a', 'c'])
    expect(await health()).toEqual(['c/health'])
    before.probeSoon(bench.route, bench.route.targets.get('a')!)
    expect(await health()).toEqual(['a/health'])
    bench.adopt(['a', 'b', 'c'])
    expect(await health()).toEqual(['b/health'])
    bench.adopt(['a', 'b', 'c'], 5_000)
    expect(await health()).toHaveLength(3)
    expect(bench.fleet.dueAt.size).toBe(3)
  })

  it('probes of a fleet forget an engine that is gone before it has answered', async () => {
    const bench = new Bench(['a', 'b'])
    const round = bench.fleet.round()
    bench.adopt(['a'])
    await round
    expect(bench.fleet.dueAt.size).toBe(1)
  })

  it('request health and metrics of every engine once per interval', async () => {
    const bench = new Bench()
    expect(await bench.round()).toEqual({
      requested: ['a', 'b'].flatMap((id) =>
        ['health', 'is_paused', 'metrics', 'version'].map((path) => `${id}/${path}`),
      ),
      healthy: { a: true, b: true },
    })
    bench.now = 5_000
    expect((await bench.round()).requested).toEqual([])
    bench.now = 10_000
    expect((await bench.round()).requested).toHaveLength(4)
  })

  it('request the health of an unhealthy engine every second, and no metrics', async () => {
    const bench = new Bench()
    bench.answers = { 'a/health': 'refuses', 'b/health': { status: 503 } }
    expect(await bench.round()).toEqual({ requested: ['a/health', 'b/health'], healthy: { a: false, b: false } })
    bench.now = 1_000
    bench.answers = {}
    expect((await bench.round()).healthy).toEqual({ a: true, b: true })
    bench.now = 2_000
    expect((await bench.round()).requested).toEqual([])
  })

  it('find an engine healthy a second after it was, although earlier checks of it still hang', async () => {
    const bench = new Bench(['a'])
    const healthAt = async (now: number): Promise<boolean | undefined> => {
      bench.now = now
      bench.signals.length = 0
      void bench.fleet.round()
      await turns()
      const [signal] = bench.signals
      return signal?.kind === 'probe' ? signal.healthy : undefined
    }
    bench.answers = { 'a/health': 'refuses' }
    expect(await healthAt(0)).toBe(false)
    bench.answers = { 'a/health': 'hangs' }
    for (const now of [1_000, 2_000]) expect(await healthAt(now)).toBeUndefined()
    bench.answers = {}
    expect(await healthAt(2_500)).toBeUndefined()
    expect(await healthAt(3_000)).toBe(true)
    bench.signals.length = 0
    for (const end of bench.hanging) end()
    await turns()
    expect(bench.signals).toEqual([])
    expect(await healthAt(5_000)).toBeUndefined()
    expect(await healthAt(13_000)).toBe(true)
  })

  it('request the metrics of an engine that also serves other sources 80 times a second in total', async () => {
    const bench = new Bench(Array.from({ length: 10 }, (_, at) => `e${at}`))
    bench.shared = ['e3']
    await bench.round()
    bench.now = 75
    expect((await bench.round()).requested).toEqual([])
    bench.now = 125
    bench.shared = []
    expect((await bench.round()).healthy).toEqual({ e3: true })
    bench.now = 250
    expect((await bench.round()).requested).toEqual([])
  })

  it('probes of a fleet warn of the cause of a failed health check once, and again after it has passed', async () => {
    const bench = new Bench(['a'])
    const causes = async (answer: Answers[string]) => {
      bench.answers = { 'a/health': answer }
      bench.now += 10_000
      await bench.round()
      return bench.warnings
        .splice(0)
        .filter(([event]) => event === 'health_check_failed')
        .map(([, fields]) => JSON.stringify(fields, (_, value) => (value instanceof Error ? value.message : value)))
    }
    expect(await causes('refuses')).toEqual(['{"engine":"a","path":"/health","problem":"connect","error":"refused"}'])
    expect(await causes('refuses')).toEqual([])
    expect(await causes({ status: 503 })).toEqual([])
    expect(await causes({ status: 200 })).toEqual([])
    expect(await causes({ status: 503 })).toEqual(['{"engine":"a","path":"/health","problem":"status_503"}'])
  })

  it('report why an engine is unhealthy, and its version once it is not', async () => {
    const bench = new Bench(['a'])
    const signals = async () => (await bench.round(), bench.signals[0])
    bench.answers = { 'a/health': { status: 503 } }
    expect(await signals()).toMatchObject({ healthy: false, problem: 'status_503' })
    bench.now = 1_000
    bench.answers = { 'a/health': 'refuses' }
    expect(await signals()).toMatchObject({ healthy: false, problem: 'connect' })
    bench.now = 2_000
    bench.answers = { 'a/version': { status: 200, body: '{"version":"0.32.0"}' } }
    expect(await signals()).toMatchObject({ healthy: true, version: '0.32.0' })
    bench.now = 12_000
    bench.answers = { 'a/version': 'refuses' }
    expect(await signals()).toMatchObject({ healthy: true, version: '0.32.0' })
    expect(bench.signals[0]).not.toHaveProperty('problem')
  })

  it('probes of a fleet do not show a version that could be anything else', async () => {
    const bench = new Bench(['a'])
    bench.answers = { 'a/version': { status: 200, body: '{"version":"<b>http://10.0.0.1</b>"}' } }
    await bench.round()
    expect(bench.signals[0]).not.toHaveProperty('version')
  })

  it('probes of a fleet start a few at a time, so that the failures of a whole fleet are spread over turns', async () => {
    const engines = Array.from({ length: 35 }, (_, i) => `e${i}`)
    const bench = new Bench(engines)
    bench.answers = Object.fromEntries(engines.map((id) => [`${id}/health`, 'refuses']))
    const first = bench.round()
    // A round that starts meanwhile sends no second query.
    await bench.fleet.round()
    expect(Object.keys((await first).healthy)).toHaveLength(35)
    expect(bench.requested).toHaveLength(35)
    expect(bench.byTurn).toEqual([10, 20, 30])
  })

  it('probes of a fleet probe an engine that failed a request in the next round', async () => {
    const bench = new Bench()
    await bench.round()
    bench.now = 1_000
    bench.fleet.probeSoon(bench.route, bench.route.targets.get('b')!)
    expect((await bench.round()).requested).toEqual(['b/health', 'b/metrics'])
  })

  it('probes of a fleet count an engine without the routes as healthy, without statistics', async () => {
    const bench = new Bench()
    bench.answers = { 'a/health': { status: 404 }, 'a/metrics': { status: 401 } }
    await bench.round()
    expect(bench.signals.find(({ engine }) => engine === 'a')).toEqual({
      kind: 'probe',
      engine: 'a',
      at: 0,
      sentAt: 0,
      healthy: true,
      asleep: false,
      stats: null,
    })
  })

  it('probes of a fleet check whether an engine is paused if it has the route, and count a paused one as asleep', async () => {
    const bench = new Bench()
    bench.answers = { 'a/is_paused': { status: 200, body: '{"is_paused":true}' } }
    const asleep = async () => {
      const { requested } = await bench.round()
      return {
        requested: requested.filter((path) => path.endsWith('/is_paused')),
        asleep: bench.signals.map((signal) => signal.kind === 'probe' && signal.asleep && signal.engine),
      }
    }
    expect(await asleep()).toEqual({ requested: ['a/is_paused', 'b/is_paused'], asleep: ['a', false] })
    bench.now = 10_000
    bench.answers = { 'a/is_paused': { status: 200, body: '{"is_paused":false}' } }
    expect(await asleep()).toEqual({ requested: ['a/is_paused'], asleep: [false, false] })
    bench.now = 20_000
    bench.answers = { 'a/is_paused': 'refuses', 'b/health': 'refuses' }
    expect(await asleep()).toEqual({ requested: ['a/is_paused'], asleep: [false, false] })
    bench.now = 21_000
    bench.answers = { 'b/is_paused': { status: 200, body: '{"is_paused": true}' } }
    // Only b is due; it may have been restarted in another mode.
    expect(await asleep()).toEqual({ requested: ['b/is_paused'], asleep: ['b'] })
  })
})

describe('probes of an engine whose metrics are at another path', () => {
  const trtllm = { status: 200, body: 'trtllm_num_requests_running 3\ntrtllm_num_requests_waiting 1\n' }
  const loadOf = (bench: Bench) =>
    bench.signals.map((signal) => (signal.kind === 'probe' ? (signal.stats?.running ?? null) : null))

  it('probes of metrics at another path read the JSON of TensorRT-LLM once, because each read removes it, and its other path from then on', async () => {
    const bench = new Bench(['a'])
    bench.answers = { 'a/metrics': { status: 200, body: '[{"numActiveRequests": 1}]' }, 'a/prometheus/metrics': trtllm }
    expect((await bench.round()).requested).toEqual(['a/health', 'a/metrics', 'a/prometheus/metrics', 'a/version'])
    expect(loadOf(bench)).toEqual([3])
    bench.now += 10_000
    expect((await bench.round()).requested).toEqual(['a/health', 'a/prometheus/metrics'])
    expect(loadOf(bench)).toEqual([3])
  })

  it('probes of metrics at another path ask for the other path once if there is none, as with Ollama', async () => {
    const bench = new Bench(['a'])
    bench.answers = {
      'a/metrics': { status: 404 },
      'a/prometheus/metrics': { status: 404 },
      'a/v1/models': { status: 200, body: '{"data":[{"id":"m","owned_by":"library"}]}' },
    }
    await bench.round()
    bench.now += 10_000
    bench.answers = { ...bench.answers, 'a/api/version': { status: 200, body: '{"version":"0.9.0"}' } }
    expect((await bench.round()).requested).toEqual(['a/api/version', 'a/metrics'])
    expect(loadOf(bench)).toEqual([null])
  })

  it('look again when the engine returns after a failure, because it may be another one', async () => {
    const bench = new Bench(['a'])
    bench.answers = { 'a/metrics': { status: 404 }, 'a/prometheus/metrics': trtllm }
    await bench.round()
    bench.now += 10_000
    bench.answers = { 'a/health': 'refuses' }
    await bench.round()
    bench.now += 10_000
    bench.answers = {}
    expect((await bench.round()).requested).toContain('a/metrics')
    expect(loadOf(bench)).toEqual([2])
  })
})

describe('a route that an engine lacked at its first probe', () => {
  const TEN_MINUTES = 600_000

  it('a missing route is asked for again after ten minutes: the engine may have been replaced between two probes', async () => {
    const bench = new Bench(['a'])
    const lacks = { status: 404 }
    bench.answers = { 'a/version': lacks, 'a/is_paused': lacks }
    const extraPaths = async () => (await bench.round()).requested.filter((path) => !/health|metrics/.test(path))
    expect(await extraPaths()).toEqual(['a/is_paused', 'a/version'])
    bench.now = TEN_MINUTES - 1_000
    expect(await extraPaths()).toEqual([])
    bench.now = TEN_MINUTES + 10_000
    bench.answers = {
      'a/version': { status: 200, body: '{"version":"0.33.0"}' },
      'a/is_paused': { status: 200, body: '{"is_paused":true}' },
    }
    expect(await extraPaths()).toEqual(['a/is_paused', 'a/version'])
    expect(bench.signals[0]).toMatchObject({ version: '0.33.0', asleep: true })
  })

  it('a missing route is asked for again, too, if it has the metrics', async () => {
    const bench = new Bench(['a'])
    const none = { status: 404 }
    bench.answers = { 'a/metrics': none, 'a/prometheus/metrics': none }
    const extraPaths = async () => (await bench.round()).requested.filter((path) => path.endsWith('metrics'))
    expect(await extraPaths()).toHaveLength(2)
    bench.now = TEN_MINUTES - 1_000
    expect(await extraPaths()).toEqual(['a/metrics'])
    bench.now = TEN_MINUTES + 10_000
    bench.answers = {
      ...bench.answers,
      'a/prometheus/metrics': { status: 200, body: 'trtllm_num_requests_running 3\n' },
    }
    expect(await extraPaths()).toHaveLength(2)
    expect(bench.signals[0]).toMatchObject({ stats: { running: 3 } })
  })

  it('a missing route shows a new version after ten minutes, and is not asked for in between', async () => {
    const bench = new Bench(['a'])
    const version = (text: string) => ({ 'a/version': { status: 200, body: `{"version":"${text}"}` } })
    bench.answers = version('0.32.0')
    await bench.round()
    bench.answers = version('0.33.0')
    bench.now = TEN_MINUTES - 1_000
    await bench.round()
    expect(bench.signals[0]).toMatchObject({ version: '0.32.0' })
    bench.now = TEN_MINUTES + 10_000
    await bench.round()
    expect(bench.signals[0]).toMatchObject({ version: '0.33.0' })
  })
})

describe('the model list of an engine', () => {
  const list = (...cards: object[]) => ({
    'lists/v1/models': { status: 200, body: JSON.stringify({ data: cards }) },
  })
  const listReads = async (bench: Bench) =>
    (await bench.round()).requested.filter((path) => path.endsWith('/v1/models')).length
  const context = (bench: Bench) => bench.signals.map((signal) => signal.kind === 'probe' && signal.contextTokens)

  it('the model list of an engine is read again each half minute while the model is not in it', async () => {
    const bench = new Bench(['lists'])
    bench.answers = list({ id: 'other', max_model_len: 10 })
    expect([await listReads(bench), context(bench)]).toEqual([1, [undefined]])
    bench.now = 20_000
    bench.answers = list({ id: 'm', max_model_len: 4096 })
    expect([await listReads(bench), context(bench)]).toEqual([0, [undefined]])
    bench.now = 31_000
    expect([await listReads(bench), context(bench)]).toEqual([1, [4096]])
    bench.now = 62_000
    expect([await listReads(bench), context(bench)]).toEqual([0, [4096]])
  })

  it('the model list of an engine is read again after a request failed there, such as by 404 for the model', async () => {
    const bench = new Bench(['lists'])
    bench.answers = list({ id: 'm', max_model_len: 4096 })
    expect(await listReads(bench)).toBe(1)
    bench.now = 1_000
    bench.answers = list({ id: 'm', max_model_len: 8192 })
    bench.fleet.probeSoon(bench.route, bench.route.targets.get('lists')!)
    expect([await listReads(bench), context(bench)]).toEqual([1, [8192]])
  })
})

describe('the type of an engine', () => {
  const SGLANG = 'sglang:num_running_reqs 1\nsglang:num_queue_reqs 0\n'

  it('the type of an engine is found by its metrics, and its own health checks follow: SGLang is asked at /ready, and rarely at /health', async () => {
    const bench = new Bench(['a'])
    bench.answers = { 'a/metrics': { status: 200, body: SGLANG } }
    const health = async () => (await bench.round()).requested.filter((path) => /ready|health/.test(path))
    expect(await health()).toEqual(['a/health'])
    bench.now += 10_000
    expect(await health()).toEqual(['a/health', 'a/ready'])
    bench.now += 10_000
    expect(await health()).toEqual(['a/ready'])
    bench.now += 20_000
    bench.answers = { ...bench.answers, 'a/health': { status: 503 } }
    expect(await health()).toEqual(['a/health', 'a/ready'])
    bench.now += 10_000
    await bench.round()
    expect(bench.signals[0]).toMatchObject({ healthy: false, problem: 'status_503' })
    bench.now += 10_000
    bench.answers = { 'a/metrics': { status: 200, body: SGLANG } }
    await bench.round()
    bench.now += 1_000
    await bench.round()
    expect(bench.signals[0]).toMatchObject({ healthy: true })
  })

  it('the type of an engine is read from the model list once, where the metrics do not show it', async () => {
    const bench = new Bench(['a'])
    bench.answers = {
      'a/metrics': { status: 501 },
      'a/v1/models': { status: 200, body: '{"data":[{"id":"m","owned_by":"llamacpp"}]}' },
      'a/props': { status: 200, body: '{"build_info":"b6000-abc"}' },
    }
    expect((await bench.round()).requested).toEqual(['a/health', 'a/metrics', 'a/props', 'a/v1/models'])
    expect(bench.signals[0]).toMatchObject({ version: 'b6000-abc' })
    bench.now += 10_000
    expect((await bench.round()).requested).toEqual(['a/health', 'a/metrics'])
  })

  it('the type of an engine is read again after a failure, and changes with the metrics', async () => {
    const bench = new Bench(['a'])
    bench.answers = { 'a/metrics': { status: 200, body: SGLANG } }
    await bench.round()
    bench.now += 10_000
    bench.answers = {}
    expect((await bench.round()).requested).toEqual(
      ['health', 'is_paused', 'metrics', 'ready', 'version'].map((path) => `a/${path}`),
    )
  })
})
