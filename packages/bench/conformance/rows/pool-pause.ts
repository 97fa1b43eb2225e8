/** A pool of real engines that is paused under load, as for an update of their weights. */
import { once } from 'node:events'
import { setTimeout as sleep } from 'node:timers/promises'
import { servedModel } from '../engine.ts'
import type { RealEngine } from '../engine.ts'
import { adminKey, type GatewayKind, type RunningGateway } from '../gateway.ts'
import { open, sendJson } from '../http.ts'
import { check } from '../row.ts'
import type { Lab, Row } from '../row.ts'
import { engines, withKey } from './asks.ts'
import { askFor, cachedOf, freshPrompt, isExact } from './fresh-prompt.ts'

const STREAMS = 6
/** Long enough to run while the pool is paused. */
const STREAM_TOKENS = 1000

export function poolPauseRow(kind: GatewayKind): Row {
  return {
    name: `${kind}-pool-pause`,
    says:
      `A pool is paused under ${STREAMS} streams (${kind}). With \`wait\` all of them end whole, and with \`keep\` ` +
      'they continue after `resume`. New requests wait for `resume` and are served. After `wait` the caches count as ' +
      'empty, as they are.',
    run: (lab) => pauseAndResume(lab, kind),
  }
}

type Mode = 'wait' | 'keep'

interface PauseAnswer {
  readonly engines: readonly { readonly engine: string; readonly state: string; readonly weight_version: unknown }[]
}

const pauseCall = (gateway: RunningGateway, what: string, body: object): Promise<PauseAnswer> =>
  sendJson<PauseAnswer>({
    url: gateway.url,
    method: 'POST',
    path: `/v1/firstlight/pools/${servedModel}/${what}`,
    headers: { authorization: `Bearer ${adminKey}` },
    body,
    limitMs: 120_000,
  })

async function pauseAndResume(lab: Lab, kind: GatewayKind): Promise<string> {
  const both = await engines(lab)
  const gateway = await lab.gateway(kind, 'sleepers')
  const seen: string[] = []
  for (const mode of ['wait', 'keep'] as const) seen.push(await pauseOnce(gateway, both, mode))
  return seen.join('; ')
}

async function pauseOnce(gateway: RunningGateway, both: readonly RealEngine[], mode: Mode): Promise<string> {
  const prompt = freshPrompt()
  const cachedBefore = [await askFor(gateway, prompt), await askFor(gateway, prompt)][1]!
  const streams = await Promise.all(Array.from({ length: STREAMS }, () => longStream(gateway)))
  const began = performance.now()
  const paused = await pauseCall(gateway, 'pause', { mode })
  const pausedMs = performance.now() - began
  const states = paused.engines.map(({ state }) => state).join(' ')
  const isPaused = await Promise.all(
    both.map(({ url }) => sendJson<{ is_paused: boolean }>({ url, method: 'GET', path: '/is_paused' })),
  )
  const waiting = askFor(gateway, prompt)
  let hasAnswered = false
  void waiting.then(() => (hasAnswered = true))
  await sleep(1000)
  check(!hasAnswered, `${mode}: a request was answered while the pool was paused`)
  const resumed = await pauseCall(gateway, 'resume', {})
  const ends = await Promise.all(streams.map(({ end }) => end))
  const answer = await waiting
  const whole = ends.filter((end) => end === 'whole').length
  const result =
    `${mode}: ${states} after ${ms(pausedMs)}, ${resumed.engines.map(({ state }) => state).join(' ')}, weights ` +
    `${JSON.stringify(resumed.engines[0]!.weight_version)}; ${whole} of ${STREAMS} streams whole; cached tokens ` +
    `predicted/reported before ${cachedOf(cachedBefore)}, after ${cachedOf(answer)}`
  check(
    states === 'paused paused' &&
      isPaused.every(({ is_paused: is }) => is) &&
      whole === STREAMS &&
      isExact(cachedBefore) &&
      isExact(answer) &&
      (mode === 'keep' || answer.cached === 0),
    `${result}; ${ends.find((end) => end !== 'whole') ?? ''}`,
  )
  return result
}

interface LongStream {
  /** `whole`, or how it ended. */
  readonly end: Promise<string>
}

/** Resolves with the first bytes of a stream of many tokens. */
async function longStream({ url }: RunningGateway): Promise<LongStream> {
  const body = {
    model: servedModel,
    prompt: freshPrompt(),
    max_tokens: STREAM_TOKENS,
    temperature: 0,
    ignore_eos: true,
  }
  const { response } = await open({
    url,
    method: 'POST',
    path: '/v1/completions',
    headers: withKey({}),
    body: { ...body, stream: true },
    limitMs: 300_000,
  })
  let text = ''
  response.setEncoding('utf8').on('data', (piece: string) => (text += piece))
  const end = new Promise<string>((resolve) => {
    response.once('close', () => {
      const isWhole = text.includes('"finish_reason":"length"') && text.trimEnd().endsWith('data: [DONE]')
      resolve(isWhole ? 'whole' : `${response.statusCode}: ${text.slice(-200)}`)
    })
  })
  await once(response, 'data')
  return { end }
}

const ms = (value: number): string => `${Math.round(value)} ms`
