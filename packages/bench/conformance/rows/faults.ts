/** Clients that disconnect, engines that stop, and bodies that would end an engine. */
import { setTimeout as sleep } from 'node:timers/promises'
import { servedModel } from '../engine.ts'
import { boundedAnswerMs } from '../fleets.ts'
import type { GatewayKind } from '../gateway.ts'
import { dispatch, open, send } from '../http.ts'
import type { HttpRequest } from '../http.ts'
import { normalise } from '../normaliser.ts'
import { check } from '../row.ts'
import type { Lab, Row } from '../row.ts'
import { until } from '../until.ts'
import { brief, direct, endless, engines, through, total } from './asks.ts'
import { endsAlike } from '../steady.ts'
import { shortened, writeCorpus } from './streams.ts'
import { readAll } from '../read-all.ts'

/** Time for which an engine may still work after its client has left. On Workers a heartbeat has to fail first. */
const freedWithinMs: Record<GatewayKind, number> = { node: 100, worker: 2000 }

export function faultRows(kind: GatewayKind): Row[] {
  const limit = freedWithinMs[kind]
  return [
    {
      name: `${kind}-abort`,
      says:
        `A client disconnect from ${kind === 'node' ? 'a stream or a whole answer' : 'a stream'} (${kind}) frees ` +
        `the engine at most ${limit} ms later than a disconnect from the engine itself (its ` +
        'num_requests_running, best of 5 each).',
      run: async (lab) => {
        const seen: string[] = []
        let late = 0
        // workerd on this machine detects a client's disconnect only when it writes: a response in one piece runs to
        // its end.
        const asks =
          kind === 'node'
            ? ([
                ['streaming', { ...endless, stream: true }],
                ['whole answer', endless],
              ] as const)
            : ([['streaming', { ...endless, stream: true }]] as const)
        for (const [what, body] of asks) {
          const alone = await freedAfter(lab, direct((await engines(lab))[0]!, body))
          const passed = await freedAfter(lab, await through(lab, kind, body))
          late = Math.max(late, passed - alone)
          seen.push(`${what} ${ms(passed)}, without the gateway ${ms(alone)}`)
        }
        check(late <= limit, seen.join('; '))
        return seen.join('; ')
      },
    },
    {
      name: `${kind}-abort-whole`,
      says:
        `A client disconnect from a whole answer (${kind}) frees the engine at the latest after answer_ms ` +
        `(${boundedAnswerMs} ms here).`,
      run: async (lab) => abortWhole(lab, kind),
    },
    {
      name: `${kind}-abort-waiting`,
      says: `A client disconnect (${kind}) while the request waits in the engine's queue frees its slot.`,
      run: async (lab) => abortWaiting(lab, kind),
    },
  ]
}

/** These need an engine that clients could end. */
export function hostileRow(kind: GatewayKind): Row {
  return {
    name: `${kind}-hostile`,
    says:
      `kv_transfer_params of a client (${kind}), in any spelling, are removed: an engine with NIXL, which they ` +
      'would crash, survives.',
    run: async (lab) => hostile(lab, kind),
  }
}

/** Ends the engine with NIXL: the last row. */
export function engineDies(kind: GatewayKind): Row {
  return {
    name: `${kind}-engine-dies`,
    says:
      `When an engine dies, its stream (${kind}) ends with an error event, and the other engine serves all later ` +
      'requests.',
    run: async (lab) => die(lab, kind),
  }
}

const hostileParams = { do_remote_prefill: true }

async function freedAfter(lab: Lab, ask: HttpRequest): Promise<number> {
  const both = await engines(lab)
  const times: number[] = []
  for (let round = 0; round < 5; round++) {
    await until(async () => (await total(both, 'vllm:num_requests_running')) === 0, 'idle engines')
    const request = dispatch(ask)
    let busyOne = both[0]!
    await until(async () => {
      for (const engine of both) if ((await engine.metric('vllm:num_requests_running')) === 1) busyOne = engine
      return (await busyOne.metric('vllm:num_requests_running')) === 1
    }, 'the request to run')
    await sleep(50)
    request.destroy()
    times.push(
      await until(async () => (await busyOne.metric('vllm:num_requests_running')) === 0, 'the engine to be free', {
        everyMs: 0,
      }),
    )
  }
  return Math.min(...times)
}

/** Additional time of the engine and of the probe of its metrics. */
const SLACK_MS = 2_000

async function abortWhole(lab: Lab, kind: GatewayKind): Promise<string> {
  const both = await engines(lab)
  await until(async () => (await total(both, 'vllm:num_requests_running')) === 0, 'idle engines')
  const ask = await through(lab, kind, endless, { fleet: 'bounded' })
  const sentAt = performance.now()
  const request = dispatch(ask)
  await until(async () => (await total(both, 'vllm:num_requests_running')) === 1, 'the request to run')
  request.destroy()
  await until(async () => (await total(both, 'vllm:num_requests_running')) === 0, 'the engine to be free', {
    limitMs: 60_000,
  })
  const freedAfterMs = performance.now() - sentAt
  const result = `free ${ms(freedAfterMs)} after the request was sent`
  check(freedAfterMs <= boundedAnswerMs + SLACK_MS, result)
  return result
}

