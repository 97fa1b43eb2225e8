/** The gateway's own decisions and learned values. */
import { adminKey } from '../gateway.ts'
import type { RunningGateway } from '../gateway.ts'
import { send, sendJson } from '../http.ts'
import { until } from '../until.ts'

export interface ReportedDecision {
  readonly policy: string
  readonly fallback: { readonly from: string; readonly reason: string } | null
  readonly prompt_tokens: number
  readonly token_source: string
  readonly predicted_ttft_ms: number | null
  readonly predicted_cached_tokens: number | null
  readonly candidates: readonly {
    readonly engine: string
    readonly cost: number
    readonly terms: Readonly<Record<string, number>>
  }[]
  readonly actual?: { readonly stages?: Readonly<Record<string, number>> } | null
  readonly split?: { readonly taken: boolean; readonly why: string }
}

/**
 * Decision of a completed response, by its header. The object that made the decision stores it and gets the outcome a
 * moment later.
 */
export async function decisionOf(gateway: RunningGateway, header: unknown): Promise<ReportedDecision> {
  const id = String(header).split(';')[0]!
  let decision: ReportedDecision | null = null
  await until(
    async () => {
      decision = await asAdmin<ReportedDecision>(gateway, `/v1/firstlight/decisions/${id}`).catch(() => null)
      return (decision?.actual ?? null) !== null
    },
    'the decision',
    { limitMs: 3000 },
  )
  return decision!
}

export interface DigestEngine {
  readonly id: string
  readonly cached_blocks: number
  readonly cache_blocks?: number | null
  readonly learned: {
    readonly cost_model: { readonly fixed_s: number; readonly per_token_s: number; readonly per_pair_s: number }
    readonly samples: number
    readonly confidence: number
    readonly cache_blocks: number | null
    readonly restarts: number
    readonly silent_miss: readonly string[] | null
  }
}

/** The engine in the gateway's ledger. */
export async function digestEngineOf(gateway: RunningGateway, engine: string): Promise<DigestEngine> {
  const { pools } = await asAdmin<{ pools: { engines: DigestEngine[] }[] }>(gateway, '/v1/firstlight/fleet')
  return pools.flatMap(({ engines }) => engines).find(({ id }) => id === engine)!
}

export function asAdmin<T>({ url }: RunningGateway, path: string): Promise<T> {
  return sendJson<T>({ url, method: 'GET', path, headers: { authorization: `Bearer ${adminKey}` } })
}

/** Text of an answer to the admin. Throws unless the status is 200. */
export async function sendAsAdmin(
  { url }: RunningGateway,
  path: string,
  method: 'GET' | 'POST' = 'POST',
): Promise<string> {
  const { status, body } = await send({ url, method, path, headers: { authorization: `Bearer ${adminKey}` } })
  const text = body.toString('utf8')
  if (status !== 200) throw new Error(`${method} ${path} answered ${status}: ${text.slice(0, 300)}`)
  return text
}
