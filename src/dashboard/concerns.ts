/** What needs attention, with the reason and the next step. */
import { type Line, objectiveOf } from './engine-state.ts'
import { plural, ms, number, percent } from './format.ts'
import type { Pool, View } from './wire.ts'

export interface Concern {
  /** Stable while the problem lasts. */
  readonly key: string
  readonly tone: 'bad' | 'warn'
  /** Engine, pool or gateway. */
  readonly subject: string
  readonly reason: string
  readonly next: string
  /** Anchor of the engine's row; null: none. */
  readonly href: string | null
  /** Section of the runbook. */
  readonly help: string
  /** Start, ms since the epoch, if the gateway knows it. */
  readonly at?: number
}

/** Statistics older than this are shown as stale. Engines are probed every 10 s by default. */
export const STALE_MS = 60_000

/** Time, ms, for which a routing loop is listed after the last one. */
const LOOP_MS = 300_000

export const isStale = ({ stats }: Line['engine']): boolean => (stats?.age_ms ?? 0) > STALE_MS

export const anchorOf = ({ pool, engine }: Pick<Line, 'pool' | 'engine'>): string =>
  `engine-${pool.cluster}-${engine.id}`

/** Lists problems, the most severe first. Draining and sleeping are intended, so they are no problems. */
export function concernsOf(view: View, lines: readonly Line[]): Concern[] {
  const { pools, replicas = [] } = view
  const all = [...gatewayConcerns(view), ...pools.flatMap(poolConcerns), ...lines.flatMap(engineConcerns)]
  for (const { host, state } of replicas)
    if (state === 'away')
      all.push({
        key: `replica ${host}`,
        tone: 'bad',
        subject: host,
        reason: 'gateway replica away: both gateways place requests without the bookings of the other',
        next: 'Check that gateway, and its connection to the replica server.',
        href: null,
        help: 'replica',
      })
  return all.toSorted((a, b) => Number(a.tone === 'warn') - Number(b.tone === 'warn'))
}

function gatewayConcerns({ config_refused_at: refusedAt, config_version: version }: View): Concern[] {
  if (refusedAt === undefined) return []
  return [
    {
      key: 'configuration',
      tone: 'bad',
      subject: 'configuration',
      reason: `the newest one is invalid and was refused; version ${version} stays active`,
      next: 'Run firstlight check with it, or search the gateway log for configuration_refused or config_invalid.',
      href: null,
      help: 'configuration',
      at: refusedAt,
    },
  ]
}

function poolConcerns(pool: Pool): Concern[] {
  const { cluster, model, reachable, gateway } = pool
  const base = { subject: `${cluster} ${model}`, tone: 'bad', href: null } as const
  if (!reachable)
    return [
      {
        ...base,
        key: `pool ${cluster} ${model}`,
        help: 'pool',
        reason: 'the state object of the pool cannot be reached',
        next: 'Search the gateway log for digest_unreachable.',
      },
    ]
  if (gateway?.blocking_match === false)
    return [
      {
        ...base,
        tone: 'warn',
        key: `blocks ${cluster} ${model}`,
        help: 'blocks',
        reason: 'the regional gateway divides prompts into other blocks, so its caches are unknown',
        next: 'Set the same tokenizer and block_tokens on both gateways.',
      },
    ]
  return []
}

function engineConcerns(line: Line): Concern[] {
  const { pool, engine, state } = line
  const found: Concern[] = []
  const add = (kind: string, tone: Concern['tone'], [reason, next]: readonly [string, string]) =>
    found.push({
      key: `${kind} ${pool.cluster} ${pool.model} ${engine.id}`,
      tone,
      subject: engine.id,
      reason,
      next,
      href: `#${anchorOf(line)}`,
      help: kind,
    })
  if (state === 'unhealthy')
    add('unhealthy', 'bad', [problemText(engine), 'Check the process of the engine, then run firstlight doctor.'])
  if (state === 'circuit')
    add('circuit', 'bad', [
      `circuit ${engine.circuit === 'probing' ? 'half-open' : 'open'} ` +
        `after ${plural(engine.failures_total ?? 0, 'failure')}` +
        (engine.last_failure === undefined ? '' : `, the last one: ${failureText(engine.last_failure.failure)}`),
      'Search the gateway log for attempts on this engine.',
    ])
  if (engine.last_failure?.failure === 'loop' && pool.at !== undefined && pool.at - engine.last_failure.at < LOOP_MS)
    add('loop', 'bad', [
      'its address leads back to a gateway that the request has passed',
      'Correct `url` of the engine in the configuration.',
    ])
  const causes = engine.learned?.silent_miss ?? null
  if (causes !== null)
    add('silent-miss', 'warn', [
      `cache hits are predicted but never reported: ${causes.join('; ')}`,
      'Run firstlight doctor.',
    ])
  if (engine.kv_feed?.state === 'silent')
    add('kv-feed', 'warn', ['KV events stopped', 'Check firstlight bridge beside the engine.'])
  if (state !== 'unhealthy' && isStale(engine))
    add('stale', 'warn', [
      `its metrics are ${Math.round(engine.stats!.age_ms / 1000)} s old`,
      'Check that /metrics of the engine answers.',
    ])
  return found
}

