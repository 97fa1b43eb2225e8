/** The doctor's report as text, as JSON and as an exit code. */
import { type EngineGroup, groupFindings } from './equal-findings.ts'
import type { Finding, Severity, Subject } from './finding.ts'

type Counts = Readonly<Record<Severity, number>>

export function countsOf(subjects: readonly Subject[]): Counts {
  const counts: Record<Severity, number> = { ok: 0, note: 0, warning: 0, problem: 0, unreachable: 0 }
  for (const { findings } of subjects) for (const { mark } of findings) counts[mark]++
  return counts
}

/** 0: no problems. 1: problems (with `strict`: or warnings). 2: something was unreachable. */
export function exitCodeOf({ warning, problem, unreachable }: Counts, strict: boolean): number {
  if (unreachable > 0) return 2
  return problem > 0 || (strict && warning > 0) ? 1 : 0
}

const SIGNS: Readonly<Record<Severity, string>> = { ok: '✓', note: '·', warning: '!', problem: '✗', unreachable: '✗' }

const WIDTH = 110

/**
 * Equal findings of several engines follow the last engine, once, with the list of these engines.
 * @param brief omits findings of severity `ok`
 */
export function reportLines(subjects: readonly Subject[], brief: boolean): string[] {
  const width = Math.max(0, ...subjects.flatMap(({ findings }) => findings.map(({ check }) => check.length)))
  const isVisible = ({ mark }: Finding): boolean => !brief || mark !== 'ok'
  const { groups, own } = groupFindings(subjects, isVisible)
  const lastEngine = subjects.findLast(({ kind }) => kind === 'engine')
  const engineCount = subjects.filter(({ kind }) => kind === 'engine').length
  const lines: string[] = []
  for (const subject of subjects) {
    lines.push(headerOf(subject))
    const findings = own(subject)
    for (const finding of findings) lines.push(...findingLines(finding, width))
    if (!subject.findings.some(isVisible)) lines.push(`  ${SIGNS.ok} no problems`)
    lines.push('')
    if (subject !== lastEngine) continue
    for (const group of groups) {
      lines.push(...groupHeader(group, engineCount))
      for (const finding of group.findings) lines.push(...findingLines(finding, width))
      lines.push('')
    }
  }
  return [...lines, summaryLine(subjects)]
}

const headerOf = ({ kind, name, url, is }: Subject): string =>
  [`${kind} ${name}`, url, is].filter((part) => part !== null && part !== '').join('  ')

function groupHeader({ engines }: EngineGroup, engineCount: number): string[] {
  const scope = engines.length === engineCount ? `all ${engineCount}` : `${engines.length} of ${engineCount}`
  return wrap(`${scope} engines: ${engines.map(({ name }) => name).join(', ')}`, WIDTH)
}

function findingLines({ check, mark, message, costs, next }: Finding, width: number): string[] {
  const indent = ' '.repeat(width + 6)
  const lines = wrap(message, WIDTH - indent.length).map(
    (line, at) => (at === 0 ? `  ${SIGNS[mark]} ${check.replaceAll('_', ' ').padEnd(width)}  ` : indent) + line,
  )
  if (costs !== undefined) lines.push(...wrap(costs, WIDTH - indent.length).map((line) => indent + line))
  if (next !== undefined)
    lines.push(...wrap(next, WIDTH - indent.length - 2).map((line, at) => `${indent}${at === 0 ? '→ ' : '  '}${line}`))
  return lines
}

function wrap(text: string, width: number): string[] {
  const lines: string[] = []
  let line = ''
  for (const word of text.split(' ')) {
    if (line !== '' && line.length + 1 + word.length > width) {
      lines.push(line)
      line = word
    } else line = line === '' ? word : `${line} ${word}`
  }
  return [...lines, line]
}

function summaryLine(subjects: readonly Subject[]): string {
  const { ok, note, warning, problem, unreachable } = countsOf(subjects)
  const parts = [`${ok} fine`, counted(note, 'note'), counted(warning, 'warning'), counted(problem, 'problem')]
  if (unreachable > 0) parts.push(`${unreachable} unreachable`)
  return `${parts.join(', ')}.`
}

const counted = (count: number, what: string): string =>
  `${count === 0 ? 'no' : count} ${what}${count === 1 ? '' : 's'}`

/** Builds the JSON report. It contains no headers and no keys. */
export function reportJson(
  subjects: readonly Subject[],
  { exitCode, at }: { readonly exitCode: number; readonly at: string },
): object {
  return { version: 1, at, exit_code: exitCode, counts: countsOf(subjects), subjects }
}
