/**
 * `via` (RFC 9110, 7.6.3): what this deployment is called on the requests it forwards, so that it knows one that comes
 * back.
 * `cdn-loop` (RFC 8586) is for CDNs: theirs pass, and we are none.
 */
import type { ClusterConfig } from '../config.ts'
import { hashText } from '../core/routing/rendezvous.ts'
import { Failure } from '../failure.ts'

/** A longer one is left out: some thirty gateways fit, and a loop of fewer is still found, a round later. */
const LONGEST = 1_000
const VERSION = '1.1 '

/**
 * What the name is made of. A list of what is told, not of what is kept: a secret that is added some day stays out of
 * it.
 */
const TOLD = ['id', 'region', 'pools', 'model', 'engines', 'url', 'binding']

/**
 * The same for all who run one document, replicas and isolates, and another for one whose engines are others: an edge
 * before
 * regional gateways. Of the clusters as they are written, since what is found by name comes and goes, and differs for
 * a moment
 * from one replica to the next. A loop through several names ends at the first that comes twice.
 */
export const viaOf = (clusters: readonly ClusterConfig[]): string =>
  `${VERSION}firstlight-${hashText(JSON.stringify(clusters, TOLD)).toString(16).padStart(8, '0')}`

/** Innermost ones. */
const COMMENT = /\([^()]*\)/g

/**
 * Is `own` among those a request has passed? Comments name nobody, and one that never closes is none: it would hide
 * what was written behind it.
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

/** Does a `via` that ends in our own name another gateway of this kind? */
export const passedOthers = (via: string | null): boolean => via !== null && /firstlight-.*,/i.test(via)

export const loopFailure = (): Failure =>
  new Failure(
    'loop',
    "This request has come round: an address that should be an engine's leads back to a gateway that it has " +
      'passed. The log says which.',
  )
