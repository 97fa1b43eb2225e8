/** JSON calls to auxiliary services. */
import type * as z from 'zod/mini'
import type { OriginTarget } from '../../ports/engine-target.ts'
import type { Origin } from '../../ports/origin.ts'
import { ownRequest } from '../own-request.ts'

interface JsonRequest {
  readonly path: string
  /** Posted as JSON. Absent: the path is read with GET. */
  readonly body?: unknown
  readonly signal: AbortSignal
  readonly budgetMs: number
}

/**
 * Limit of a response, bytes. A prompt of a million tokens has 4,000 chunks, each with some hundred bytes per holder.
 */
const ANSWER_BYTES = 8 * 1024 * 1024

/** Returns the parsed response. Rejects unless it is a 200 with JSON of bounded size. */
export async function requestJson(
  origin: Origin,
  target: OriginTarget,
  { path, body, signal, budgetMs }: JsonRequest,
): Promise<unknown> {
  const json = body === undefined ? undefined : JSON.stringify(body)
  const request = ownRequest(target, path, { json, limitMs: budgetMs, signal })
  const answer = await origin.send(request)
  if (answer.status !== 200) {
    answer.discard()
    throw new Error(`${request.method} ${path} answered ${answer.status}`)
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
