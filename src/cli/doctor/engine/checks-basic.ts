/** Checks of availability, identity and served models. */
import type { EngineConfig, PoolSettings } from '../../../config.ts'
import { didYouMean } from '../../../config/problem.ts'
import { failures } from '../../../failure.ts'
import { answered, inShort } from '../ask.ts'
import type { Findings, Severity } from '../finding.ts'
import { baseCard, type EngineFacts, type ModelCard, inDevMode } from './facts.ts'
import { isAway, skewMs } from './read.ts'
import type { Reach } from '../reach.ts'

/* Endpoints that must not be public. On loopback this is only a note. */

const markOf: Readonly<Record<Reach, Severity>> = { loopback: 'note', private: 'warning', public: 'problem' }

export function checkExposure(
  { reach, guarded, stranger, version, switches, events }: EngineFacts,
  found: Findings,
): void {
  const mark = guarded ? 'note' : markOf[reach]
  const here = guarded
    ? ' (to those who show the headers of the configuration)'
    : reach === 'loopback'
      ? ' (reached over the loopback: see that its port is bound to it)'
      : ''
  const open = [
    ...(inDevMode(switches) ? (['dev_mode'] as const) : []),
    ...(switches.loadsAdapters ? (['adapter_loading'] as const) : []),
    ...(switches.profiles ? (['profiler'] as const) : []),
  ]
  for (const check of open) {
    const { says, costs, next } = WORDS[check]
    found.add(mark, check, says + here, { costs, next })
  }
  if (reach === 'public' && !guarded && stranger !== 200 && version !== null) {
    found.warn('open_routes', 'vLLM’s key guards /v1 and no more, at a public address', {
      costs: 'Strangers read its /metrics and keep its CPU busy with /tokenize.',
      next: 'Put a proxy or a tunnel in front that lets only the gateway in.',
    })
  }
  for (const { endpoint, replayEndpoint } of events?.filter(({ enabled }) => enabled) ?? []) {
    const wide = [endpoint, replayEndpoint].filter((socket) => socket !== null && isOpen(socket))
    if (wide.length === 0) continue
    found.warn('event_sockets', `open to everybody: ${wide.join(', ')}`, {
      costs: 'Who reaches them reads the token ids of every prompt: they ask nobody for anything.',
      next: 'Bind them to 127.0.0.1 in --kv-events-config and run firstlight bridge beside the engine, or shut their ports to all others.',
    })
  }
}

const WORDS = {
  dev_mode: {
    says: 'development endpoints are open',
    costs:
      'Who reaches the port can stop it (/sleep, /pause), empty its cache (/reset_prefix_cache) and call into its workers (/collective_rpc), without a key.',
    next: 'Start it without VLLM_SERVER_DEV_MODE=1, or let only the gateway reach the port. The gateway itself uses none of them but GET /is_paused.',
  },
  adapter_loading: {
    says: 'adapters can be loaded over HTTP',
    costs: 'Who has its key can load files of its machine as adapters.',
    next: 'Start it without VLLM_ALLOW_RUNTIME_LORA_UPDATING.',
  },
  profiler: {
    says: 'its profiler can be started over HTTP',
    costs: 'Who reaches the port can slow it down and fill its disk.',
    next: 'Start it without --profiler-config.',
  },
} as const

/** True if the socket is bound to all addresses, or to one that other hosts can reach. */
function isOpen(socket: string): boolean {
  const host = /^tcp:\/\/(.*):\d+$/.exec(socket)?.[1]?.replace(/^\[|\]$/g, '')
  return host !== undefined && host !== 'localhost' && host !== '::1' && !host.startsWith('127.')
}

/** What the configuration states about the engine; null: only its URL is known. */
export interface Expected {
  readonly pool: PoolSettings
  readonly engine: EngineConfig
}

/** Clock difference in milliseconds above which a clock counts as wrong. */
const SKEWED_MS = 2_000

/** Status that a gateway returns for a request that has passed it before (`via`). */
export const CAME_ROUND = failures.loop.status

export function checkHealth({ health, switches, metrics }: EngineFacts, found: Findings): void {
  const took = `${health.tookMs.toFixed(0)} ms`
  if (health.status === CAME_ROUND) {
    found.problem('health', 'its address leads back to the gateway of this configuration', {
      costs:
        'Requests that are sent here come round and are refused (508); those that no other engine can take get no answer.',
      next: 'Configure the address of the engine itself.',
    })
  } else if (health.status >= 500) {
    found.problem('health', `/health says ${health.status}`, {
      costs: 'The gateway sends it nothing.',
      next: 'See its log: vLLM answers so when its core has died or is still starting.',
    })
  } else if (health.status >= 300 && health.status < 400) {
    found.problem('health', `it redirects to ${health.headers.location ?? 'somewhere'}`, {
      costs: 'Redirects are not followed: they would move prompts to an address nobody configured.',
      next: 'Configure the address it redirects to.',
    })
  } else if (health.status !== 200) {
    found.note('health', `/health says ${health.status}`, {
      costs: 'Counts as well, so only failed requests tell when it is not.',
    })
  } else found.ok('health', `/health 200 in ${took}`)
  if (!isAway(switches, metrics)) return
  const paused = switches.paused === true && switches.sleeping !== true
  const wake = paused ? 'POST /resume' : 'POST /wake_up'
  found.problem('awake', `it is ${paused ? 'paused' : 'asleep'}`, {
    costs: 'Requests hang; the gateway sends it none until it is back.',
    next: `${wake} ends that.`,
  })
}

