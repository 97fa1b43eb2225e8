/** One JSON call to a service beside the engines. */
import type * as z from 'zod/mini'
import type { EngineTarget, Origin } from '../../ports.ts'

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
