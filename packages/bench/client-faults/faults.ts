/** Faults that clients must read as errors. Both engines have them, so the gateway cannot hide them. */

interface FaultForm {
  readonly stream: boolean
  /** What the engine does. */
  readonly says: string
}

export const faults = {
  error_first: { stream: true, says: 'an error event before any output' },
  error_mid: { stream: true, says: 'an error event within the output' },
  no_end: { stream: true, says: 'a clean end within the output' },
  cut: { stream: true, says: 'a reset within the output' },
  empty: { stream: true, says: 'no event at all' },
  html: { stream: true, says: '200 with an HTML page' },
  busy: { stream: true, says: '429 with retry-after' },
  whole_cut: { stream: false, says: 'a reset within the body' },
  whole_error: { stream: false, says: '200 with a JSON error' },
  whole_html: { stream: false, says: '200 with an HTML page' },
  whole_busy: { stream: false, says: '429 with retry-after' },
} as const satisfies Readonly<Record<string, FaultForm>>

export type ClientFault = keyof typeof faults
export const faultNames = Object.keys(faults) as readonly ClientFault[]

/** The prompt names the fault. `none`: a complete answer. */
export const promptOf = (fault: ClientFault | 'none'): string => `FAULT=${fault}.`

export const faultIn = (body: string): string | null => /FAULT=(\w+)/.exec(body)?.[1] ?? null

/** Text of a complete answer. */
export const ANSWER = 'This answer has eight pieces of text in it, and the last of them is: the end.'