export function checkClock({ health }: EngineFacts, found: Findings): void {
  const skew = skewMs(health)
  if (skew === null) return found.note('clock', 'its answers carry no date')
  if (Math.abs(skew) < SKEWED_MS) return found.ok('clock', 'within 2 s of this machine’s')
  found.warn('clock', `${(Math.abs(skew) / 1000).toFixed(0)} s ${skew > 0 ? 'ahead of' : 'behind'} this machine’s`, {
    costs: 'Its log, its KV events and its traces cannot be laid beside the gateway’s.',
    next: 'Synchronise both machines (chrony, systemd-timesyncd).',
  })
}

/** Returns false if the key was rejected, which makes all other answers meaningless. */
export function checkKey(
  { models, keyed, stranger, reach }: EngineFacts,
  expected: Expected | null,
  found: Findings,
): boolean {
  const { asked } = models
  if (answered(asked) && (asked.status === 401 || asked.status === 403)) {
    const where =
      expected === null
        ? '--key KEY, or the variable FIRSTLIGHT_ENGINE_KEY'
        : `\`key: { env: … }\` of engine ${expected.engine.id}`
    const what = keyed ? 'it refuses the key' : 'it wants a key'
    found.problem('key', `${what} (HTTP ${asked.status})`, {
      costs: 'Every request fails.',
      next: `Give it what it was started with (--api-key, VLLM_API_KEY): ${where}.`,
    })
    return false
  }
  if (stranger !== 200)
    found.ok(
      'key',
      keyed ? 'accepted, and nobody is let in without' : 'nobody is let in without the headers of the configuration',
    )
  else checkOpen({ keyed, reach }, found)
  return true
}

function checkOpen({ keyed, reach }: Pick<EngineFacts, 'keyed' | 'reach'>, found: Findings): void {
  const says = keyed ? 'it answers without its key too' : 'it answers without a key'
  const remedy = {
    costs: 'Who reaches the port uses it past the gateway’s keys and books, and sees its metrics.',
    next: 'Start it with --api-key, and let only the gateway reach the port.',
  }
  if (reach === 'public') found.problem('key', `${says}, at a public address`, remedy)
  else if (keyed)
    found.warn('key', says, {
      ...remedy,
      next: 'The key of the configuration is not that of the engine: start it with --api-key.',
    })
  else if (reach === 'private') found.note('key', `${says}, to everybody in its network`, remedy)
  else found.ok('key', 'none needed: it was reached over the loopback')
}

/** Returns false if no model is served, so that there is nothing else to check. */
export function checkModels(
  { models, version, tokens }: EngineFacts,
  expected: Expected | null,
  found: Findings,
): boolean {
  const { cards, asked } = models
  if (cards === null || cards.length === 0) {
    const remedy = {
      costs: 'Clients cannot be served what nobody serves.',
      next: 'Is the URL that of an OpenAI-compatible server, without /v1?',
    }
    found.problem('models', `/v1/models gives no list (${inShort(asked)})`, remedy)
    return false
  }
  const base = cards.filter(({ parent }) => parent === null)
  const adapters = cards.filter(({ parent }) => parent !== null)
  found.ok(
    'models',
    `${base.map(nameOf).join(', ')}${lengthOf(baseCard(models))}${adapters.length === 0 ? '' : `; adapters ${adapters.map(({ id }) => id).join(', ')}`}`,
  )
  if (version === null && tokens.ids === null) {
    found.note('kind', 'no vLLM: neither /version nor /tokenize', {
      costs:
        'It is served, with what its metrics and answers tell; cache, queue and tokens are the gateway’s own estimates.',
    })
  }
  if (expected !== null) checkNames(cards, expected, found)
  return true
}

const nameOf = ({ id, root }: ModelCard): string => (root === null || root === id ? id : `${id} (${root})`)
const lengthOf = (card: ModelCard | null): string =>
  card?.maxModelLen == null ? '' : `, up to ${card.maxModelLen} tokens`

/** Compares the configured names with the served ones. */
function checkNames(cards: readonly ModelCard[], { pool, engine }: Expected, found: Findings): void {
  const served = cards.map(({ id }) => id)
  const wanted = engine.models ?? [pool.model, ...pool.adapters]
  for (const name of wanted.filter((one) => !served.includes(one))) {
    const isAdapter = pool.adapters.includes(name)
    const root = cards.find((card) => card.root === name)
    const hint = root === undefined ? didYouMean(name, served) : `; it serves that model under the name ${root.id}`
    found.problem('names', `it does not serve ${isAdapter ? 'the adapter ' : ''}${name}${hint}`, {
      costs: `Requests for ${name} that go here are answered with 404.`,
      next: isAdapter
        ? `Start it with --enable-lora --lora-modules ${name}=PATH, or list what it serves in its \`models\`.`
        : `Start it with --served-model-name ${name}, or use the name it serves as the pool’s \`model\`.`,
    })
  }
  const unknown = cards.filter(({ id, parent }) => parent !== null && !pool.adapters.includes(id)).map(({ id }) => id)
  if (unknown.length > 0)
    found.note('adapters', `not in the configuration: ${unknown.join(', ')}`, {
      costs: 'Clients cannot ask for them.',
      next: `adapters: [${[...pool.adapters, ...unknown].join(', ')}]`,
    })
}
