/** Whether two greedy answers to one prompt agree. */

/** One token of an answer. */
export interface AnswerToken {
  readonly text: string
  /** null: not reported. */
  readonly logprob: number | null
}

/** Difference of log probabilities below which either token was about as likely, and rounding decided. */
const TIE_NATS = 0.25

/**
 * Compares two answers up to the token at which they part. A tie there counts as agreement: engines of one model add
 * in different orders, and a greedy answer takes another path after a tie.
 */
export function answersAgree(one: readonly AnswerToken[], other: readonly AnswerToken[]): boolean {
  const at = one.findIndex(({ text }, index) => other[index]?.text !== text)
  return at < 0 ? one.length === other.length : isTie(one[at], other[at])
}

/** An answer that ends has no token there. */
function isTie(one: AnswerToken | undefined, other: AnswerToken | undefined): boolean {
  if (one?.logprob == null || other?.logprob == null) return false
  return Math.abs(one.logprob - other.logprob) < TIE_NATS
}
