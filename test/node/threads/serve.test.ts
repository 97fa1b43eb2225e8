/**
 * A gateway on two I/O threads. Every request uses its own connection; the system distributes connections at random.
 */
import http from 'node:http'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { parseConfig } from '../../../src/config/parse.ts'
import { openLog } from '../../../src/platform/node/log.ts'
import {
  startThreads,
  type RunningThreads,
  type ThreadsOptions,
} from '../../../src/platform/node/threads/start-threads.ts'
import { explainSystemError } from '../../../src/platform/node/system-error.ts'
import { withRecording } from '../../../src/platform/node/recorded-pool.ts'
import type { FakeAnswer } from '../../kit/fake-answer.ts'
import type { EngineRequest } from '../../kit/engine-request.ts'
import { HeldEngine } from '../../kit/held-engine.ts'
import { completion, token } from '../../kit/sse.ts'
import { until } from '../../wait.ts'

const never = new AbortController().signal
/** This many connections reach only one of two threads with a probability of 1 in 2 thousand million. */
const MANY = 32

const STORED = {
  id: 'resp_1',
  object: 'response',
  status: 'completed',
  output: [],
  usage: { input_tokens: 4, output_tokens: 1, total_tokens: 5 },
}

/** Engines `/a` and `/b` at one address: the test ends streams, and responses are stored. */
function answerOf(held: HeldEngine, request: EngineRequest): FakeAnswer | Promise<FakeAnswer> {
  const [, , ...path] = request.path.split('/')
  const at = path.join('/')
  if (at.startsWith('v1/responses')) return { body: STORED }
  if (at !== 'v1/chat/completions') return { body: {} }
  return request.text.includes('"stream":true') ? held.hold(request) : { body: completion() }
}

let engine: HeldEngine
let lines: string[]
let gateway: RunningThreads

beforeEach(async () => {
  engine = await HeldEngine.open({
    opening: token('hello'),
    routes: (held) => ({ '*': (request) => answerOf(held, request) }),
  })
  lines = []
  gateway = await start()
})

afterEach(async () => {
  engine.finish()
  await gateway.stop(AbortSignal.abort())
  await engine.close()
})

function start(more: object = {}, options: Partial<ThreadsOptions> = {}): Promise<RunningThreads> {
  const config = parseConfig(
    {
      listen: '127.0.0.1:0',
      log: { level: 'silent' },
      ttft: { enabled: true },
      clusters: [
        {
          id: 'one',
          pools: [
            // The times of a busy machine choose no engine.
            {
              model: 'm',
              policy: 'least_loaded',
              engines: ['a', 'b'].map((id) => ({ id, url: `${engine.url}/${id}` })),
            },
          ],
        },
      ],
      limits: { drain_ms: 60_000 },
      ...more,
    },
    {},
    { defaultVersion: 1, defaultObserveShare: 1, listens: true },
  )
  return startThreads(config, openLog('debug', { write: (line) => void lines.push(line) }), { count: 2, ...options })
}

