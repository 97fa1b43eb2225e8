/** Cost models of prefill time, fitted without the gateway, to compare predictions with fewer terms. */

/** Times of one prompt, in milliseconds of one clock. */
export interface Prefill {
  readonly total: number
  readonly cached: number
  readonly sentAt: number
  readonly firstAt: number
}

type Term = (prompt: Pick<Prefill, 'total' | 'cached'>) => number

const fixed: Term = () => 1
const perToken: Term = ({ total, cached }) => total - cached
/** Query-key pairs: the trapezoid of vllm production-stack#670. */
const perPair: Term = ({ total, cached }) => (total ** 2 - cached ** 2) / 2

export const costModels = {
  'tokens alone, a + b new': [fixed, perToken],
  'trapezoid alone, a + k pairs': [fixed, perPair],
  'both, a + b new + k pairs': [fixed, perToken, perPair],
} as const satisfies Readonly<Record<string, readonly Term[]>>

/** Milliseconds of a prefill on an idle engine. */
export type FittedCostModel = (prompt: Pick<Prefill, 'total' | 'cached'>) => number

/** Least squares of the relative error over the prefills on an idle engine. */
export function fitCostModel(terms: readonly Term[], seen: readonly Prefill[]): FittedCostModel {
  const size = terms.length
  const system = Array.from({ length: size }, () => new Float64Array(size + 1))
  for (const { prefill, ownMs } of alone(seen)) {
    const row = terms.map((term) => term(prefill) / ownMs)
    for (let one = 0; one < size; one++) {
      system[one]![size]! += row[one]!
      for (let other = 0; other < size; other++) system[one]![other]! += row[one]! * row[other]!
    }
  }
  const factors = solve(system)
  return (prompt) =>
    Math.max(
      0,
      terms.reduce((sum, term, at) => sum + factors[at]! * term(prompt), 0),
    )
}

/** Prefills on an idle engine and their duration in ms. Others may have shared an engine step. */
export function alone(seen: readonly Prefill[]): { readonly prefill: Prefill; readonly ownMs: number }[] {
  return seen
    .filter(({ sentAt }) => seen.every((other) => other.sentAt >= sentAt || other.firstAt <= sentAt))
    .map((prefill) => ({ prefill, ownMs: prefill.firstAt - prefill.sentAt }))
}

/**
 * Predicted time to first token of each prompt when it was sent: remaining work of earlier prompts, and its own. First
 * come, first served.
 */
export function predictTtfts(costModel: FittedCostModel, seen: readonly Prefill[]): number[] {
  return seen.map((prefill) => {
    const before = seen
      .filter((other) => other.sentAt < prefill.sentAt && other.firstAt > prefill.sentAt)
      .sort((one, other) => one.sentAt - other.sentAt)
    const ended = seen.filter((other) => other.firstAt <= prefill.sentAt).map(({ firstAt }) => firstAt)
    const first = before[0]
    const spentMs = first === undefined ? 0 : prefill.sentAt - Math.max(first.sentAt, ...ended)
    const leftMs = Math.max(0, before.reduce((sum, other) => sum + costModel(other), 0) - spentMs)
    return leftMs + costModel(prefill)
  })
}

/** Gauss-Jordan with pivoting on an augmented matrix. */
function solve(system: readonly Float64Array[]): number[] {
  const size = system.length
  for (let column = 0; column < size; column++) {
    const pivot = system
      .slice(column)
      .reduce((best, row) => (Math.abs(row[column]!) > Math.abs(best[column]!) ? row : best), system[column]!)
    const at = system.indexOf(pivot)
    ;(system as Float64Array[])[at] = system[column]!
    ;(system as Float64Array[])[column] = pivot
    for (const row of system) {
      if (row === pivot || pivot[column] === 0) continue
      const factor = row[column]! / pivot[column]!
      for (let entry = column; entry <= size; entry++) row[entry]! -= factor * pivot[entry]!
    }
  }
  return system.map((row, at) => (row[at] === 0 ? 0 : row[size]! / row[at]!))
}
