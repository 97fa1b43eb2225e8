/** Identifies the server at an address. */
import { ask, type AskResult, type Endpoint, isAnswer } from './ask.ts'

type Kind = 'engine' | 'coordinator' | 'controller' | 'lmcache server' | 'gateway'

/** Returns `engine` unless a route shows another product. Never throws: an unreachable server counts as an engine. */
export async function kindOf(place: Endpoint, limitMs: number): Promise<Kind> {
  const [healthz, healthcheck, query, ready] = await Promise.all(
    ['/healthz', '/healthcheck', '/query_instance', '/ready'].map((path) => ask(place, { path, limitMs })),
  )
  if (/^(ready|not_ready)$/.test(statusOf(ready!))) return 'gateway'
  if (statusOf(healthz!) === 'healthy') return 'coordinator'
  if (/^(un)?healthy$/.test(statusOf(healthcheck!))) return 'lmcache server'
  return isAnswer(query!) && query!.status === 405 ? 'controller' : 'engine'
}

/** Reads `{"status": …}` of a health check; empty if there is none. */
export function statusOf(result: AskResult): string {
  try {
    const { status } = JSON.parse(isAnswer(result) ? result.text : '') as { status?: unknown }
    return typeof status === 'string' ? status : ''
  } catch {
    return ''
  }
}
