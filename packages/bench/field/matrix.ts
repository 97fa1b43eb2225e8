/** The matrix of field cases: every case, protocol, engine type and runtime, and what happens in each cell. */
import { readFileSync } from 'node:fs'

export const RUNTIMES = ['node', 'worker'] as const
export type Runtime = (typeof RUNTIMES)[number]

/** Cells that do not apply. A part that is absent covers all values. */
export interface Exclusion {
  readonly protocols?: readonly string[]
  readonly engines?: readonly string[]
  readonly runtimes?: readonly string[]
  readonly reason: string
}

export interface MatrixCase {
  /** Name in field-cases (S1, O2 …), or E10 to E14 for the cases of the page on engines. */
  readonly id: string
  readonly what: string
  /** Protocols to which it applies. */
  readonly protocols: readonly string[]
  /** Why it does not apply to the other protocols. Absent: it applies to all. */
  readonly otherProtocols?: string
  /** Engine types to which it applies. Absent: all. */
  readonly engines?: readonly string[]
  readonly otherEngines?: string
  readonly except?: readonly Exclusion[]
  /** Issue that its cells wait for. */
  readonly later?: string
}

interface MatrixDocument {
  readonly about: string
  /** Routes that an engine type lacks, so that no case of their protocols applies to it. */
  readonly missing: readonly Exclusion[]
  readonly cases: readonly MatrixCase[]
}

export interface Cell {
  readonly id: string
  readonly protocol: string
  readonly engine: string
  readonly runtime: Runtime
}

export type MatrixCell = Cell &
  (
    | { readonly state: 'runs' }
    | { readonly state: 'does not apply'; readonly reason: string }
    | { readonly state: 'later'; readonly issue: string }
  )

export interface Axes {
  readonly protocols: readonly string[]
  readonly engines: readonly string[]
}

export const matrix = JSON.parse(readFileSync(new URL('matrix.json', import.meta.url), 'utf8')) as MatrixDocument

/** All cells, in the order of the cases. */
export function cellsOf({ cases, missing }: MatrixDocument, { protocols, engines }: Axes): MatrixCell[] {
  const cells: MatrixCell[] = []
  for (const one of cases)
    for (const protocol of protocols)
      for (const engine of engines)
        for (const runtime of RUNTIMES) {
          const cell = { id: one.id, protocol, engine, runtime }
          const reason = reasonAgainst(one, cell, missing)
          if (reason !== null) cells.push({ ...cell, state: 'does not apply', reason })
          else if (one.later !== undefined) cells.push({ ...cell, state: 'later', issue: one.later })
          else cells.push({ ...cell, state: 'runs' })
        }
  return cells
}

function reasonAgainst(one: MatrixCase, cell: Cell, missing: readonly Exclusion[]): string | null {
  if (!one.protocols.includes(cell.protocol)) return one.otherProtocols ?? ''
  if (one.engines?.includes(cell.engine) === false) return one.otherEngines ?? ''
  return [...missing, ...(one.except ?? [])].find((exclusion) => covers(exclusion, cell))?.reason ?? null
}

/** @testing */
export const covers = ({ protocols, engines, runtimes }: Exclusion, { protocol, engine, runtime }: Cell): boolean =>
  protocols?.includes(protocol) !== false &&
  engines?.includes(engine) !== false &&
  runtimes?.includes(runtime) !== false
