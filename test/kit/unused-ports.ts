/** Ports that tests of other parts need and do not look at: nothing is posted or fetched, and alerts are dropped. */
import type { Ports } from '../../src/ports.ts'
import { defaultTimers } from '../../src/timers.ts'

const refuse = async (url: string): Promise<never> => {
  throw new Error(`the test has no service at ${url}`)
}

export const unusedPorts = {
  services: { post: refuse, fetchJson: refuse },
  alerts: { raise: () => undefined },
  timers: defaultTimers,
  maxMeasuredPromptBytes: 0,
} satisfies Partial<Ports>
