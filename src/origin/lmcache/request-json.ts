/** JSON calls to auxiliary services. */
import type * as z from 'zod/mini'
import type { OriginTarget } from '../../ports/engine-target.ts'
import type { Origin } from '../../ports/origin.ts'

interface JsonRequest {
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
  target: OriginTarget,
  { method, path, body, signal, budgetMs }: JsonRequest,
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
