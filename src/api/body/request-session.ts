/** Session of a request: from its options, the sources of the pool, or what known clients send. */
import type { PoolSettings } from '../../config.ts'
import type { ClientSession } from '../../core/contract/client-session.ts'
import type { PoolRoute } from '../../origin/pool-route.ts'
import type { Protocol } from '../../protocols/protocol.ts'
import { cleaned, configuredSources, namedSession, sessionOf, type SessionSource } from '../../protocols/session.ts'
import type { InferenceRequest } from '../inference-request.ts'

type SessionSettings = PoolSettings['session']

const sourceLists = new WeakMap<SessionSettings, Map<Protocol, readonly SessionSource[]>>()

/** null: the client names none. */
export function sessionIn(
  { incoming, endpoint, body, options }: Pick<InferenceRequest, 'incoming' | 'endpoint' | 'body' | 'options'>,
  { pool }: PoolRoute,
): ClientSession | null {
  const { headers } = incoming.request
  const headerOf = (name: string): string | null => headers.get(name)
  const own = cleaned(options.session)
  if (own !== null) return namedSession(own, 'option session', headerOf)
  return sessionOf(headerOf, body.json, sourcesOf(pool.session, endpoint.protocol))
}

function sourcesOf(settings: SessionSettings, protocol: Protocol): readonly SessionSource[] {
  const { header, body, known } = settings
  if (known && header.length === 0 && body.length === 0) return protocol.sessions
  let lists = sourceLists.get(settings)
  if (lists === undefined) sourceLists.set(settings, (lists = new Map()))
  let sources = lists.get(protocol)
  if (sources === undefined) {
    sources = [...configuredSources(header, body), ...(known ? protocol.sessions : [])]
    lists.set(protocol, sources)
  }
  return sources
}
