import { ask, type Endpoint, isAnswer, type Question } from '../ask.ts'
import type { Findings, Remedy } from '../finding.ts'
import { reachOf } from '../reach.ts'

/**
 * LMCache has no authentication, so a public address needs other protection. Sent without the configured headers, like
 * a stranger's request.
 */
export async function checkOpen({ url }: Endpoint, question: Question, found: Findings, remedy: Remedy): Promise<void> {
  if (reachOf(url) !== 'public') return
  const result = await ask({ url, headers: {} }, question)
  if (isAnswer(result) && result.status === 200) found.problem('open', 'no authentication, at a public address', remedy)
}
