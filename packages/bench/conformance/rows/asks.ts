/** Requests of rows about faults, through the gateway and directly to the engine. */
import { engineKey, servedModel } from '../engine.ts'
import type { RealEngine } from '../engine.ts'
import type { FleetName } from '../fleets.ts'
import { gatewayKey } from '../gateway.ts'
import type { GatewayKind } from '../gateway.ts'
import type { HttpRequest } from '../http.ts'
import type { Lab } from '../row.ts'

export const endless = { model: servedModel, prompt: [11], max_tokens: 3500, temperature: 0, ignore_eos: true }
export const brief = { model: servedModel, prompt: 'hello', max_tokens: 2, temperature: 0 }

export async function engines(lab: Lab): Promise<RealEngine[]> {
  return [await lab.engine('a'), await lab.engine('b')]
}

export async function through(
  lab: Lab,
  kind: GatewayKind,
  body: unknown,
  { path = '/v1/completions', fleet = 'plain' as FleetName } = {},
): Promise<HttpRequest> {
  return {
    url: (await lab.gateway(kind, fleet)).url,
    method: 'POST',
    path,
    headers: withKey({}),
    body,
    limitMs: 90_000,
  }
}

export function direct(engine: RealEngine, body: unknown, path = '/v1/completions'): HttpRequest {
  return {
    url: engine.url,
    method: 'POST',
    path,
    headers: { authorization: `Bearer ${engineKey}` },
    body,
    limitMs: 90_000,
  }
}

export async function total(list: readonly RealEngine[], metric: string): Promise<number> {
  return (await Promise.all(list.map((engine) => engine.metric(metric)))).reduce((sum, count) => sum + count, 0)
}

/** With the client's key. */
export function withKey(headers: Readonly<Record<string, string>>): Record<string, string> {
  return { authorization: `Bearer ${gatewayKey}`, ...headers }
}
