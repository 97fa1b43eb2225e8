/** What listens at an address that nobody described. */
import { answered, ask, type Asked, type Place } from './ask.ts'

type Kind = 'engine' | 'coordinator' | 'controller' | 'lmcache server' | 'gateway'

/** An engine, unless a route tells otherwise that no engine has. Never throws: who cannot be asked is an engine for now. */
export async function kindOf(place: Place, limitMs: number): Promise<Kind> {
  const [healthz, healthcheck, query, ready] = await Promise.all(['/healthz', '/healthcheck', '/query_instance', '/ready'].map((path) => ask(place, { path, limitMs })))
  if (/^(ready|not_ready)$/.test(statusOf(ready!))) return 'gateway'
  if (statusOf(healthz!) === 'healthy') return 'coordinator'
  if (/^(un)?healthy$/.test(statusOf(healthcheck!))) return 'lmcache server'
  return answered(query!) && query!.status === 405 ? 'controller' : 'engine'
}

/** `{"status": …}` of a health check; empty: it has none. */
export function statusOf(asked: Asked): string {
  try {
    const { status } = JSON.parse(answered(asked) ? asked.text : '') as { status?: unknown }
    return typeof status === 'string' ? status : ''
  } catch {
    return ''
  }
}
