/**
 * Result of a renewal. false: the pool does not have the booking. `paused`: its engine is paused, so renew soon again.
 * `fenced`: its answer may not go on, because the weights of its engine have changed.
 */
export type Renewal = boolean | 'paused' | 'fenced'
