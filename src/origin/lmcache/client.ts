/** JSON calls to auxiliary services, and the interface of LMCache's directory services. */
import type * as z from 'zod/mini'
import type { EngineTarget } from '../../ports/engine-target.ts'
import type { Origin } from '../../ports/origin.ts'
import type { Holders } from '../../core/lmcache/prefix-match.ts'
import type { ListedInstance } from '../../core/lmcache/instance-map.ts'

/**
 * Reason for a skipped lookup. `circuit_open`: LMCache failed too often. `tokenize_paused`: no engine may be asked for
 * token ids at present. `tokenize_late`: tokenization used up the budget. `tokenize_failed`: the engine returned no
 * ids. `unsupported`: an adapter, images or audio, or several prompts in one request.
 */
export type SkipReason = 'circuit_open' | 'tokenize_paused' | 'tokenize_late' | 'tokenize_failed' | 'unsupported'

/** Counts by reason. */
export type SkipCounts = Readonly<Record<string, number>>

/** Counter of the skipped lookups of one pool. */
export class Skips {
  readonly #counts: Record<string, number> = {}

  get counts(): SkipCounts {
    return { ...this.#counts }
  }

  readonly count = (reason: SkipReason): void => {
    this.#counts[reason] = (this.#counts[reason] ?? 0) + 1
  }
}

/** Adds counters by name. */
export function sumCounts(all: readonly Readonly<Record<string, number>>[]): Record<string, number> {
  const sums: Record<string, number> = {}
  for (const counts of all) for (const [name, count] of Object.entries(counts)) sums[name] = (sums[name] ?? 0) + count
  return sums
}

/** Directory service of LMCache: the coordinator of multi-process mode, or the legacy controller. */
export interface CacheSource {
  /** Keys of a lookup besides the tokens. */
  readonly needs: { readonly model: boolean }
  /** Shorter prompts are never found. 0: no lower limit. */
  readonly leastTokens: number
  /** Returns the holders of a prompt. Rejects if the response is invalid. */
  holders(prompt: CachedPrompt, call: Call): Promise<Holders>
  /** Returns the instances on these hosts. */
  instances(hosts: readonly string[], call: Call): Promise<readonly ListedInstance[]>
  /** Number of ranks of an engine. null: the service does not report it, or not yet. */
  worldSize(model: string, call: Call): Promise<number | null>
}

export interface CachedPrompt {
  readonly tokens: Uint32Array
  /** Cache salt. '': none. */
  readonly salt: string
  /** Model name in LMCache's keys. */
  readonly model: string
  readonly worldSize: number
}

export interface Call {
  readonly signal: AbortSignal
  readonly budgetMs: number
}

interface Ask {
  readonly method: 'GET' | 'POST'
  readonly path: string
  readonly body?: unknown
  readonly signal: AbortSignal
  readonly budgetMs: number
}

/**
 * Limit of a response, bytes. A prompt of a million tokens has 4,000 chunks, each with some hundred bytes per holder.
 */
const ANSWER_BYTES = 8 * 1024 * 1024
const utf8 = new TextEncoder()

/** Returns the parsed response. Rejects unless it is a 200 with JSON of bounded size. */
export async function requestJson(
  origin: Origin,
  target: EngineTarget,
  { method, path, body, signal, budgetMs }: Ask,
): Promise<unknown> {
  const answer = await origin.send({
    target,
    method,
    path,
    headers:
      body === undefined
        ? ['accept-encoding', 'identity']
        : ['content-type', 'application/json', 'accept-encoding', 'identity'],
    body: body === undefined ? null : [utf8.encode(JSON.stringify(body))],
    connectMs: budgetMs,
    firstByteMs: budgetMs,
    signal,
  })
  if (answer.status !== 200) {
    answer.discard()
    throw new Error(`${method} ${path} answered ${answer.status}`)
  }
  return JSON.parse(new TextDecoder().decode(await answer.read(ANSWER_BYTES)))
}

/** Parses a response by its schema; throws otherwise. Zod Mini has no `schema.parse`. */
export function readAs<Shape>(schema: z.ZodMiniType<Shape>, answer: unknown): Shape {
  const { data, error } = schema.safeParse(answer)
  if (error === undefined) return data
  const { path, message } = error.issues[0]!
  throw new Error(`not as expected at ${path.join('.')}: ${message}`)
}
