/** Examines one engine: from its address to its findings. */
import { guideOf } from '../../../engines/engine-guides.ts'
import type { Endpoint } from '../ask.ts'
import { Findings, type Subject } from '../finding.ts'
import { checkClock, checkHealth, LOOP_STATUS } from './checks-health.ts'
import { checkKey } from './checks-key.ts'
import { checkModels } from './checks-models.ts'
import type { ExpectedEngine } from './expected.ts'
import { checkEventPorts, checkRanks } from './check-ranks.ts'
import { checkCache } from './checks-cache.ts'
import { checkExposure } from './checks-exposure.ts'
import {
  checkAnswers,
  checkEvents,
  checkKeepAlive,
  checkLimits,
  checkMetrics,
  checkRequestIds,
  checkRole,
  checkSleepMode,
  checkTokenize,
} from './checks-features.ts'
import type { EngineFacts } from './facts.ts'
import { readEngine, type ReadOptions } from './read.ts'
import { checkQuirks } from './server-advice.ts'

export interface EngineExamination {
  readonly subject: Subject
  /** null: the engine was unreachable. */
  readonly facts: EngineFacts | null
}

export async function examineEngine(
  name: string,
  place: Endpoint,
  expected: ExpectedEngine | null,
  options: ReadOptions,
): Promise<EngineExamination> {
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
  if (facts.health.status === LOOP_STATUS) return { subject: subject('Firstlight gateway'), facts: null }
  if (checkKey(facts, expected, found)) judge(facts, expected, found)
  checkClock(facts, found)
  checkKeepAlive(facts, found)
  checkExposure(facts, found)
  return { subject: subject(softwareOf(facts)), facts }
}

function softwareOf({ type, version }: EngineFacts): string {
  const { inspection } = guideOf(type)
  if (inspection === null) return type.title
  return version === null ? '' : `${inspection.server} ${version}`
}

function judge(facts: EngineFacts, expected: ExpectedEngine | null, found: Findings): void {
  if (!checkModels(facts, expected, found)) return
  if (checkMetrics(facts, found)) {
    checkCache(facts, expected, found)
    checkRanks(facts, expected, found)
    checkEventPorts(facts, found)
  }
  checkAnswers(facts, expected, found)
  const { inspection } = guideOf(facts.type)
  if (inspection === null) return checkQuirks(facts, found)
  checkRequestIds(facts, inspection, found)
  checkEvents(facts, inspection, found)
  checkTokenize(facts, expected, found)
  checkLimits(facts, inspection, expected, found)
  checkSleepMode(facts, found)
  checkRole(facts, inspection, expected, found)
}
