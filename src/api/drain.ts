/** What happens to requests when the gateway drains or another one replaces it. */
import type { Config, KeyConfig } from '../config.ts'
import { drainFailure, Failure } from '../failure.ts'
import type { WaitingRequests } from '../origin/placement/waiting-requests.ts'
import type { Ports } from '../ports.ts'
import type { Mirrors } from './mirrors.ts'
import type { GatewayStatus } from './gateway-status.ts'

interface DrainParts {
  readonly config: Pick<Config, 'keys'>
  readonly ports: Pick<Ports, 'random'>
  readonly status: GatewayStatus
  readonly waitingRequests: WaitingRequests
  /** null: there is no mirror traffic. */
  readonly mirrors: Pick<Mirrors, 'end'> | null
}

/** Starts the drain. Waiting requests are answered at once. */
export function drain({ status, waitingRequests, ports, mirrors }: DrainParts): void {
  status.draining = true
  waitingRequests.end(() => drainFailure(ports.random()), true)
  mirrors?.end()
}

/** Each secret of a key, with the key's name. */
const secretIdentities = ({ name, secrets }: KeyConfig): string[] =>
  secrets.map(({ secret }) => JSON.stringify([name, secret]))

/**
 * Another gateway takes new requests. Waiting requests whose key it lacks are answered.
 * @param isNow as in `WaitingRequests.end`
 */
export function supersede(
  { status, config, waitingRequests, mirrors }: DrainParts,
  next: Pick<Config, 'keys'>,
  isNow: boolean,
): void {
  status.retired = true
  // A drain reaches only the gateway that takes new requests.
  mirrors?.end()
  const kept = new Set((next.keys ?? []).flatMap(secretIdentities))
  const removed = new Set(
    // A rotation leaves one of the secrets.
    (config.keys ?? []).flatMap((key) => (secretIdentities(key).some((secret) => kept.has(secret)) ? [] : key.name)),
  )
  if (removed.size > 0) waitingRequests.end((tenant) => (removed.has(tenant) ? keyRemoved() : null), isNow)
}

const keyRemoved = (): Failure =>
  new Failure('key_wrong', 'This API key was removed while the request waited.', {
    headers: { 'www-authenticate': 'Bearer' },
  })
