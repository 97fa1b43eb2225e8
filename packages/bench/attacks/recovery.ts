/**
 * How soon an engine that was killed and started again serves short requests, when a long prefill is the first
 * to reach it.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import { atRate, chat, documentOf, waitFor, type Answer } from './client.ts'
import type { Figure } from './figure.ts'
import { Site, type Engines, type Gateway } from './processes.ts'

const SHORT = 'ttft=20 prefill=20 tokens=3 itl=5'
const PREFILL_MS = 20_000
const LONG = `ttft=${PREFILL_MS} prefill=20 tokens=1`
const DYING = 'ttft=30000 prefill=20 tokens=1'
const IN_FLIGHT = 20
const DOWN_MS = 3_000
/** Consecutive answers after which the pool counts as recovered: 2 s of them. */
const STEADY = 20
const GOAL_S = 2

export const recovery = async (): Promise<Figure[]> => (await Promise.all([alone(), split()])).flat()

async function alone(): Promise<Figure[]> {
  return inSite(async (site) => {
    const engine = await site.engines(1)
    const gateway = await site.gateway(documentOf(engine.urls, { pool: { stats_interval_ms: 1000 } }))
    return recovered('one engine', gateway, engine)
  })
}

async function split(): Promise<Figure[]> {
  return inSite(async (site) => {
    const [prefill, decode] = [await site.engines(1), await site.engines(1)]
    const engines = [
      { id: 'p0', url: prefill.urls[0], role: 'prefill' },
      { id: 'd0', url: decode.urls[0], role: 'decode' },
    ]
    const gateway = await site.gateway(
      documentOf([], { pool: { stats_interval_ms: 1000, engines, split: { mode: 'always' } } }),
    )
    return recovered('the decode engine of a split pool', gateway, decode)
  })
}

async function inSite(use: (site: Site) => Promise<Figure>): Promise<Figure[]> {
  const site = new Site()
  try {
    return [await use(site)]
  } finally {
    await site.stop()
  }
}

async function recovered(name: string, gateway: Gateway, engine: Engines): Promise<Figure> {
  await atRate(10, 1_000, () => chat(gateway.port, { user: SHORT }))
  // Requests that fail with it open its circuit. A refused connection may be detected by a probe first.
  const dying = Array.from({ length: IN_FLIGHT }, () => chat(gateway.port, { user: DYING }))
  await waitFor(async () => (await engine.stats()).live >= IN_FLIGHT, 5_000)
  await engine.kill()
  await Promise.all(dying)
  await atRate(10, DOWN_MS, () => chat(gateway.port, { user: SHORT }))
  await engine.restart()
  const stopped = new AbortController()
  void longUntilAccepted(gateway, stopped.signal)
  const accepted = await waitFor(async () => (await engine.stats()).live > 0, 20_000)
  const answers = await untilSteady(gateway)
  const { healthAtMs } = await engine.stats()
  stopped.abort()
  const lastFailure = answers.findLastIndex(({ complete }) => !complete)
  const servedAtMs = answers[lastFailure + 1]?.endedAtMs ?? null
  const seconds = healthAtMs === null || servedAtMs === null ? null : Math.max(0, servedAtMs - healthAtMs) / 1000
  const refused = answers.filter(({ complete }) => !complete).length
  return {
    attack: `restart: ${name}`,
    figure: 'recovery_s_max',
    value: seconds,
    goal: GOAL_S,
    note:
      `trial ${accepted ? `of ${PREFILL_MS / 1000} s` : 'never accepted'}; ${refused} short requests refused ` +
      'after it began',
  }
}

/** Sends the long request again until an engine works on it. */
async function longUntilAccepted(gateway: Gateway, signal: AbortSignal): Promise<void> {
  while (!signal.aborted) {
    const { status } = await chat(gateway.port, { user: LONG })
    if (status === 200) return
    await sleep(50)
  }
}

async function untilSteady(gateway: Gateway): Promise<Answer[]> {
  const answers: Answer[] = []
  const began = performance.now()
  const isSteady = (): boolean => answers.length >= STEADY && answers.slice(-STEADY).every(({ complete }) => complete)
  while (!isSteady() && performance.now() - began < PREFILL_MS + 10_000) {
    const [answer] = await Promise.all([chat(gateway.port, { user: SHORT }), sleep(100)])
    answers.push(answer)
  }
  return answers
}
