/** Columns of the tables of replay and load: heads with units, and what they mean. */
import type { Slo } from '../replay/statistics.ts'

interface ReportColumn {
  readonly head: string
  readonly digits: number
  /** Factor between the JSON figure and the table: shares are shown in percent. */
  readonly factor?: number
  /** The better value. Absent: neither. */
  readonly better?: 'low' | 'high'
  readonly meaning: string
}

export const COLUMNS: Readonly<Record<string, ReportColumn>> = {
  policy: { head: 'policy', digits: 0, meaning: '' },
  requests: { head: 'answered', digits: 0, meaning: 'complete answers' },
  refused: { head: 'failed', digits: 0, meaning: 'requests without a complete answer' },
  ttft_mean_ms: { head: 'TTFT mean ms', digits: 0, better: 'low', meaning: 'time to first token; p50, p90, p99 too' },
  ttft_mean_sd_ms: { head: '± ms', digits: 0, meaning: 'standard deviation of the mean between seeds' },
  ttft_p50_ms: { head: 'p50 ms', digits: 0, better: 'low', meaning: '' },
  ttft_p90_ms: { head: 'p90 ms', digits: 0, better: 'low', meaning: '' },
  ttft_p99_ms: { head: 'p99 ms', digits: 0, better: 'low', meaning: '' },
  itl_mean_ms: { head: 'ITL ms', digits: 1, better: 'low', meaning: 'mean time between tokens' },
  itl_p99_ms: { head: 'ITL p99 ms', digits: 1, better: 'low', meaning: '' },
  goodput: {
    head: 'goodput %',
    digits: 1,
    factor: 100,
    better: 'high',
    meaning: 'share of requests within the limits',
  },
  hit: { head: 'hit %', digits: 1, factor: 100, better: 'high', meaning: 'prompt tokens found in a prefix cache' },
  imbalance_requests: {
    head: 'req ×',
    digits: 2,
    better: 'low',
    meaning: 'requests of the busiest engine, relative to the mean',
  },
  imbalance_work: {
    head: 'work ×',
    digits: 2,
    better: 'low',
    meaning: 'computed prompt tokens of the busiest engine, relative to the mean',
  },
  preemptions: {
    head: 'preempted',
    digits: 0,
    better: 'low',
    meaning: 'sequences that an engine interrupted because its KV cache was full',
  },
  decision_mean_us: { head: 'decide µs', digits: 0, meaning: 'time of a routing decision on this machine' },
  decision_p99_us: { head: 'decide p99 µs', digits: 0, meaning: '' },
  ttft_error_p50: {
    head: 'TTFT error %',
    digits: 0,
    factor: 100,
    better: 'low',
    meaning: 'median error of the predicted TTFT',
  },
}

/** Explains the given columns, one line each. */
export function legendOf(keys: readonly string[], slo: Slo): string[] {
  return keys.flatMap((key) => {
    const column = COLUMNS[key]
    if (column === undefined || column.meaning === '') return []
    const meaning = key === 'goodput' ? goodputText(slo) : column.meaning
    return [`${column.head}: ${meaning}${column.better === undefined ? '' : `; ${BETTER[column.better]} is better`}`]
  })
}

const BETTER = { low: 'lower', high: 'higher' } as const

const goodputText = ({ ttftMs, ttftMsPer1kTokens = 0, itlMs }: Slo): string => {
  const more = ttftMsPer1kTokens === 0 ? '' : ` and ${ttftMsPer1kTokens} ms for each 1,000 tokens`
  return `requests sent that were answered completely, with TTFT up to ${ttftMs} ms${more} and ITL up to ${itlMs} ms`
}

/** Formats a figure in the unit of its column. */
export function figureText(key: string, value: string | number | null | undefined): string {
  if (value === null || value === undefined) return '-'
  const { digits, factor = 1 } = COLUMNS[key] ?? { digits: 0 }
  return typeof value === 'number' ? (value * factor).toFixed(digits) : value
}