describe('a gateway on two threads', () => {
  it('a gateway on two threads answers on both, with one pool state', async () => {
    const streams = await many(() => stream())
    expect(streams.map(({ status }) => status)).toEqual(Array(MANY).fill(200))
    expect(served()).toEqual({ a: MANY / 2, b: MANY / 2 })
    expect(await bookings()).toEqual(Array(MANY).fill(MANY))
    engine.finish()
    for (const { text } of streams) expect(await text).toMatch(/hello[^]*\[DONE\]/)
    await until(async () => (await bookings()).every((count) => count === 0))
  })

  it('a gateway on two threads returns a decision and a request on any thread', async () => {
    const { headers } = await plain('x-request-id: mine')
    const id = String(headers['x-firstlight-decision'])
    // The outcome is recorded shortly after the last byte.
    await until(async () => (await call('GET', `/v1/firstlight/decisions/${id}`)).text.includes('complete'))
    for (const answer of await many(() => call('GET', `/v1/firstlight/decisions/${id}`)))
      expect(answer.json).toMatchObject({ id, actual: { result: 'complete' } })
    for (const answer of await many(() => call('GET', '/v1/firstlight/requests/mine')))
      expect(answer.json).toMatchObject({ request: { id, status: 200 }, decision: { id } })
    expect((await call('GET', '/v1/firstlight/requests/nobodys')).status).toBe(404)
  })

  it('a gateway on two threads counts the requests of all threads in the metrics of any', async () => {
    await many(() => plain())
    for (const { text } of await many(() => call('GET', '/metrics'))) {
      const found = [...text.matchAll(/^firstlight_requests_total\{.*result="complete"\} (\d+)$/gm)].map(([, count]) =>
        Number(count),
      )
      expect(found.reduce((sum, count) => sum + count, 0)).toBe(MANY)
    }
  })

  it('a gateway on two threads finds a stored response again on every thread, and forgets it on all', async () => {
    await call('POST', '/v1/responses', { model: 'm', input: 'hi', store: true })
    for (const { status } of await many(() =>
      call('POST', '/v1/responses', { model: 'm', input: 'and', previous_response_id: 'resp_1' }),
    ))
      expect(status).toBe(200)
    expect((await call('DELETE', '/v1/responses/resp_1')).status).toBe(200)
    for (const { status } of await many(() => call('GET', '/v1/responses/resp_1'))) expect(status).toBe(404)
  })

  it('a gateway on two threads joins the reports that came in on different threads', async () => {
    await many((at) =>
      call(
        'POST',
        '/ttft_report',
        at % 2 === 0
          ? { role: 'pd', request_id: 'r', prefill_queue_time_ms: 2 }
          : { role: 'pd', request_id: 'r', prefill_compute_time_ms: 40 },
      ),
    )
    for (const { json } of await many(() => call('GET', '/ttft_report/r')))
      expect(json).toMatchObject({ combined: { prefill_queue_time_ms: 2, prefill_compute_time_ms: 40 } })
  })

  it('a gateway on two threads returns a request with its report on every thread as soon as the response is complete', async () => {
    await plain('x-request-id: mine')
    for (const { json } of await many(() => call('GET', '/ttft_report/mine')))
      expect(json).toMatchObject({ request_id: 'mine' })
  })

  it('a gateway on two threads drains an engine for all threads', async () => {
    await call('POST', '/v1/firstlight/engines/a/drain')
    await many(() => plain())
    expect(served()).toEqual({ b: MANY })
  })

  it('a gateway on two threads reports a refused configuration on every thread, until another one is adopted', async () => {
    gateway.configRefused(1_700_000_000_000)
    await until(async () => (await refusals()).every((at) => at === 1_700_000_000_000))
    gateway.configRefused(null)
    await until(async () => (await refusals()).every((at) => at === undefined))
  })

  it('a gateway on two threads records the admissions of all threads, once each', async () => {
    await gateway.stop(never)
    const written: string[] = []
    gateway = await start(
      {},
      {
        hooks: {
          middleware: (cluster, { blockTokens }) =>
            withRecording(cluster, {
              salt: 1,
              blockTokens,
              now: () => Date.now(),
              write: (line) => written.push(line),
            }),
        },
      },
    )
    await many(() => plain())
    await gateway.stop(never)
    expect(written.map((line) => (JSON.parse(line) as { input_length: number }).input_length)).toEqual(
      Array(MANY).fill(4),
    )
  })

  it('a gateway on two threads accepts reports on their own port too', async () => {
    await gateway.stop(never)
    gateway = await start({ ttft: { enabled: true, listen: '127.0.0.1:0' } })
    const report = { role: 'pd', request_id: 'r', prefill_queue_time_ms: 2 }
    const answer = await fetch(`http://${gateway.reports}/ttft_report`, {
      method: 'POST',
      body: JSON.stringify(report),
    })
    expect(answer.status).toBe(200)
    for (const { status } of await many(() => call('GET', '/ttft_report/r'))) expect(status).toBe(200)
  })

  it('a gateway on two threads probes its engines once, not once per thread', async () => {
    await until(async () => probes() >= 2)
    await many(() => plain())
    // Both engines of the test have one address.
    expect(probes()).toBe(2)
  })
})

describe('a thread that dies', () => {
  it('a dead thread loses its own streams and their bookings at once, and nothing else', async () => {
    const streams = await many(() => stream())
    const ends = streams.map(({ text }) =>
      text.then(
        () => 'whole',
        () => 'broken',
      ),
    )
    await gateway.kill(1)
    expect(await Promise.race(ends)).toBe('broken')
    const { released } = JSON.parse(lines.find((line) => line.includes('thread_exited'))!) as { released: number }
    expect(released).toBeGreaterThan(0)
    expect(released).toBeLessThan(MANY)
    // Possibly only the other thread listens by now; both return the same.
    expect((await bookings())[0]).toBe(MANY - released)
    engine.finish()
    const counts = (await Promise.all(ends)).reduce<Record<string, number>>(
      (sum, end) => ({ ...sum, [end]: (sum[end] ?? 0) + 1 }),
      {},
    )
    expect(counts).toEqual({ broken: released, whole: MANY - released })
    await until(async () => lines.some((line) => line.includes('thread_restarted')))
    for (const { status } of await many(() => plain())) expect(status).toBe(200)
    await until(async () => (await bookings()).every((count) => count === 0))
  })

  it('a dead thread reports a configuration that was refused before it restarted', async () => {
    gateway.configRefused(1_700_000_000_000)
    await gateway.kill(1)
    await until(async () => lines.some((line) => line.includes('thread_restarted')))
    await until(async () => (await refusals()).every((at) => at === 1_700_000_000_000))
  })
})

