/** Tokens of a request whose client leaves before the answer shows its output. */
import type { UsedTokens } from '../../core/limits/used-tokens.ts'
import type { EngineTarget } from '../../ports/engine-target.ts'
import type { AcquiredPlacement } from '../placement/acquired-placement.ts'
import type { Exchange } from '../exchange.ts'
import { OutputPace } from './output-pace.ts'

/** Learned per process or isolate. The entries end with the engines of a configuration. */
export const outputPace = new OutputPace()

/**
 * Prompt, and the output that the engine had time for, within the request's limit. A stream has sent nothing, so it has
 * no output. null: the engine's pace is not known yet.
 */
export function abortedUse(
  { exchange, placed }: { readonly exchange: Exchange; readonly placed: AcquiredPlacement },
  engine: EngineTarget,
  ms: number,
): UsedTokens | null {
  const { promptTokens, sequences = 1 } = placed
  if (exchange.stream) return { promptTokens, outputTokens: 0 }
  const { outputLimitTokens = Infinity } = exchange.source.admission(placed.route)
  if (outputLimitTokens === 0) return { promptTokens, outputTokens: 0 }
  const output = outputPace.tokensIn(engine, exchange.path, ms)
  return output === null ? null : { promptTokens, outputTokens: Math.min(output, sequences * outputLimitTokens) }
}
