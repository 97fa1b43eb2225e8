/** What another Firstlight says of the prompts it might be given: `GET /v1/firstlight/outlook`. */
import { type Outlook, OUTLOOK_VERSION, type Prospect } from '../../core/cluster/outlook.ts'
import type { OriginAnswer, Ports } from '../../ports.ts'
import type { PoolRoute } from '../exchange.ts'

/** What is told of one model. */
export interface Told {
  /** How prompts are cut there: the same number where they are cut alike. null: not into blocks. */
  readonly cut: number | null
  /** Of each of its clusters that has the model. */
  readonly outlooks: readonly Outlook[]
}

/** Why nothing was told, and what an operator may do about it. */
export class NotTold extends Error {
  readonly next: string | null
  /** It would serve requests all the same. */
  readonly isThere: boolean

  constructor(message: string, next: string | null, isThere: boolean) {
    super(message)
    this.name = 'NotTold'
    this.next = next
    this.isThere = isThere
  }
}

const CONNECT_MS = 2_000
const ANSWER_MS = 5_000
/** A filter is some 20 KB; a region has few clusters. */
const ANSWER_BYTES = 1024 * 1024
const MOST_OUTLOOKS = 64

export const OUTLOOK_PATH = '/v1/firstlight/outlook'

/** Rejects with NotTold, or as the origin does. */
export async function askOutlooks(origin: Ports['origin'], { pool, targets }: PoolRoute, via: string): Promise<Told> {
  const [target] = targets.values()
  const answer = await origin.send({
    target: target!,
    method: 'GET',
    path: `${OUTLOOK_PATH}?model=${encodeURIComponent(pool.model)}`,
    headers: ['accept-encoding', 'identity', 'via', via],
    body: null,
    connectMs: CONNECT_MS,
    firstByteMs: ANSWER_MS,
    signal: new AbortController().signal,
  })
  const told = readTold(await jsonOf(answer))
  if (told === null) throw new NotTold('its answer is no outlook', 'Both gateways must be of versions that know each other.', true)
  return told
}

async function jsonOf(answer: OriginAnswer): Promise<unknown> {
  const { status } = answer
  const body = await answer.read(ANSWER_BYTES)
  if (status !== 200) throw new NotTold(`it answered ${status}`, NEXT[status] ?? null, status === 403)
  try {
    return JSON.parse(new TextDecoder().decode(body))
  } catch {
    return null
  }
}

const KEY = 'Give the gateway its `key`; over there the key must say `edge: true`.'
const NEXT: Readonly<Record<number, string>> = {
  401: KEY,
  403: KEY,
  404: 'It does not serve this model, or is no Firstlight that tells what it expects.',
  508: 'Its address leads back to this gateway.',
}

type Fields = Readonly<Record<string, unknown>>

/** null: it cannot be believed. What comes from another gateway is checked like anything else from outside. */
export function readTold(given: unknown): Told | null {
  if (!isFields(given) || !Array.isArray(given['outlooks']) || given['outlooks'].length > MOST_OUTLOOKS) return null
  const { cut } = given
  const outlooks = given['outlooks'].map(readOutlook)
  return outlooks.includes(null) ? null : { cut: typeof cut === 'number' ? cut : null, outlooks: outlooks as Outlook[] }
}

function readOutlook(given: unknown): Outlook | null {
  if (!isFields(given) || given['version'] !== OUTLOOK_VERSION) return null
  const { engines, requests, queued, confidence, prefixes, soonest, usual } = given
  if (!isAmount(engines) || !isAmount(requests) || !isAmount(queued) || !isAmount(confidence) || confidence > 1 || typeof prefixes !== 'string') return null
  const read = { soonest: readProspect(soonest), usual: readProspect(usual) }
  if (engines > 0 && (read.soonest === null || read.usual === null)) return null
  return { version: OUTLOOK_VERSION, cluster: String(given['cluster']), pool: String(given['pool']), configVersion: Number(given['config_version']) || 0, engines, requests, queued, confidence, prefixes, ...read }
}

function readProspect(given: unknown): Pick<Prospect, 'waitS' | 'law'> | null {
  if (!isFields(given) || !isFields(given['law'])) return null
  const { wait_s: waitS } = given
  const { fixed_s: fixedS, per_token_s: perTokenS, per_pair_s: perPairS } = given['law']
  return isAmount(waitS) && isAmount(fixedS) && isAmount(perTokenS) && isAmount(perPairS) ? { waitS, law: { fixedS, perTokenS, perPairS } } : null
}

const isFields = (value: unknown): value is Fields => typeof value === 'object' && value !== null && !Array.isArray(value)
const isAmount = (value: unknown): value is number => typeof value === 'number' && value >= 0 && value < 1e9
