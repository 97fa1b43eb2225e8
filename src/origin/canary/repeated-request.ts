import type { AnswerToken } from '../../core/canary/answers-agree.ts'
import type { Ports } from '../../ports.ts'
import type { EngineTarget } from '../../ports/engine-target.ts'
import type { Comparison } from '../../protocols/comparison.ts'
import { objectIn } from '../../protocols/stream/reader.ts'
import { withDeadline } from '../../timeout.ts'
import { ownRequest } from '../own-request.ts'

const CONNECT_MS = 2_000
const LIMIT_MS = 30_000
/** An answer of a few tokens with their log probabilities. */
const ANSWER_BYTES = 256 * 1024

interface RepeatedRequest {
  readonly path: string
  readonly body: Uint8Array
}

/** Returns the tokens that the engine answers; null: none. No text is stored. Rejects if the engine fails. */
export async function tokensFrom(
  target: EngineTarget,
  request: RepeatedRequest,
  comparison: Comparison,
  { origin, timers }: Pick<Ports, 'origin' | 'timers'>,
): Promise<readonly AnswerToken[] | null> {
  const ended = new AbortController()
  try {
    return await withDeadline(LIMIT_MS, ask(), { timers })
  } finally {
    ended.abort()
  }

  async function ask(): Promise<readonly AnswerToken[] | null> {
    const { path, body } = request
    // The origin may use the memory of what it has sent.
    const sent = body.slice()
    const limits = { connectMs: CONNECT_MS, limitMs: LIMIT_MS, signal: ended.signal, timers }
    const answer = await origin.send(ownRequest(target, path, { json: sent, ...limits }))
    const text = new TextDecoder().decode(await answer.read(ANSWER_BYTES))
    const json = answer.status === 200 ? objectIn(text) : null
    return json === null ? null : comparison.tokens(json)
  }
}
