import { answered, ask, type Place, type Question } from '../ask.ts'
import type { Findings, Remedy } from '../finding.ts'
import { reachOf } from '../reach.ts'

/** LMCache asks nobody for a key: at a public address something else has to. Asked as a stranger, without the headers. */
export async function checkOpen({ url }: Place, question: Question, found: Findings, remedy: Remedy): Promise<void> {
  if (reachOf(url) !== 'public') return
  const asked = await ask({ url, headers: {} }, question)
  if (answered(asked) && asked.status === 200) found.problem('open', 'it asks nobody for a key, at a public address', remedy)
}
