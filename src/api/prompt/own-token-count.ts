/** Number of prompt tokens by the vocabulary of the pool, for engines that have no route to count them. */
import { Failure } from '../../failure.ts'
import type { InferenceRequest } from '../inference-request.ts'
import type { InferenceSource } from '../inference-source.ts'
import { jsonResponse } from '../json-response.ts'

/** undefined: the endpoint answers more than a number. */
export function ownCount(
  { incoming, endpoint: { countAnswer, path }, model, routes }: InferenceRequest,
  source: InferenceSource,
): (() => Response) | undefined {
  if (countAnswer === null) return undefined
  return () => {
    const { promptTokens, tokenSource } = source.admission(routes[0]!)
    if (tokenSource !== 'exact' && tokenSource !== 'engine')
      throw new Failure(
        'not_found',
        `No engine of '${model}' has ${path}, and the gateway cannot count this prompt exactly. Configure a ` +
          '`tokenizer` with a chat template for the pool, or estimate the length in the client.',
      )
    // No engine writes the log line at the end of its stream.
    incoming.logOnStreamEnd = false
    return jsonResponse(incoming, countAnswer(promptTokens))
  }
}
