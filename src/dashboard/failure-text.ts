/** Failures of engines in words. */
import type { EngineLine } from './engine-state.ts'
import { dayAndClock } from './format.ts'
import { silentSince } from './region.ts'

const FAILURES: Readonly<Record<string, string>> = {
  connect: 'no connection',
  connect_timeout: 'no connection in time',
  reset: 'connection closed by the engine',
  malformed: 'response is not HTTP',
  first_byte_timeout: 'no answer in time',
  answer_timeout: 'no complete answer in time',
  idle_timeout: 'stream without output',
  status_5xx: 'status 5xx',
  busy: 'engine busy',
  lacks_model: 'model or adapter not loaded',
  lacks_adapter: 'adapter could not be loaded',
  loop: 'routing loop: its address leads back to this gateway',
}

export const failureText = (failure: string): string => FAILURES[failure] ?? failure.replaceAll('_', ' ')

/** Why an engine is unhealthy. */
export const problemText = ({ problem }: Pick<EngineLine['engine'], 'problem'>): string =>
  problem === undefined ? 'health checks fail' : `health checks fail (${failureText(problem)})`

/** Why an engine gets no requests, for its row. null: it is well, or its state says it. */
export function reasonOf({
  engine,
  state,
  pool,
}: Pick<EngineLine, 'engine' | 'state'> & Partial<Pick<EngineLine, 'pool'>>): string | null {
  const since = pool === undefined ? null : silentSince(pool)
  if (since !== null) return `no answer since ${dayAndClock(since)}`
  if (state === 'unhealthy') return engine.problem === undefined ? null : failureText(engine.problem)
  if (state === 'circuit') return engine.last_failure === undefined ? null : failureText(engine.last_failure.failure)
  return null
}
