/**
 * `via` (RFC 9110, section 7.6.3): the name of this deployment on forwarded requests, so that it recognizes its own.
 * `cdn-loop` (RFC 8586) is for CDNs and passes unchanged.
 */
import type { ClusterConfig } from '../config.ts'
import { hashText } from '../core/routing/rendezvous.ts'
import { Failure } from '../failure.ts'

/**
 * Limit of `via`, bytes. Longer ones are dropped: about thirty gateways fit, and a shorter loop is found one round
 * later.
 */
const LONGEST = 1_000
const VERSION = '1.1 '

/** Fields that the name is derived from. An allow-list, so that a secret added later stays out. */
const TOLD = ['id', 'region', 'pools', 'model', 'engines', 'url', 'binding']

/**
 * Name of a deployment: equal for all replicas and isolates with the same document, different for other engines (an
 * edge before regional gateways). It uses the clusters as written, because discovered addresses change and differ
 * between replicas for a moment. A loop through several names ends at the first that occurs twice.
 */
export const viaOf = (clusters: readonly ClusterConfig[]): string =>
  `${VERSION}firstlight-${hashText(JSON.stringify(clusters, TOLD)).toString(16).padStart(8, '0')}`

/** Innermost comments. */
const COMMENT = /\([^()]*\)/g

/**
 * Returns whether `own` is in `via`. Comments are removed first; an unclosed comment does not count as one, since it
 * would hide what follows.
 */
export function hasPassed(via: string | null, own: string): boolean {
  if (via === null) return false
  let said = via.toLowerCase()
  const name = own.slice(VERSION.length)
  if (!said.includes(name)) return false
  for (let depth = 0; depth < 3; depth++) said = said.replace(COMMENT, ' ')
  return said.split(',').some((member) => member.trim().split(/\s+/)[1] === name)
}

export const withVia = (before: string | null, own: string): string =>
  before && before.length <= LONGEST ? `${before}, ${own}` : own

/** Returns whether a `via` that ends in our own name names another gateway. */
export const passedOthers = (via: string | null): boolean => via !== null && /firstlight-.*,/i.test(via)

export const loopFailure = (): Failure =>
  new Failure(
    'loop',
    "This request has come round: an address that should be an engine's leads back to a gateway that it has " +
      'passed. The log says which.',
  )