describe('two threads that are stopped', () => {
  it('finish all streams, and accept no new requests', async () => {
    const streams = await many(() => stream())
    const stopping = gateway.stop(never)
    await until(() =>
      plain().then(
        () => false,
        () => true,
      ),
    )
    engine.finish()
    for (const { text } of streams) expect(await text).toMatch(/hello[^]*world[^]*\[DONE\]/)
    expect(await stopping).toEqual({ timedOut: false })
  })

  it('cut running streams at the second signal', async () => {
    const streams = await many(() => stream())
    const now = new AbortController()
    const stopping = gateway.stop(now.signal)
    now.abort()
    expect(await stopping).toEqual({ timedOut: true })
    for (const { text } of streams) await expect(text).rejects.toThrow()
  })
})

describe('a start that fails', () => {
  it('a failed start reports a port in use, also by a gateway that would share it', async () => {
    const error: unknown = await start({ listen: new URL(gateway.url).host }).catch((reason: unknown) => reason)
    expect(explainSystemError(error)).toMatch(/^Another process listens on 127\.0\.0\.1:\d+ already/)
  })

  it('a failed start names the vocabulary that is missing', async () => {
    const pools = [{ model: 'm', tokenizer: 'nowhere.vocab', engines: [{ id: 'a', url: engine.url }] }]
    await expect(start({ clusters: [{ id: 'one', pools }] })).rejects.toThrow(/nowhere\.vocab/)
  })
})

const many = <Answer>(ask: (at: number) => Promise<Answer>): Promise<Answer[]> =>
  Promise.all(Array.from({ length: MANY }, (_, at) => ask(at)))

interface StartedAnswer {
  readonly status: number
  readonly headers: http.IncomingHttpHeaders
  /** Rejects if the response is cut. */
  readonly text: Promise<string>
}

/** Sends a request on its own connection. Resolves with the head. */
function begin(method: string, path: string, body?: object, header?: string): Promise<StartedAnswer> {
  const [name, value] = header?.split(': ') ?? []
  const headers = { 'content-type': 'application/json', ...(name === undefined ? {} : { [name]: value }) }
  return new Promise((resolve, reject) => {
    const request = http.request(gateway.url + path, { method, agent: false, headers })
    request.on('error', reject)
    request.on('response', (response) => {
      const text = (async () => {
        let all = ''
        for await (const bytes of response) all += String(bytes)
        return all
      })()
      text.catch(() => {})
      resolve({ status: response.statusCode!, headers: response.headers, text })
    })
    request.end(body === undefined ? undefined : JSON.stringify(body))
  })
}

async function call(...request: Parameters<typeof begin>) {
  const { status, headers, text } = await begin(...request)
  const all = await text
  return { status, headers, text: all, json: all.startsWith('{') ? (JSON.parse(all) as unknown) : null }
}

const messages = [{ role: 'user', content: 'hi' }]
const stream = () => begin('POST', '/v1/chat/completions', { model: 'm', stream: true, messages })
const plain = (header?: string) => call('POST', '/v1/chat/completions', { model: 'm', messages }, header)

/** Health checks that the engines got. */
const probes = (): number => engine.engine.requests.filter(({ path }) => path.endsWith('/health')).length

/** Requests by engine. */
function served(): Record<string, number> {
  const counts: Record<string, number> = {}
  const isRequest = ({ path, isTrial }: EngineRequest): boolean => path.endsWith('/v1/chat/completions') && !isTrial
  for (const { path } of engine.engine.posts.filter(isRequest)) {
    const name = path.split('/')[1]!
    counts[name] = (counts[name] ?? 0) + 1
  }
  return counts
}

/** When a configuration was refused, as each thread reports it. */
async function refusals(): Promise<(number | undefined)[]> {
  const views = await many(() => call('GET', '/v1/firstlight/fleet'))
  return views.map(({ json }) => (json as { config_refused_at?: number }).config_refused_at)
}

/** Bookings of the pool, read on many connections. */
async function bookings(): Promise<number[]> {
  const views = await many(() => call('GET', '/v1/firstlight/fleet'))
  return views.map(({ json }) => (json as { pools: { bookings: number }[] }).pools[0]!.bookings)
}
