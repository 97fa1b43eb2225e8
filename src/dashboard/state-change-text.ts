/** Changes of an engine's state in words. */
import { failureText } from './failure-text.ts'
import type { StateChange } from './wire.ts'

const TEXTS: Readonly<Record<string, string>> = {
  'health healthy': 'health check passes again',
  'health unhealthy': 'health check failed',
  'circuit open': 'circuit opened',
  'circuit closed': 'circuit closed',
  'use serving': 'in use again',
  'use asleep': 'fell asleep',
  'use paused': 'paused',
  'condition well': 'well again',
}

export function changeText({ aspect, to, reason }: StateChange): string {
  const text = TEXTS[`${aspect} ${to}`] ?? to
  return reason === undefined ? text : `${text} (${failureText(reason)})`
}

const BAD: readonly StateChange['to'][] = ['unhealthy', 'open', 'wedged', 'unreachable', 'faulty']

const GOOD: readonly StateChange['to'][] = ['healthy', 'closed', 'serving', 'well']

export function toneOfChange({ to }: Pick<StateChange, 'to'>): 'good' | 'warn' | 'bad' {
  if (BAD.includes(to)) return 'bad'
  return GOOD.includes(to) ? 'good' : 'warn'
}
