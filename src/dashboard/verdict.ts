/** Whether the fleet is healthy, in words: the first line of the page. */
import type { Concern } from './concerns.ts'
import { type EngineLine, objectiveOf } from './engine-state.ts'
import { ms, number, percent, plural } from './format.ts'
import { isHighRejection, rejectedShare } from './rejections.ts'
import type { View } from './wire.ts'

export type Tone = 'good' | 'warn' | 'bad'

export interface Verdict {
  readonly tone: Tone
  /** The most severe finding. */
  readonly headline: string
  /** The others, and what is normal. */
  readonly more: readonly string[]
  /** Section of the runbook about the headline. null: the headline counts problems or warnings. */
  readonly help: string | null
}

/** Failed requests below this share are not worth a look: clients cancel and send invalid requests, too. */
const FAILED_SHARE = 0.01

export function verdictOf(view: View, lines: readonly EngineLine[], concerns: readonly Concern[]): Verdict {
  const found = [...engineFindings(lines, concerns), ...trafficFindings(view), ...warnings(concerns)]
  const [first, ...rest] = found
  if (first === undefined)
    return { tone: 'good', headline: 'The fleet is healthy', more: [trafficText(view)], help: null }
  return { tone: first.tone, headline: first.text, more: rest.map(({ text }) => text), help: first.help }
}

interface Finding {
  readonly tone: Tone
  readonly text: string
  readonly help: string | null
}

function engineFindings(lines: readonly EngineLine[], concerns: readonly Concern[]): Finding[] {
  if (lines.length === 0) return [warn('No engine is configured', 'no-engine')]
  const problems = concerns.filter(({ tone }) => tone === 'bad').length
  return [
    ...(lines.every(({ state }) => state !== 'up') ? [bad('No engine can take requests', 'no-engine')] : []),
    ...(problems === 0 ? [] : [bad(plural(problems, 'problem'))]),
  ]
}

function trafficFindings({ now, pools }: View): Finding[] {
  const { ttft_p95_ms: ttftMs = null, failed_share: failed = null, rejected_per_s: rejected = null } = now ?? {}
  const objectiveMs = objectiveOf(pools)
  return [
    ...((failed ?? 0) >= FAILED_SHARE ? [bad(`${percent(failed)} of requests fail`, 'failed')] : []),
    ...(objectiveMs !== null && (ttftMs ?? 0) > objectiveMs
      ? [warn(`TTFT p95 of ${ms(ttftMs)} is above the objective of ${ms(objectiveMs)}`, 'slow')]
      : []),
    ...((rejected ?? 0) > 0 ? [rejectedFinding(now, number(rejected))] : []),
  ]
}

function rejectedFinding(now: View['now'], perS: string): Finding {
  const share = rejectedShare(now)
  const text = `${perS} requests/s are rejected${share === null ? '' : ` (${percent(share)})`}`
  return isHighRejection(now) ? bad(text, 'rejected') : warn(text, 'rejected')
}

function warnings(concerns: readonly Concern[]): Finding[] {
  const found = concerns.filter(({ tone }) => tone === 'warn').length
  return found === 0 ? [] : [warn(plural(found, 'warning'))]
}

const bad = (text: string, help: string | null = null): Finding => ({ tone: 'bad', text, help })

const warn = (text: string, help: string | null = null): Finding => ({ tone: 'warn', text, help })

const trafficText = ({ now }: View): string =>
  (now?.requests_per_s ?? 0) > 0 ? 'nothing needs attention' : 'nothing needs attention, and there is no traffic'
