/** SIGSTOP of the engine core of a real vLLM, whose API server stays alive with `/health` 200. */
import { setTimeout as sleep } from 'node:timers/promises'
import { loadavg } from 'node:os'
import { ask, type ClientCall } from '../../recovery/client.ts'
import { OUTPUT_TOKENS } from '../../recovery/load.ts'
import { figuresOf, placedTooLongS, type Figures } from '../../recovery/figures.ts'
import { servedModel } from '../engine.ts'
import type { RealEngine } from '../engine.ts'
import { gatewayKey, startGateway, type RunningGateway } from '../gateway.ts'
import { send } from '../http.ts'
import { openPlacementRelay, type PlacementRelay } from '../placement-relay.ts'
import { prefer } from '../prefer.ts'
import { RefutedError, type Finding, type Lab, type Row } from '../row.ts'
import { asAdmin } from './decisions.ts'
import { words } from './routing.ts'
import { generator } from '../fuzz.ts'

const VICTIM = 'wide-a'
/** Has room for all requests: what it refuses would count as lost. */
const OTHER = 'wide-b'
const PER_S = 3
const PROMPT_WORDS = 40
/** Requests before the fault, from which the gateway learns the engines' pace. */
const BEFORE_S = 20
const STOPPED_S = 20
const AFTER_S = 10
const MAX_PLACED_S = 3
const MAX_BACK_S = 2

export const stoppedCoreRow: Row = {
  name: 'node-core-sigstop',
  says:
    'The engine core of one of two vLLM servers is stopped (SIGSTOP) while its `/health` answers 200. The last request ' +
    `is placed there at most ${MAX_PLACED_S} s after its first overdue output, no request without a token is lost ` +
    `(clients leave after 10 s), and it is used again at most ${MAX_BACK_S} s after SIGCONT.`,
  run: (lab) => stopCore(lab),
}

async function stopCore(lab: Lab): Promise<Finding> {
  const engines = [await lab.engine(VICTIM), await lab.engine(OTHER)]
  const relays = await Promise.all(engines.map(({ url }) => openPlacementRelay(url, 'client-')))
  const gateway = await startGateway({
    kind: 'node',
    name: 'node-stopped-core',
    processes: lab.processes,
    note: lab.note,
    engines: engines.map((engine, at) => ({ ...engine, url: relays[at]!.url })),
    each: {},
    pool: { retry: { mid_stream: 'ids', share: 1, min_per_s: 100 } },
    document: {},
  })
  // A gateway that is not scheduled in time extends its limits, by up to 10 s for a trial.
  const preferred = prefer([process.pid, gateway.process.pid])
  try {
    return judge(await play(engines[0]!, gateway, relays), preferred.how)
  } finally {
    preferred.end()
    engines[0]!.process?.kill('SIGCONT', 'VLLM::EngineCore')
    await gateway.stop()
    await Promise.all(relays.map((relay) => relay.stop()))
  }
}

interface Play extends Figures {
  /** Statuses of the victim's health check while its core was stopped. */
  readonly health: readonly number[]
  readonly sent: readonly ClientCall[]
  readonly rescued: number
}

async function play(victim: RealEngine, gateway: RunningGateway, relays: readonly PlacementRelay[]): Promise<Play> {
  const end = new AbortController()
  const load = steadyLoad(gateway, end.signal)
  await sleep(BEFORE_S * 1000)
  victim.process!.kill('SIGSTOP', 'VLLM::EngineCore')
  const faultAt = performance.now()
  const health: number[] = []
  while (performance.now() < faultAt + STOPPED_S * 1000) {
    health.push((await send({ url: victim.url, method: 'GET', path: '/health', limitMs: 5000 })).status)
    await sleep(2000)
  }
  victim.process!.kill('SIGCONT', 'VLLM::EngineCore')
  const healedAt = performance.now()
  await sleep(AFTER_S * 1000)
  end.abort()
  const sent = await load
  const placed = relays.flatMap((relay, at) =>
    relay.placed.map(({ at: placedAt, id }) => ({ engine: at === 0 ? VICTIM : OTHER, at: placedAt, id })),
  )
  return {
    ...figuresOf({ sent, placed, sick: VICTIM, faultAt, healedAt }),
    health,
    sent,
    rescued: await rescuedBy(gateway),
  }
}

/** Sends streams at a fixed rate until the signal. */
async function steadyLoad({ url }: RunningGateway, signal: AbortSignal): Promise<ClientCall[]> {
  const random = generator(43)
  const sent: Promise<ClientCall>[] = []
  const began = performance.now()
  for (let at = 0; !signal.aborted; at++) {
    await sleep(Math.max(0, began + (at * 1000) / PER_S - performance.now()))
    const body = JSON.stringify({
      model: servedModel,
      stream: true,
      max_tokens: OUTPUT_TOKENS,
      temperature: 0,
      ignore_eos: true,
      messages: [{ role: 'user', content: `${at} ${words(random, PROMPT_WORDS)}` }],
    })
    sent.push(ask({ url, id: `client-${at}`, body, key: gatewayKey }))
  }
  return Promise.all(sent)
}

async function rescuedBy(gateway: RunningGateway): Promise<number> {
  const { pools } = await asAdmin<{ pools: { engines: { rescued_total: number }[] }[] }>(
    gateway,
    '/v1/firstlight/fleet',
  )
  return pools.flatMap(({ engines }) => engines).reduce((sum, { rescued_total: some }) => sum + some, 0)
}

function judge(found: Play, how: string): Finding {
  const { lost, streams_ended: ended, back_in_use_s: backS, placed, sent, rescued, health } = found
  const lateS = placedTooLongS(found)
  const seen =
    `${sent.length} requests, ${placed} placed there after the fault; last one ${seconds(found.last_placement_s)} after ` +
    `the fault, ${seconds(lateS)} after the first overdue output (${seconds(found.overdue_s)}); ${lost} lost, ${ended} ` +
    `streams ended, ${rescued} rescued; used again after ${seconds(backS)}; /health ${[...new Set(health)].join(' ')}; ` +
    `load average ${loadavg()[0]!.toFixed(0)}; ${how}`
  const holds =
    placed > 0 &&
    lateS <= MAX_PLACED_S &&
    lost === 0 &&
    ended === 0 &&
    (backS ?? Infinity) <= MAX_BACK_S &&
    health.every((status) => status === 200)
  const finding = { seen, detail: detailOf(found) }
  if (!holds) throw new RefutedError(finding)
  return finding
}

const seconds = (value: number | null): string => (value === null ? 'never' : `${value.toFixed(1)} s`)

function detailOf({ sent, p99_before_ms: before, siblings_p99_ms: sibling, late }: Play): string {
  const problems = new Map<string, number>()
  for (const { problem } of sent) if (problem !== null) problems.set(problem, (problems.get(problem) ?? 0) + 1)
  const failures = [...problems].map(([problem, count]) => `${count} ${problem}`).join(', ')
  return (
    `${PER_S} streams of ${OUTPUT_TOKENS} tokens per second, two engines on one thread each; stopped for ${STOPPED_S} s. ` +
    `Time to first token p99: ${ms(before)} before the fault, ${ms(sibling)} at the other engine during it; ${late} ` +
    `requests later than twice the p99 before. Failures: ${failures === '' ? 'none' : failures}.`
  )
}

const ms = (value: number | null): string => (value === null ? 'too few requests' : `${Math.round(value)} ms`)
