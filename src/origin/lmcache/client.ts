/** One JSON call to a service beside the engines. */
import type * as z from 'zod/mini'
import type { EngineTarget, Origin } from '../../ports.ts'
import type { Holders } from '../../core/lmcache/prefix-match.ts'
import type { ListedInstance } from '../../core/lmcache/instance-map.ts'

/** A service that knows what LMCache holds: the coordinator of multi-process mode, or the legacy controller. */
export interface CacheSource {
  /** What a prompt is looked up by, besides its tokens. */
  readonly needs: { readonly model: boolean }
  /** Fewer tokens than this are never found; 0: every prompt may be. */
  readonly leastTokens: number
  /** Rejects for everything that is no answer of such a service. */
  holders(prompt: CachedPrompt, call: Call): Promise<Holders>
  /** Instances on these hosts. */
  instances(hosts: readonly string[], call: Call): Promise<readonly ListedInstance[]>
  /** Ranks of an engine, where the service shows them; null: it does not, or not yet. */
  worldSize(model: string, call: Call): Promise<number | null>
}

export interface CachedPrompt {
  readonly tokens: Uint32Array
  /** Salt in force; '' for none. */
  readonly salt: string
  /** The model's name in LMCache's keys. */
  readonly model: string
  readonly worldSize: number
}

export interface Call {
  readonly signal: AbortSignal
  readonly budgetMs: number
}

export interface Ask {
  readonly method: 'GET' | 'POST'
  readonly path: string
  readonly body?: unknown
  readonly signal: AbortSignal
  readonly budgetMs: number
}

/** A prompt of a million tokens has 4,000 chunks; each of its rows is some hundred bytes a holder. */
const ANSWER_BYTES = 8 * 1024 * 1024
const utf8 = new TextEncoder()

/** The answer, parsed. Rejects for anything but a 200 with JSON of bounded size. */
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

/** What an answer says. Throws where it has another shape. Not by `schema.parse`: the Worker's Zod has none. */
export function readAs<Shape>(schema: z.ZodMiniType<Shape>, answer: unknown): Shape {
  const { data, error } = schema.safeParse(answer)
  if (error === undefined) return data
  const { path, message } = error.issues[0]!
  throw new Error(`not as expected at ${path.join('.')}: ${message}`)
}
