import { isAnswer } from '../ask.ts'
import type { Findings } from '../finding.ts'
import type { ExpectedEngine } from './expected.ts'
import type { EngineFacts } from './facts.ts'

/** Returns false if the key was rejected, which makes all other answers meaningless. */
export function checkKey(
  { models, keyed, withoutKey, reach }: EngineFacts,
  expected: ExpectedEngine | null,
  found: Findings,
): boolean {
  const { result } = models
  if (isAnswer(result) && (result.status === 401 || result.status === 403)) {
    const where =
      expected === null ? '--key KEY, or FIRSTLIGHT_ENGINE_KEY' : `\`key: { env: … }\` of engine ${expected.engine.id}`
    const what = keyed ? 'the key was rejected' : 'a key is required'
    found.problem('key', `${what} (HTTP ${result.status})`, {
      costs: 'Every request fails.',
      next: `Use the key it was started with (--api-key, VLLM_API_KEY): ${where}.`,
    })
    return false
  }
  if (withoutKey !== 200)
    found.ok('key', keyed ? 'accepted, and required' : 'the headers of the configuration are required')
  else checkOpen({ keyed, reach }, found)
  return true
}

function checkOpen({ keyed, reach }: Pick<EngineFacts, 'keyed' | 'reach'>, found: Findings): void {
  const message = keyed ? 'requests without the key are accepted too' : 'no key is required'
  const remedy = {
    costs: 'Anyone who reaches the port bypasses the gateway’s keys and load tracking, and can read its metrics.',
    next: 'Start it with --api-key, and restrict the port to the gateway.',
  }
  if (reach === 'public') found.problem('key', `${message}, at a public address`, remedy)
  else if (keyed)
    found.warn('key', message, {
      ...remedy,
      next: 'The engine does not check the configured key: start it with --api-key.',
    })
  else if (reach === 'private') found.note('key', `${message}, for every host in its network`, remedy)
  else found.ok('key', 'not needed: reached over loopback')
}
