/** Refusals that are no fault: another engine may do better, and if none does, the client gets the answer. */
import type { AttemptFailure } from '../../core/contract/outcome.ts'
import type { OriginAnswer } from '../../ports/origin.ts'
import type { FailedOutcome } from '../attempt-context.ts'

const KEPT: ReadonlySet<AttemptFailure> = new Set(['lacks_route', 'too_long'])

/** The answer of such an attempt stays open until another engine has answered. */
export const keepsAnswer = ({ failure }: { readonly failure: AttemptFailure }): boolean => KEPT.has(failure)

/** Ends the calls whose answers were kept, except `used`, which the client gets. */
export function discardKeptAnswers(failed: readonly FailedOutcome[], used: OriginAnswer | null = null): void {
  for (const { answer } of failed) if (answer !== used) answer?.discard()
}
