import { withLastComment } from './last-comment.ts'
import { withRequestedModel } from './requested-model.ts'
import type { AnswerRelay } from './answer-relay.ts'

/** Passes an answer to the client. */
export type RelayStep = (relay: AnswerRelay) => Response

/** Opens a relay and runs its steps. `early`: the first byte is still to come. */
export function relayed(relay: AnswerRelay, step: RelayStep, early: boolean): Response {
  relay.open(early)
  return step(relay)
}

/** The bytes of the engine, as they are. */
export const passed: RelayStep = (relay) => relay.pass()

/** An answer to a leg of another form, in the form that the client expects. */
export const transformed =
  (next: RelayStep): RelayStep =>
  (relay) =>
    relay.transformed() ?? next(relay)

/** A stream that another engine continues if its own fails. */
export const continued =
  (next: RelayStep): RelayStep =>
  (relay) =>
    relay.continued() ?? next(relay)

/** A stream that ends with its stages as a comment. */
export const commented =
  (next: RelayStep): RelayStep =>
  (relay) =>
    relay.takesComment() ? withLastComment(next(relay), () => relay.stages) : next(relay)

/** An answer with the model name that the client requested. */
export const renamed =
  (next: RelayStep): RelayStep =>
  (relay) => {
    const renaming = relay.renaming()
    return renaming === null ? next(relay) : withRequestedModel(next(relay), renaming)
  }
