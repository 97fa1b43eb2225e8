/**
 * Durations of the stages a request went through before its first token, milliseconds. Absent: not gone through or
 * unknown.
 */
export type StageTimes = Readonly<Partial<Record<Stage, number>>>

export type Stage =
  | 'edge'
  | 'tokens'
  | 'route'
  | 'lookup'
  | 'admit'
  | 'gateway_queue'
  | 'connect'
  | 'encode'
  | 'prefill_leg'
  | 'transfer'
  | 'queue'
  | 'prefill'
  | 'first_byte'
  | 'ttft'
