/** Does it answer, as whom, and which models? */
import type { EngineConfig, PoolSettings } from '../../../../config.ts'
import { didYouMean } from '../../../../config/suggest.ts'
import { failures } from '../../../../failure.ts'
import { answered, inShort } from '../ask.ts'
import type { Findings } from '../finding.ts'
import { baseCard, type EngineFacts, type ModelCard } from './facts.ts'
import { isAway, skewMs } from './read.ts'

/** What a configuration says about the engine; null: it was named by its URL alone. */
export interface Expected {
  readonly pool: PoolSettings
  readonly engine: EngineConfig
}

/** Beyond this its clock is not merely a little off. */
const SKEWED_MS = 2_000

/** What a gateway says to a request that has passed it (`via`). */
export const CAME_ROUND = failures.loop.status

export function checkHealth({ health, switches, metrics }: EngineFacts, found: Findings): void {
  const took = `${health.tookMs.toFixed(0)} ms`
  if (health.status === CAME_ROUND) {
    found.problem('health', 'its address leads back to the gateway of this configuration', { costs: 'Requests that are sent here come round and are refused (508); those that no other engine can take get no answer.', next: 'Configure the address of the engine itself.' })
  } else if (health.status >= 500) {
    found.problem('health', `/health says ${health.status}`, { costs: 'The gateway sends it nothing.', next: 'See its log: vLLM answers so when its core has died or is still starting.' })
  } else if (health.status >= 300 && health.status < 400) {
    found.problem('health', `it redirects to ${health.headers.location ?? 'somewhere'}`, { costs: 'Redirects are not followed: they would move prompts to an address nobody configured.', next: 'Configure the address it redirects to.' })
  } else if (health.status !== 200) {
    found.note('health', `/health says ${health.status}`, { costs: 'Counts as well, so only failed requests tell when it is not.' })
  } else found.ok('health', `/health 200 in ${took}`)
  if (!isAway(switches, metrics)) return
  const paused = switches.paused === true && switches.sleeping !== true
  const wake = paused ? 'POST /resume' : 'POST /wake_up'
  found.problem('awake', `it is ${paused ? 'paused' : 'asleep'}`, { costs: 'Requests hang; the gateway sends it none until it is back.', next: `${wake} ends that.` })
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

/** false: it did not let us in, so the rest of the answers mean nothing. */
export function checkKey({ models, keyed, stranger, reach }: EngineFacts, expected: Expected | null, found: Findings): boolean {
  const { asked } = models
  if (answered(asked) && (asked.status === 401 || asked.status === 403)) {
    const where = expected === null ? '--key KEY, or the variable FIRSTLIGHT_ENGINE_KEY' : `\`key: { env: … }\` of engine ${expected.engine.id}`
    const what = keyed ? 'it refuses the key' : 'it wants a key'
    found.problem('key', `${what} (HTTP ${asked.status})`, { costs: 'Every request fails.', next: `Give it what it was started with (--api-key, VLLM_API_KEY): ${where}.` })
    return false
  }
  if (stranger !== 200) found.ok('key', keyed ? 'accepted, and nobody is let in without' : 'nobody is let in without the headers of the configuration')
  else checkOpen({ keyed, reach }, found)
  return true
}

function checkOpen({ keyed, reach }: Pick<EngineFacts, 'keyed' | 'reach'>, found: Findings): void {
  const says = keyed ? 'it answers without its key too' : 'it answers without a key'
  const remedy = { costs: 'Who reaches the port uses it past the gateway’s keys and books, and sees its metrics.', next: 'Start it with --api-key, and let only the gateway reach the port.' }
  if (reach === 'public') found.problem('key', `${says}, at a public address`, remedy)
  else if (keyed) found.warn('key', says, { ...remedy, next: 'The key of the configuration is not that of the engine: start it with --api-key.' })
  else if (reach === 'private') found.note('key', `${says}, to everybody in its network`, remedy)
  else found.ok('key', 'none needed: it was reached over the loopback')
}

/** false: it serves nothing, so there is nothing else to ask. */
export function checkModels({ models, version, tokens }: EngineFacts, expected: Expected | null, found: Findings): boolean {
  const { cards, asked } = models
  if (cards === null || cards.length === 0) {
    const remedy = { costs: 'Clients cannot be served what nobody serves.', next: 'Is the URL that of an OpenAI-compatible server, without /v1?' }
    found.problem('models', `/v1/models gives no list (${inShort(asked)})`, remedy)
    return false
  }
  const base = cards.filter(({ parent }) => parent === null)
  const adapters = cards.filter(({ parent }) => parent !== null)
  found.ok('models', `${base.map(nameOf).join(', ')}${lengthOf(baseCard(models))}${adapters.length === 0 ? '' : `; adapters ${adapters.map(({ id }) => id).join(', ')}`}`)
  if (version === null && tokens.ids === null) {
    found.note('kind', 'no vLLM: neither /version nor /tokenize', { costs: 'It is served, with what its metrics and answers tell; cache, queue and tokens are the gateway’s own estimates.' })
  }
  if (expected !== null) checkNames(cards, expected, found)
  return true
}

const nameOf = ({ id, root }: ModelCard): string => (root === null || root === id ? id : `${id} (${root})`)
const lengthOf = (card: ModelCard | null): string => (card?.maxModelLen == null ? '' : `, up to ${card.maxModelLen} tokens`)

/** The names of the configuration against those that are served. */
function checkNames(cards: readonly ModelCard[], { pool, engine }: Expected, found: Findings): void {
  const served = cards.map(({ id }) => id)
  const wanted = engine.models ?? [pool.model, ...pool.adapters]
  for (const name of wanted.filter((one) => !served.includes(one))) {
    const isAdapter = pool.adapters.includes(name)
    const root = cards.find((card) => card.root === name)
    const hint = root === undefined ? didYouMean(name, served) : `; it serves that model under the name ${root.id}`
    found.problem('names', `it does not serve ${isAdapter ? 'the adapter ' : ''}${name}${hint}`, {
      costs: `Requests for ${name} that go here are answered with 404.`,
      next: isAdapter ? `Start it with --enable-lora --lora-modules ${name}=PATH, or list what it serves in its \`models\`.` : `Start it with --served-model-name ${name}, or use the name it serves as the pool’s \`model\`.`,
    })
  }
  const unknown = cards.filter(({ id, parent }) => parent !== null && !pool.adapters.includes(id)).map(({ id }) => id)
  if (unknown.length > 0) found.note('adapters', `not in the configuration: ${unknown.join(', ')}`, { costs: 'Clients cannot ask for them.', next: `adapters: [${[...pool.adapters, ...unknown].join(', ')}]` })
}
