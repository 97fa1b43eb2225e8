/** First overdue sign of a sick engine, from what clients saw and not from what the gateway measured. */
import { median } from '../median.ts'
import type { ClientCall } from './client.ts'
import { OUTPUT_TOKENS } from './load.ts'
import type { AttemptOnEngine } from './site.ts'

/** Error of a predicted first token as docs/recovery.md publishes it, ms. */
const firstTokenErrorMs = (predictedMs: number): number => 400 + 0.5 * predictedMs

/** Error of the usual time for one block of output as docs/recovery.md publishes it, ms. */
const blockErrorMs = (blockMs: number): number => 500 + blockMs

/** Tokens of one block of output. */
const BLOCK_TOKENS = 16

export interface SickEngine {
  readonly sent: readonly ClientCall[]
  /** Requests that were placed on it. */
  readonly there: readonly AttemptOnEngine[]
  readonly faultAt: number
}

/**
 * Returns when the first output of the engine was overdue after the fault; null: never. The prediction is the median of
 * the times before the fault, which are those of idle engines that answer prompts of one length.
 */
export function firstOverdueAt({ sent, there, faultAt }: SickEngine): number | null {
  const before = sent.filter(({ endedAt, firstTokenAt }) => endedAt < faultAt && firstTokenAt !== null)
  if (before.length === 0) return null
  const ttftMs = median(before.map(({ sentAt, firstTokenAt }) => firstTokenAt! - sentAt))
  const tokenMs = median(before.map(({ firstTokenAt, endedAt }) => (endedAt - firstTokenAt!) / OUTPUT_TOKENS))
  const blockMs = BLOCK_TOKENS * tokenMs
  const silentLimitMs = blockMs + blockErrorMs(blockMs)
  const calls = new Map(sent.map((call) => [call.id, call]))
  let first = Infinity
  for (const { id, at } of there) {
    const call = id === null ? undefined : calls.get(id)
    if (call === undefined || call.endedAt < faultAt) continue
    const dueAt = at + ttftMs + firstTokenErrorMs(ttftMs)
    if ((call.firstTokenAt ?? Infinity) > dueAt) first = Math.min(first, dueAt)
    const { silence } = call
    if (silence !== null && silence.ms > silentLimitMs) first = Math.min(first, silence.from + silentLimitMs)
  }
  return first === Infinity ? null : Math.max(first, faultAt)
}
