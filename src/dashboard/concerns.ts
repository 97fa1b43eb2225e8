/** What needs attention, with the reason and the next step. */
import { circuitText, type EngineLine, isGateway } from './engine-state.ts'
import { failureText, problemText } from './failure-text.ts'
import { plural } from './format.ts'
import { silentSince } from './region.ts'
import type { Engine, Pool, View } from './wire.ts'

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
  /** Clients that it hurts. Absent: none is known. */
  readonly hurts?: string
  /** Start, ms since the epoch, if the gateway knows it. */
  readonly at?: number
}

/** Statistics older than this are shown as stale. Engines are probed every 10 s by default. */
const STALE_MS = 60_000

/** Wedged engines from which a pool may be stalled. */
const MIN_STALLED = 2

/** Time, ms, for which a routing loop is listed after the last one. */
const LOOP_MS = 300_000

export const isStale = ({ stats }: EngineLine['engine']): boolean => (stats?.age_ms ?? 0) > STALE_MS

export const anchorOf = ({ pool, engine }: Pick<EngineLine, 'pool' | 'engine'>): string =>
  `engine-${pool.cluster}-${engine.id}`

/** Lists problems, the most severe first. Draining and sleeping are intended, so they are no problems. */
export function concernsOf(view: View, lines: readonly EngineLine[]): Concern[] {
  const { pools, replicas = [] } = view
  const all = [...gatewayConcerns(view), ...pools.flatMap(poolConcerns), ...lines.flatMap(engineConcerns)]
  for (const { host, state } of replicas)
    if (state === 'away')
      all.push({
        key: `replica ${host}`,
        tone: 'bad',
        subject: host,
        reason: 'gateway replica unreachable: both gateways place requests without the bookings of the other',
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
  const { cluster, model, reachable, gateway, engines } = pool
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
  const wedged = engines.filter(({ condition }) => condition === 'wedged').length
  if (wedged >= MIN_STALLED && 2 * wedged >= engines.length)
    return [
      {
        ...base,
        key: `stalled ${cluster} ${model}`,
        help: 'stalled',
        reason: `${wedged} of ${plural(engines.length, 'engine')} are wedged at the same time`,
        next: 'Look for a common cause: network, shared storage, a driver or a rollout.',
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

type Add = (kind: string, tone: Concern['tone'], text: readonly [reason: string, next: string]) => void

/** Adds problems of an engine to the list. */
function adderOf(line: EngineLine, found: Concern[]): Add {
  const { pool, engine } = line
  return (kind, tone, [reason, next]) => {
    const startedAt =
      kind === 'disagrees' ? engine.compared?.stands_out_since : kind === 'region' ? silentSince(pool) : null
    const isOfCondition = conditionsOf[kind]?.includes(engine.condition) === true
    const hurts = isOfCondition ? hurtText(engine) : null
    found.push({
      key: `${kind} ${pool.cluster} ${pool.model} ${engine.id}`,
      tone,
      subject: engine.id,
      reason,
      next,
      href: `#${anchorOf(line)}`,
      help: kind,
      ...(isOfCondition && engine.condition_since !== undefined ? { at: engine.condition_since } : {}),
      ...(startedAt == null ? {} : { at: startedAt }),
      ...(hurts === null ? {} : { hurts }),
    })
  }
}

type Affected = Pick<NonNullable<Engine['hurt']>, 'keys' | 'models' | 'key_names' | 'model_names'>

/** Name of all clients of a gateway without keys. */
const NO_KEYS = 'open'

/** Clients that wait for a first token of the engine, and those that no longer do. null: none. */
function hurtText({ hurt, abandoned_total: total = 0 }: Engine): string | null {
  const { requests = 0, gave_up: gaveUp } = hurt ?? {}
  const all: string[] = []
  if (requests > 0) all.push(`${plural(requests, 'client')} ${requests === 1 ? 'waits' : 'wait'}${affectedText(hurt!)}`)
  if (gaveUp !== undefined && gaveUp.requests > 0)
    all.push(`${plural(gaveUp.requests, 'client')} gave up since then${affectedText(gaveUp)}`)
  else if (total > 0) all.push(`${plural(total, 'client')} gave up since the start`)
  return all.length === 0 ? null : all.join('; ')
}

/** Keys and models in brackets. '': without keys, and with one model. */
function affectedText({ keys, models, key_names: keyNames, model_names: modelNames }: Affected): string {
  const hasKeys = keys > 1 || (keyNames !== undefined && keyNames[0] !== NO_KEYS)
  const parts = [
    ...(hasKeys ? [namesText('key', keys, keyNames)] : []),
    ...(models > 1 ? [namesText('model', models, modelNames)] : []),
  ]
  return parts.length === 0 ? '' : ` (${parts.join('; ')})`
}

/** Names with the number of further ones. A gateway of an earlier version sends no names. */
function namesText(noun: string, count: number, names: readonly string[] = []): string {
  if (names.length === 0) return plural(count, noun)
  const further = count - names.length
  return `${noun}${count === 1 ? '' : 's'} ${names.join(', ')}${further > 0 ? ` and ${further} more` : ''}`
}

/** Problems of an engine that answers. */
function addCondition({ engine, state }: EngineLine, add: Add): void {
  if (state === 'wedged') add('wedged', 'bad', wedgedText(engine))
  if (engine.condition === 'saturated')
    add('saturated', 'warn', [
      `its KV cache is full and ${plural(engine.stats?.waiting ?? 0, 'request')} wait for memory`,
      'Add engines, or limit prompts and output.',
    ])
  if (engine.compared != null && engine.compared.stands_out_since !== null)
    add('disagrees', 'bad', disagreementText(engine.compared, engine.available))
  if (engine.condition === 'slow')
    add('slow-engine', 'warn', [
      'its prompts take a multiple of the time of its siblings' +
        (state === 'slow' ? '; it gets only requests that no other engine can serve' : ''),
      'Compare clocks, temperature, flags and other load of its host with those of its siblings.',
    ])
}

function engineConcerns(line: EngineLine): Concern[] {
  const { pool, engine, state } = line
  const found: Concern[] = []
  const add = adderOf(line, found)
  addCondition(line, add)
  if (state === 'unhealthy' && isGateway(pool))
    add('region', 'bad', [
      'the gateway of this region does not answer, so it gets no requests',
      'Check the process of that gateway, and the network to it.',
    ])
  else if (state === 'unhealthy')
    add('unhealthy', 'bad', [problemText(engine), 'Check the process of the engine, then run firstlight doctor.'])
  if (state === 'circuit')
    add('circuit', 'bad', [
      `${circuitText(engine)} after ${plural(engine.failures_total ?? 0, 'failure')}` +
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
  if (engine.ignores_ranks === true)
    add('ranks-ignored', 'warn', [
      'it does not send requests to the chosen rank, so its ranks are one engine',
      'Let the proxy in front of it pass the header X-data-parallel-rank.',
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

/** Conditions whose start is that of the problem. */
const conditionsOf: Readonly<Record<string, readonly Engine['condition'][]>> = {
  wedged: ['wedged'],
  saturated: ['saturated'],
  'slow-engine': ['slow'],
  unhealthy: ['unreachable', 'faulty'],
  circuit: ['unreachable', 'faulty'],
}

function disagreementText(
  { total, disagreed }: NonNullable<Engine['compared']>,
  available: Engine['available'],
): readonly [string, string] {
  const done = available === false ? 'it gets no requests' : 'it stays in use'
  return [
    `its answers differ from those of its siblings: ${disagreed} of ${plural(total, 'comparison')}; ${done}`,
    'Compare weights, quantisation, chat template and version with those of its siblings, and restart it.',
  ]
}

function wedgedText({ available, requests = 0, rescued_total: rescued = 0 }: Engine): readonly [string, string] {
  const done = available === true ? 'a limit of ejection keeps it in use' : 'it gets no requests'
  return [
    'its output is overdue, nothing moves, and a request of the gateway itself was not answered: ' +
      `${done}; ${plural(requests, 'request')} there, ${rescued} moved to other engines so far`,
    'Restart the process of the engine: its health check may pass all the time.',
  ]
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