const FAILURES: Readonly<Record<string, string>> = {
  connect: 'no connection',
  connect_timeout: 'no connection in time',
  reset: 'connection closed by the engine',
  malformed: 'response that is no HTTP',
  first_byte_timeout: 'no answer in time',
  answer_timeout: 'no complete answer in time',
  idle_timeout: 'stream without output',
  status_5xx: 'status 5xx',
  busy: 'engine busy',
  loop: 'routing loop: its address leads back to this gateway',
}

const failureText = (failure: string): string => FAILURES[failure] ?? failure.replaceAll('_', ' ')

/** Why an engine is unhealthy. */
export const problemText = ({ problem }: Pick<Line['engine'], 'problem'>): string =>
  problem === undefined ? 'health checks fail' : `health checks fail (${failureText(problem)})`

/** Why an engine gets no requests, for its row. null: it is well, or its state says it. */
export function reasonOf({ engine, state }: Pick<Line, 'engine' | 'state'>): string | null {
  if (state === 'unhealthy') return engine.problem === undefined ? null : failureText(engine.problem)
  if (state === 'circuit') return engine.last_failure === undefined ? null : failureText(engine.last_failure.failure)
  return null
}

/** First view, epoch ms, in which each problem was present. */
export type Since = ReadonlyMap<string, { readonly at: number; readonly isAtLeast: boolean }>

/** Keeps the start of lasting problems. Problems of the first view may be older: `isAtLeast`. */
export function sinceOf(last: Since | null, concerns: readonly Concern[], at: number): Since {
  return new Map(
    concerns.map(({ key, at: known }) => [
      key,
      known === undefined ? (last?.get(key) ?? { at, isAtLeast: last === null }) : { at: known, isAtLeast: false },
    ]),
  )
}

/* Whether the fleet is well, in words: the first line of the page. */

export type Tone = 'good' | 'warn' | 'bad'

export interface Verdict {
  readonly tone: Tone
  /** The most severe finding. */
  readonly headline: string
  /** The others, and what is normal. */
  readonly more: readonly string[]
  /** Section of the runbook about the headline. null: the headline counts problems or warnings. */
  readonly help: string | null
}

/** Failed requests below this share are not worth a look: clients cancel and send invalid requests, too. */
const FAILED_SHARE = 0.01

export function verdictOf(view: View, lines: readonly Line[], concerns: readonly Concern[]): Verdict {
  const found = [...engineFindings(lines, concerns), ...trafficFindings(view), ...warnings(concerns)]
  const [first, ...rest] = found
  if (first === undefined) return { tone: 'good', headline: 'The fleet is well', more: [trafficText(view)], help: null }
  return { tone: first.tone, headline: first.text, more: rest.map(({ text }) => text), help: first.help }
}

interface Finding {
  readonly tone: Tone
  readonly text: string
  readonly help: string | null
}

function engineFindings(lines: readonly Line[], concerns: readonly Concern[]): Finding[] {
  if (lines.length === 0) return [warn('No engine is configured', 'no-engine')]
  const problems = concerns.filter(({ tone }) => tone === 'bad').length
  return [
    ...(lines.every(({ state }) => state !== 'up') ? [bad('No engine can take requests', 'no-engine')] : []),
    ...(problems === 0 ? [] : [bad(plural(problems, 'problem'))]),
  ]
}

function trafficFindings({ now, pools }: View): Finding[] {
  const { ttft_p95_ms: ttftMs = null, failed_share: failed = null, rejected_per_s: rejected = null } = now ?? {}
  const objectiveMs = objectiveOf(pools)
  return [
    ...((failed ?? 0) >= FAILED_SHARE ? [bad(`${percent(failed)} of requests fail`, 'failed')] : []),
    ...(objectiveMs !== null && (ttftMs ?? 0) > objectiveMs
      ? [warn(`TTFT p95 of ${ms(ttftMs)} is above the objective of ${ms(objectiveMs)}`, 'slow')]
      : []),
    ...((rejected ?? 0) > 0 ? [warn(`${number(rejected)} requests/s are rejected`, 'rejected')] : []),
  ]
}

function warnings(concerns: readonly Concern[]): Finding[] {
  const found = concerns.filter(({ tone }) => tone === 'warn').length
  return found === 0 ? [] : [warn(plural(found, 'warning'))]
}

const bad = (text: string, help: string | null = null): Finding => ({ tone: 'bad', text, help })
const warn = (text: string, help: string | null = null): Finding => ({ tone: 'warn', text, help })

const trafficText = ({ now }: View): string =>
  (now?.requests_per_s ?? 0) > 0 ? 'nothing needs attention' : 'nothing needs attention, and there is no traffic'
