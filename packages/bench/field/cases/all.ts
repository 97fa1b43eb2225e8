/** All cases by name. */
import type { FieldCase } from '../field-case.ts'
import { connections } from './connections.ts'
import { earlyFaults } from './early-faults.ts'
import { engineAnswers } from './engine-answers.ts'
import { firstToken } from './first-token.ts'
import { forwarding } from './forwarding.ts'
import { lateFaults } from './late-faults.ts'
import { legs } from './legs.ts'
import { probes } from './probes.ts'
import { ranks } from './ranks.ts'
import { sickEngines } from './sick-engines.ts'
import { usage } from './usage.ts'

export const fieldCases: Readonly<Record<string, FieldCase>> = {
  ...usage,
  ...earlyFaults,
  ...lateFaults,
  ...firstToken,
  ...engineAnswers,
  ...legs,
  ...connections,
  ...forwarding,
  ...probes,
  ...ranks,
  ...sickEngines,
}
