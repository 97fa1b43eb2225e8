/** Why an engine cannot be chosen. */
export type ExclusionReason =
  | 'unhealthy'
  | 'circuit_open'
  | 'draining'
  | 'asleep'
  | 'role'
  | 'model'
  | 'full'
  | 'avoided'
  | 'signal_missing'

/** Why nobody was. */
export type RefusalReason =
  | 'unconfigured'
  | 'no_engine'
  | 'engines_unavailable'
  | 'engines_full'
  | 'role_empty'
  | 'retry_budget'
  | 'overloaded'