async function abortWaiting(lab: Lab, kind: GatewayKind): Promise<string> {
  const both = await engines(lab)
  // Four run in each engine; later requests wait.
  const held = both.flatMap((engine) =>
    Array.from({ length: 4 }, () => dispatch(direct(engine, { ...endless, stream: true }))),
  )
  try {
    await until(async () => (await total(both, 'vllm:num_requests_running')) === 8, 'both engines to be full')
    const request = dispatch(await through(lab, kind, { ...endless, stream: true }))
    await until(async () => (await total(both, 'vllm:num_requests_waiting')) === 1, 'the request to wait')
    request.destroy()
    const freed = await until(
      async () => (await total(both, 'vllm:num_requests_waiting')) === 0,
      'the place to be free',
      { everyMs: 0 },
    )
    check((await total(both, 'vllm:num_requests_running')) === 8, 'the place was free because another request ended')
    return `gone ${ms(freed)} later`
  } finally {
    for (const request of held) request.destroy()
    await until(async () => (await total(both, 'vllm:num_requests_running')) === 0, 'idle engines')
  }
}

const DIED = 'sse/engine-died.sse'

async function hostile(lab: Lab, kind: GatewayKind): Promise<string> {
  const both = [await lab.engine('a'), await lab.engine('nixl')]
  const params = JSON.stringify(hostileParams)
  const rest = JSON.stringify(brief).slice(1)
  const chat = JSON.stringify({
    model: servedModel,
    messages: [{ role: 'user', content: 'hello' }],
    max_tokens: 2,
  }).slice(1)
  const bodies: readonly [path: string, text: string][] = [
    ['/v1/completions', `{"kv_transfer_params":${params},${rest}`],
    ['/v1/completions', `{"kv\\u005ftransfer_params":${params},${rest}`],
    ['/v1/completions', `{ "kv_transfer_params" : null, "kv_transfer_params" : ${params} ,${rest}`],
    ['/v1/completions', `${JSON.stringify(brief).slice(0, -1)},"\\u006bv_transfer_params":${params}}`],
    ['/v1/completions', `{"ec_transfer_params":${params},"kv_transfer_params":${params},${rest}`],
    ['/v1/chat/completions', `{"kv_transfer_params":${params},${chat}`],
    ['/v1/messages', `{"kv_transfer_params":${params},${chat}`],
    ['/v1/chat/completions', `{"vllm_xargs":{"kv_transfer_params":"x"},${chat}`],
    ['/v1/completions', `{"vllm_xargs":{"kv_transfer_params":["do_remote_prefill"]},${rest}`],
  ]
  const statuses: number[] = []
  for (const [path, text] of bodies) {
    // Round robin: one of two requests goes to the engine with NIXL.
    for (let twice = 0; twice < 2; twice++)
      statuses.push((await send(await through(lab, kind, text, { path, fleet: 'nixl' }))).status)
    const alive = await Promise.all(
      both.map(({ url }) =>
        send({ url, method: 'GET', path: '/health' }).then(
          ({ status }) => status === 200,
          () => false,
        ),
      ),
    )
    check(alive.every(Boolean), `an engine is dead after ${text}`)
  }
  check(
    statuses.every((status) => status < 500),
    `statuses ${statuses.join(' ')}`,
  )
  return `${bodies.length} bodies, twice each: statuses ${[...new Set(statuses)].join(' ')}; both engines live`
}

async function die(lab: Lab, kind: GatewayKind): Promise<string> {
  const victim = await lab.engine('nixl')
  // Two streams, one on each engine, and one directly on the engine that is killed.
  const streams = await Promise.all(
    [1, 2].map(async () =>
      open({ ...(await through(lab, kind, { ...endless, stream: true }, { fleet: 'nixl' })), limitMs: 60_000 }),
    ),
  )
  const doomed = streams.find(({ response }) => response.headers['x-firstlight-engine'] === 'nixl')
  check(doomed !== undefined, 'neither stream went to the engine with NIXL')
  for (const stream of streams) if (stream !== doomed) stream.sent.on('error', () => {}).destroy()
  const alone = readAll((await open({ ...direct(victim, { ...endless, stream: true }), limitMs: 60_000 })).response)
  const passed = readAll(doomed.response)
  await sleep(300)
  // Bodies that `hostile` checks never reach an engine through the gateway; sent directly they end it.
  await send(direct(victim, { ...brief, kv_transfer_params: hostileParams })).catch(() => null)
  const [text, recorded] = [await passed, await alone]
  const stream = shortened(normalise(recorded))
  if (!endsAlike(lab.readVector(DIED), stream)) lab.writeVector(DIED, stream)
  writeCorpus(lab)
  check(/data: \{"error"/.test(text), `the stream ended in ${JSON.stringify(text.slice(-200))}`)
  const answers = await Promise.all(
    Array.from({ length: 6 }, async () => send(await through(lab, kind, brief, { fleet: 'nixl' }))),
  )
  const seen = answers
    .map(({ status, headers }) => `${status} by ${headers['x-firstlight-engine'] ?? 'nobody'}`)
    .join(', ')
  check(
    answers.every(({ status, headers }) => status === 200 && headers['x-firstlight-engine'] === 'a'),
    seen,
  )
  return (
    `the stream ended in ${JSON.stringify(text.trimEnd().split('\n\n').slice(-2).join(' ').slice(0, 120))}; then ` +
    '6 of 6 by a'
  )
}

function ms(value: number): string {
  return `${Math.round(value)} ms`
}
