/** Examines one engine: from its address to its findings. */
import type { Endpoint } from '../ask.ts'
import { Findings, type Subject } from '../finding.ts'
import {
  CAME_ROUND,
  checkClock,
  checkHealth,
  checkKey,
  checkModels,
  type Expected,
  checkExposure,
} from './checks-basic.ts'
import {
  checkAnswers,
  checkEvents,
  checkKeepAlive,
  checkLimits,
  checkRequestIds,
  checkRole,
  checkSleepMode,
  checkTokenize,
  checkCache,
  checkMetrics,
} from './checks-features.ts'
import type { EngineFacts } from './facts.ts'
import { readEngine, type ReadOptions } from './read.ts'

export interface Examined {
  readonly subject: Subject
  /** null: the engine was unreachable. */
  readonly facts: EngineFacts | null
}

export async function examineEngine(
  name: string,
  place: Endpoint,
  expected: Expected | null,
  options: ReadOptions,
): Promise<Examined> {
  const facts = await readEngine(place, options)
  const found = new Findings()
  const subject = (is: string): Subject => ({ kind: 'engine', name, url: place.url, is, findings: found.list })
  if (!('health' in facts)) {
    found.add('unreachable', 'reachable', facts.message, {
      costs: 'The gateway sends no requests to it.',
      next: facts.next,
    })
    return { subject: subject(''), facts: null }
  }
  checkHealth(facts, found)
  // The request came back to this gateway. All further answers would be our own.
  if (facts.health.status === CAME_ROUND) return { subject: subject('Firstlight gateway'), facts: null }
  if (checkKey(facts, expected, found)) judge(facts, expected, found)
  checkClock(facts, found)
  checkKeepAlive(facts, found)
  checkExposure(facts, found)
  return { subject: subject(facts.version === null ? '' : `vLLM ${facts.version}`), facts }
}

function judge(facts: EngineFacts, expected: Expected | null, found: Findings): void {
  if (!checkModels(facts, expected, found)) return
  if (checkMetrics(facts, found)) checkCache(facts, expected, found)
  checkAnswers(facts, expected, found)
  checkRequestIds(facts, found)
  checkEvents(facts, found)
  checkTokenize(facts, expected, found)
  checkLimits(facts, expected, found)
  checkSleepMode(facts, found)
  checkRole(facts, expected, found)
}
