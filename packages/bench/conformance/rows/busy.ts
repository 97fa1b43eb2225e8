/** Engines that are full, asleep or paused. */
import { setTimeout as sleep } from 'node:timers/promises'
import { servedModel } from '../engine.ts'
import type { RealEngine } from '../engine.ts'
import type { GatewayKind } from '../gateway.ts'
import { dispatch, send } from '../http.ts'
import { check } from '../row.ts'
import type { Lab, Row } from '../row.ts'
import { until } from '../until.ts'
import { brief, direct, endless, engines, through } from './asks.ts'

export function busyRows(kind: GatewayKind): Row[] {
  return [
    {
      name: `${kind}-busy`,
      says: `While one engine returns 503 busy, the other serves all requests (${kind}).`,
      run: async (lab) => busy(lab, kind),
    },
    {
      name: `${kind}-busy-burst`,
      says:
        `In a burst of streams (${kind}) no client gets one engine's busy error, not even inside a 200, while ` +
        'the other has capacity.',
      run: async (lab) => busyBurst(lab, kind),
    },
    {
      name: `${kind}-sleep`,
      says: `A sleeping engine gets no requests (${kind}) until it wakes.`,
      run: async (lab) => outOfService(lab, kind, { off: '/sleep?level=1', on: '/wake_up' }),
    },
    {
      name: `${kind}-pause`,
      says: `A paused engine gets no requests (${kind}) until it resumes.`,
      run: async (lab) => outOfService(lab, kind, { off: '/pause', on: '/resume' }),
    },
  ]
}

/** Whether the engine refuses a request that is sent now. Its metrics are late on a busy machine. */
async function refuses(engine: RealEngine): Promise<boolean> {
  const answer = await send({ ...direct(engine, brief), limitMs: 5000 }).catch(() => null)
  return answer?.status === 503
}

async function busy(lab: Lab, kind: GatewayKind): Promise<string> {
  for (let round = 1; ; round++) {
    const { result, wasFull } = await busyRound(lab, kind)
    // Held streams that end during the requests make room: such a round is not counted.
    if (wasFull) return result
    check(round < BUSY_ROUNDS, `engine a did not stay full in ${BUSY_ROUNDS} rounds; last: ${result}`)
  }
}

const BUSY_ROUNDS = 3

async function busyRound(lab: Lab, kind: GatewayKind): Promise<{ result: string; wasFull: boolean }> {
  const [a] = await engines(lab)
  const held = Array.from({ length: 8 }, () => dispatch(direct(a!, { ...endless, stream: true })))
  try {
    await until(() => refuses(a!), 'engine a to be full')
    const rejectedBefore = await a!.metric('vllm:admission_rejections_total')
    const answers = await Promise.all(Array.from({ length: 6 }, async () => send(await through(lab, kind, brief))))
    const rejected = (await a!.metric('vllm:admission_rejections_total')) - rejectedBefore
    const wasFull = await refuses(a!)
    const seen =
      `${answers.map(({ status, headers }) => `${status} by ${headers['x-firstlight-engine'] ?? 'nobody'}`).join(', ')}; ` +
      `engine a refused ${rejected}`
    check(!answers.some(({ status }) => status !== 200), seen)
    check(!wasFull || answers.every(({ headers }) => headers['x-firstlight-engine'] === 'b'), seen)
    return { result: wasFull ? `6 of 6 by b; engine a refused ${rejected} of them` : seen, wasFull }
  } finally {
    for (const request of held) request.destroy()
    await until(async () => (await a!.metric('vllm:num_requests_running')) === 0, 'engine a to be idle')
  }
}

/**
 * Engine a has room for two; half of eight concurrent streams go there. It returns 200 to some before it detects that
 * it is full.
 */
async function busyBurst(lab: Lab, kind: GatewayKind): Promise<string> {
  const [a] = await engines(lab)
  const before = await a!.metric('vllm:admission_rejections_total')
  const held = Array.from({ length: 6 }, () => dispatch(direct(a!, { ...endless, max_tokens: 600, stream: true })))
  try {
    await until(
      async () => (await a!.metric('vllm:num_requests_running')) + (await a!.metric('vllm:num_requests_waiting')) >= 6,
      'engine a to be nearly full',
    )
    const body = {
      model: servedModel,
      messages: [{ role: 'user', content: 'hello' }],
      max_tokens: 4,
      temperature: 0,
      stream: true,
    }
    // Requests that wait in engine a wait for the six.
    const ask = { ...(await through(lab, kind, body, { path: '/v1/chat/completions' })), limitMs: 90_000 }
    const answers = await Promise.all(Array.from({ length: 8 }, () => send(ask)))
    const refused = (await a!.metric('vllm:admission_rejections_total')) - before
    const broken = answers.filter(({ status, body: text }) => status !== 200 || text.includes('"error"'))
    check(
      broken.length === 0,
      `${broken.length} of 8 failed, e.g. ${broken[0]?.status} ${broken[0]?.body.toString('utf8').slice(0, 120)}`,
    )
    return `8 of 8 served; engine a refused ${refused} of them`
  } finally {
    for (const request of held) request.destroy()
    await until(async () => (await a!.metric('vllm:num_requests_running')) === 0, 'engine a to be idle')
  }
}

/**
 * Time until the gateway detects an engine's state: it checks every 500 ms, an object on Workers first 5 s after
 * traffic began.
 */
const seenWithinMs: Record<GatewayKind, number> = { node: 1600, worker: 8000 }

/** Waits that long with some traffic: engines without traffic are not checked. */
async function looks(lab: Lab, kind: GatewayKind): Promise<void> {
  const ask = await through(lab, kind, brief)
  for (const end = performance.now() + seenWithinMs[kind]; performance.now() < end; await sleep(400))
    void send({ ...ask, limitMs: 1000 }).catch(() => {})
  await sleep(1000)
}

async function outOfService(lab: Lab, kind: GatewayKind, { off, on }: { off: string; on: string }): Promise<string> {
  const [a] = await engines(lab)
  await lab.gateway(kind)
  const served = async () => {
    const answers = await Promise.all(
      Array.from({ length: 6 }, async () =>
        send({ ...(await through(lab, kind, brief)), limitMs: 5000 }).catch(() => null),
      ),
    )
    return answers.map((answer) =>
      answer === null ? 'hung' : (answer.headers['x-firstlight-engine'] ?? String(answer.status)),
    )
  }
  await send(direct(a!, undefined, off))
  let during: string[] = []
  try {
    await looks(lab, kind)
    during = await served()
  } finally {
    await send(direct(a!, undefined, on))
  }
  await looks(lab, kind)
  const after = await served()
  check(
    during.every((engine) => engine === 'b'),
    `while away: ${during.join(' ')}; after: ${after.join(' ')}`,
  )
  check(after.includes('a') && after.includes('b'), `after: ${after.join(' ')}`)
  return `while away: ${during.join(' ')}; after: ${after.join(' ')}`
}
