/** What happens to requests when the gateway drains or another one replaces it. */
import type { Config } from '../config.ts'
import { drainFailure, Failure } from '../failure.ts'
import type { GatewayContext } from './context.ts'

/** Rejects new requests while the gateway drains. Running ones continue. */
export function assertAccepting(context: GatewayContext): void {
  if (context.draining) throw drainFailure(context.ports.random())
}

/** Starts the drain. Waiting requests are answered at once. */
export function drain(context: GatewayContext): void {
  context.draining = true
  context.waits.end(() => drainFailure(context.ports.random()), true)
}

const keyIdentity = (key: unknown): string => JSON.stringify(key)

/**
 * Another gateway takes new requests. Waiting requests whose key it lacks are answered.
 * @param isNow as in `WaitingRequests.end`
 */
export function supersede(context: GatewayContext, next: Pick<Config, 'keys'>, isNow: boolean): void {
  context.retired = true
  const { config, waits } = context
  const kept = new Set((next.keys ?? []).map(({ name, secret }) => keyIdentity([name, secret])))
  const removed = new Set(
    (config.keys ?? []).flatMap(({ name, secret }) => (kept.has(keyIdentity([name, secret])) ? [] : name)),
  )
  if (removed.size > 0) waits.end((tenant) => (removed.has(tenant) ? keyRemoved() : null), isNow)
}

const keyRemoved = (): Failure =>
  new Failure('key_wrong', 'This API key was removed while the request waited.', {
    headers: { 'www-authenticate': 'Bearer' },
  })
