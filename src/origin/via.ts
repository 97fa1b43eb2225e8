/**
 * `via` (RFC 9110, section 7.6.3): the name of this deployment on forwarded requests, so that it recognizes its own.
 * `cdn-loop` (RFC 8586) is for CDNs and passes unchanged.
 */
import { VIA_VERSION } from '../config/via-name.ts'
import { Failure } from '../failure.ts'

/**
 * Limit of `via`, bytes. Longer ones are dropped: about thirty gateways fit, and a shorter loop is found one round
 * later.
 */
const MAX_VIA_BYTES = 1_000

/** Innermost comments. */
const COMMENT = /\([^()]*\)/g

/**
 * Returns whether `own` is in `via`. Comments are removed first; an unclosed comment does not count as one, since it
 * would hide what follows.
 */
export function hasPassed(via: string | null, own: string): boolean {
  if (via === null) return false
  let members = via.toLowerCase()
  const name = own.slice(VIA_VERSION.length)
  if (!members.includes(name)) return false
  for (let depth = 0; depth < 3; depth++) members = members.replace(COMMENT, ' ')
  return members.split(',').some((member) => member.trim().split(/\s+/)[1] === name)
}

export const withVia = (before: string | null, own: string): string =>
  before && before.length <= MAX_VIA_BYTES ? `${before}, ${own}` : own

/** Returns whether a `via` that ends in our own name names another gateway. */
export const passedOthers = (via: string | null): boolean => via !== null && /firstlight-.*,/i.test(via)

export const loopFailure = (): Failure =>
  new Failure(
    'loop',
    'Routing loop: a configured engine URL points back to a gateway that this request already passed. ' +
      "The gateway's log names the URL.",
  )
