/** Checks of availability, identity and served models. */
import type { EngineConfig, PoolSettings } from '../../../config.ts'
import { didYouMean } from '../../../config/suggest.ts'
import type { ModelCard } from '../../../engines/model-list.ts'
import { failures } from '../../../failure.ts'
import { isAnswer, summaryOf } from '../ask.ts'
import type { Findings } from '../finding.ts'
import { baseCard, type EngineFacts } from './facts.ts'
import { isAway, skewMs } from './read.ts'

/** What the configuration states about the engine; null: only its URL is known. */
export interface Expected {
  readonly pool: PoolSettings
  readonly engine: EngineConfig
}

/** Clock difference in milliseconds above which a clock counts as wrong. */
const SKEWED_MS = 2_000

/** Status that a gateway returns for a request that has passed it before (`via`). */
export const LOOP_STATUS = failures.loop.status

export function checkHealth({ health, switches, metrics }: EngineFacts, found: Findings): void {
  const took = `${health.tookMs.toFixed(0)} ms`
  if (health.status === LOOP_STATUS) {
    found.problem('health', 'the address leads back to the gateway of this configuration', {
      costs: 'Requests sent here loop and are refused (508).',
      next: 'Configure the address of the engine itself.',
    })
  } else if (health.status >= 500) {
    found.problem('health', `/health returns ${health.status}`, {
      costs: 'The gateway sends no requests to it.',
      next: 'See its log. vLLM returns this if its core has crashed or is still starting.',
    })
  } else if (health.status >= 300 && health.status < 400) {
    found.problem('health', `it redirects to ${health.headers.location ?? 'somewhere'}`, {
      costs:
        'The gateway does not follow redirects, because they could send prompts to an address that is not configured.',
      next: 'Configure the address it redirects to.',
    })
  } else if (health.status !== 200) {
    found.note('health', `/health returns ${health.status}`, {
      costs: 'The gateway treats this as healthy and detects failures only from requests.',
    })
  } else found.ok('health', `/health 200 in ${took}`)
  if (!isAway(switches, metrics)) return
  const paused = switches.paused === true && switches.sleeping !== true
  const wake = paused ? 'POST /resume' : 'POST /wake_up'
  found.problem('awake', `it is ${paused ? 'paused' : 'asleep'}`, {
    costs: 'Requests would hang; the gateway sends none until the engine is back.',
    next: `${wake} ends that.`,
  })
}

export function checkClock({ health }: EngineFacts, found: Findings): void {
  const skew = skewMs(health)
  if (skew === null) return found.note('clock', 'responses have no Date header')
  if (Math.abs(skew) < SKEWED_MS) return found.ok('clock', 'within 2 s of this machine’s')
  found.warn('clock', `${(Math.abs(skew) / 1000).toFixed(0)} s ${skew > 0 ? 'ahead of' : 'behind'} this machine’s`, {
    costs: 'Timestamps of its logs, KV events and traces do not match the gateway’s.',
    next: 'Synchronise both machines (chrony, systemd-timesyncd).',
  })
}

/** Returns false if the key was rejected, which makes all other answers meaningless. */
export function checkKey(
  { models, keyed, withoutKey, reach }: EngineFacts,
  expected: Expected | null,
  found: Findings,
): boolean {
  const { asked } = models
  if (isAnswer(asked) && (asked.status === 401 || asked.status === 403)) {
    const where =
      expected === null ? '--key KEY, or FIRSTLIGHT_ENGINE_KEY' : `\`key: { env: … }\` of engine ${expected.engine.id}`
    const what = keyed ? 'the key was rejected' : 'a key is required'
    found.problem('key', `${what} (HTTP ${asked.status})`, {
      costs: 'Every request fails.',
      next: `Use the key it was started with (--api-key, VLLM_API_KEY): ${where}.`,
    })
    return false
  }
  if (withoutKey !== 200)
    found.ok('key', keyed ? 'accepted, and required' : 'the headers of the configuration are required')
  else checkOpen({ keyed, reach }, found)
  return true
}

function checkOpen({ keyed, reach }: Pick<EngineFacts, 'keyed' | 'reach'>, found: Findings): void {
  const message = keyed ? 'requests without the key are accepted too' : 'no key is required'
  const remedy = {
    costs: 'Anyone who reaches the port bypasses the gateway’s keys and load tracking, and can read its metrics.',
    next: 'Start it with --api-key, and restrict the port to the gateway.',
  }
  if (reach === 'public') found.problem('key', `${message}, at a public address`, remedy)
  else if (keyed)
    found.warn('key', message, {
      ...remedy,
      next: 'The engine does not check the configured key: start it with --api-key.',
    })
  else if (reach === 'private') found.note('key', `${message}, for every host in its network`, remedy)
  else found.ok('key', 'not needed: reached over loopback')
}

/** Returns false if no model is served, so that there is nothing else to check. */
export function checkModels(
  { models, version, type, tokens }: EngineFacts,
  expected: Expected | null,
  found: Findings,
): boolean {
  const { cards, asked } = models
  if (cards === null || cards.length === 0) {
    const remedy = {
      costs: 'Requests for a model fail if no engine serves it.',
      next: 'Check that the URL is that of an OpenAI-compatible server, without /v1.',
    }
    found.problem('models', `/v1/models gives no list (${summaryOf(asked)})`, remedy)
    return false
  }
  const base = cards.filter(({ parent }) => parent === null)
  const adapters = cards.filter(({ parent }) => parent !== null)
  const adapterText = adapters.length === 0 ? '' : `; adapters ${adapters.map(({ id }) => id).join(', ')}`
  found.ok('models', `${base.map(nameOf).join(', ')}${lengthOf(baseCard(models))}${adapterText}`)
  if (!type.hasVllmFlags) found.ok('kind', type.title)
  else if (version === null && tokens.ids === null) {
    found.note('kind', 'not vLLM: neither /version nor /tokenize', {
      costs: 'The gateway uses its metrics and responses. Cache, queue and tokens are the gateway’s own estimates.',
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
    const hint = root === undefined ? didYouMean(name, served) : `; the served name of this model is ${root.id}`
    found.problem('names', `it does not serve ${isAdapter ? 'the adapter ' : ''}${name}${hint}`, {
      costs: `Requests for ${name} to this engine return 404.`,
      next: isAdapter
        ? `Start it with --enable-lora --lora-modules ${name}=PATH, or list what it serves in its \`models\`.`
        : `Start it with --served-model-name ${name}, or use the name it serves as the pool’s \`model\`.`,
    })
  }
  const unknown = cards.filter(({ id, parent }) => parent !== null && !pool.adapters.includes(id)).map(({ id }) => id)
  if (unknown.length > 0)
    found.note('adapters', `not in the configuration: ${unknown.join(', ')}`, {
      costs: 'Clients cannot request them.',
      next: `adapters: [${[...pool.adapters, ...unknown].join(', ')}]`,
    })
}
