/** The built gateway before scripted engines, with its decisions. */
import { sendJson } from '../conformance/http.ts'
import type { Processes } from '../conformance/processes.ts'
import { serveAlone } from '../conformance/standalone.ts'
import { MODEL } from './agents.ts'
import type { Fleet } from './fleet.ts'

const ADMIN_KEY = 'admin-of-agents'
export const CLIENT_KEY = 'key-of-agents'

export interface AgentGateway {
  readonly url: string
  /** Prediction for the request with this id. null: the gateway does not have it. */
  predicted(requestId: string): Promise<Prediction | null>
  /** With `drain`, new requests go to other engines, until `undrain`. */
  setDraining(engine: string, action: 'drain' | 'undrain'): Promise<void>
  stop(): Promise<void>
}

export interface Prediction {
  readonly promptTokens: number
  readonly cachedTokens: number
}

interface RequestView {
  readonly decision: { readonly prompt_tokens: number; readonly predicted_cached_tokens: number | null } | null
}

export async function openAgentGateway(
  processes: Processes,
  name: string,
  { engines }: Pick<Fleet, 'engines'>,
): Promise<AgentGateway> {
  const pool = {
    model: MODEL,
    stats_interval_ms: 200,
    engines: engines.map(({ name: id, url }) => ({ id, url })),
  }
  const { url, stop } = await serveAlone({ processes }, name, {
    keys: [{ name: 'agents', secret: CLIENT_KEY }],
    admin: { secret: ADMIN_KEY },
    clusters: [{ id: 'field', pools: [pool] }],
  })
  const headers = { authorization: `Bearer ${ADMIN_KEY}` }
  return {
    url,
    stop,
    async setDraining(engine, action) {
      await sendJson({ url, method: 'POST', path: `/v1/firstlight/engines/${engine}/${action}`, headers })
    },
    async predicted(requestId) {
      const path = `/v1/firstlight/requests/${encodeURIComponent(requestId)}`
      const view = await sendJson<RequestView>({ url, method: 'GET', path, headers }).catch(() => null)
      const decision = view?.decision ?? null
      if (decision === null) return null
      return { promptTokens: decision.prompt_tokens, cachedTokens: decision.predicted_cached_tokens ?? 0 }
    },
  }
}
